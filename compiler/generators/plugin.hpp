// An external generator: a program that is asked in JSON for candidates and for SystemVerilog. Exploration
// treats its candidates like our own. README.md describes the protocol.
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

/// The name of a plugin's module in the cost model; its parameters are the figures that the plugin promised.
inline constexpr const char* kPluginModule = "plugin";

/// The files of a module that a plugin wrote. The first is the module itself, and all names begin with its
/// name.
struct PluginModule {
  std::vector<Source> sources;
  std::vector<MemoryFile> files;
};

/// Every call of the program is bounded in time (`time_limit`) and in the size of its answer. Beyond that the
/// program and all processes it started are killed. Errors quote its standard error. Any thread.
class Plugin {
 public:
  /// kInvalidInput if `program` is not executable.
  static Result<std::shared_ptr<Plugin>> open(
      const std::filesystem::path& program, std::chrono::milliseconds time_limit = std::chrono::seconds(30));

  /// Asks for the candidates of all blocks that were not asked for yet, in one call. kInvalidInput if the
  /// answer violates the protocol: the message names plugin, block and field.
  Status prepare(const kernels::Program& program);

  /// The candidates for such a block; empty if there are none, or if it was not asked.
  std::vector<Candidate> offered(const kernels::Program& program, const kernels::Block& block) const;

  /// The netlist of a candidate: an instance of the plugin's module, which is asked for if memories are wanted.
  Result<Netlist> construct(const kernels::Program& program, const kernels::Block& block,
                            const Candidate& candidate, NetlistBuilder& netlist) const;

  /// The module of a candidate. kUnsupported if the plugin only makes candidates.
  Result<PluginModule> build(const kernels::Program& program, const kernels::Block& block,
                             const std::string& candidate, const std::string& module) const;

  std::string name() const { return program_.filename().string(); }

 private:
  Plugin(std::filesystem::path program, std::chrono::milliseconds time_limit)
      : program_(std::move(program)), time_limit_(time_limit) {}
  Error wrong(const std::string& what) const;
  Result<std::string> call(const std::string& request) const;

  // Constant after open().
  std::filesystem::path program_;
  std::chrono::milliseconds time_limit_;

  mutable std::mutex mutex_;                               // protects what follows
  std::map<std::string, std::vector<Candidate>> offered_;  // by the block as it was described
  bool builds_ = false;
};

}  // namespace millrace::compiler::generators
