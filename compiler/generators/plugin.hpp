// An external generator: a program that is asked in JSON for candidates and for SystemVerilog. Exploration treats a
// plugin's candidates like our own. README.md describes the protocol.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// The name of plugins' modules in the cost model. Their parameters are the figures that the plugin promised.
inline constexpr const char* kPluginModule = "plugin";

/// The files of a module that a plugin wrote. The first file is the module. All names begin with the module's name.
struct PluginModule {
  std::vector<Source> sources;
  std::vector<MemoryFile> files;
};

/// Nodes of a model that a plugin computes as one block.
struct PluginSubgraph {
  std::string name;                // of the block
  std::vector<std::size_t> nodes;  // indices of nodes of the graph, ascending
  kernels::PluginOperator op;
};

/// Calls an external generator: a program, or a shared library (runtime/plugins) that the program millrace-plugin loads.
/// Each call is limited in time (`time_limit`) and in the size of the answer. If the program exceeds a limit, it is killed
/// together with all processes that it started. Errors name the plugin and what it was asked for, and quote the program's
/// standard error. Any thread may call this class.
class Plugin {
 public:
  /// Returns kInvalidInput if `program` is neither executable nor a shared library.
  static Result<std::shared_ptr<Plugin>> open(
      const std::filesystem::path& program, std::chrono::milliseconds time_limit = std::chrono::seconds(30));

  /// Asks in one call for the candidates of all blocks that the plugin was not asked about before. kInvalidInput if the
  /// answer violates the protocol: the message names plugin, block and field.
  Status prepare(const kernels::Program& program);

  /// Returns the plugin's candidates (the hardware that it proposes) for a block; empty if there are none or prepare()
  /// has not asked the plugin about the block.
  std::vector<Candidate> offered(const kernels::Program& program, const kernels::Block& block) const;

  /// Returns a candidate's netlist, one instance of the plugin's module. Calls build() if memory files are wanted.
  Result<Netlist> construct(const kernels::Program& program, const kernels::Block& block,
                            const Candidate& candidate, NetlistBuilder& netlist) const;

  /// Asks the plugin for the module of a candidate. kUnsupported if the plugin declares that its candidates are for
  /// plans only.
  Result<PluginModule> build(const kernels::Program& program, const kernels::Block& block,
                             const std::string& candidate, const std::string& module) const;

  /// Asks the plugin which nodes of a model it computes. `graph` describes the model in JSON (README.md), and `nodes` are
  /// the names of its nodes in order. Only libraries are asked; a program selects nothing. kInvalidInput, with at most ten
  /// lines: the answer names nodes that do not exist, that two subgraphs share or that are taken, or a device or name
  /// that is not possible.
  Result<std::vector<PluginSubgraph>> partition(const std::string& graph,
                                                const std::vector<std::string>& nodes,
                                                const std::vector<bool>& taken) const;

  std::string name() const { return program_.filename().string(); }
  const std::filesystem::path& file() const { return program_; }
  /// The SHA-256 of the shared library; empty if the plugin is a program.
  const std::string& library() const { return library_; }

 private:
  Plugin(std::filesystem::path program, std::chrono::milliseconds time_limit)
      : program_(std::move(program)), time_limit_(time_limit) {}
  struct Asked;

  /// Makes an error from what went wrong when the plugin was asked for `task`.
  Error wrong(const std::string& task, const std::string& what) const;
  Result<std::string> call(const std::string& task, const std::string& request) const;
  bool is_asked_about(const kernels::Program& program, const kernels::Block& block) const;
  Status ask_for_candidates(const kernels::Program& program, const std::vector<Asked>& blocks);
  Status read_candidates(const kernels::Program& program, const std::vector<Asked>& blocks,
                         const std::string& answer);

  // The next four members are constant after open().
  std::filesystem::path program_;
  std::vector<std::string> command_;  // what is run to ask the plugin
  std::string library_;
  std::chrono::milliseconds time_limit_;

  mutable std::mutex mutex_;                               // protects the members below
  std::map<std::string, std::vector<Candidate>> offered_;  // the key is the block's description in JSON
  bool builds_ = false;
};

}  // namespace millrace::compiler::generators
