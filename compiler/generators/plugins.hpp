// The plugins of one command, in the order of the option --plugins. Their candidates for a block are offered together.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/generators/plugin.hpp"

namespace millrace::compiler::generators {

/// Several plugins that are asked one after the other. If two plugins give the same name to a candidate for one block,
/// the candidate of the later plugin is called "<file name of the plugin>.<name>". Any thread may call this class.
class Plugins {
 public:
  /// Opens each plugin. `programs` must not be empty. `time_limit` applies to each call of a plugin. kInvalidInput
  /// names the entry of `programs` that is no executable file or has the file name of another entry.
  static Result<std::shared_ptr<Plugins>> open(
      const std::vector<std::filesystem::path>& programs,
      std::chrono::milliseconds time_limit = std::chrono::seconds(30));

  /// Calls Plugin::partition() of each plugin, in order. `describe` returns the graph in JSON, with a note at the nodes
  /// that earlier plugins have taken. `nodes` are the names of the graph's nodes.
  Result<std::vector<PluginSubgraph>> partition(
      const std::function<std::string(const std::vector<bool>& taken)>& describe,
      const std::vector<std::string>& nodes) const;

  /// Returns the shared library of each plugin operator in the program, by its SHA-256. kCorrupt: the file has changed
  /// since open(). Other errors are those of read_file().
  Result<std::map<std::string, std::vector<std::byte>>> libraries_of(const kernels::Program& program) const;

  /// Calls Plugin::prepare() of each plugin. Stops at the first error.
  Status prepare(const kernels::Program& program);

  /// Returns the candidates (the hardware that plugins propose) of all plugins for a block, in the order of the
  /// plugins.
  std::vector<Candidate> offered(const kernels::Program& program, const kernels::Block& block) const;

  /// Calls Plugin::construct() of the plugin that offers `candidate`, which offered() must have returned.
  Result<Netlist> construct(const kernels::Program& program, const kernels::Block& block,
                            const Candidate& candidate, NetlistBuilder& netlist) const;

  /// Returns the file names of the plugins for messages: "'a', 'b'".
  std::string names() const;

 private:
  /// A candidate (hardware that a plugin proposes for a block), and the plugin, which knows the candidate by the name
  /// `id`.
  struct Offer {
    const Plugin* plugin;
    std::string id;
    Candidate candidate;
  };
  explicit Plugins(std::vector<std::shared_ptr<Plugin>> plugins) : plugins_(std::move(plugins)) {}
  std::vector<Offer> offers(const kernels::Program& program, const kernels::Block& block) const;

  std::vector<std::shared_ptr<Plugin>> plugins_;  // constant after open()
};

}  // namespace millrace::compiler::generators
