// A generator outside of Millrace: a program that is asked for candidates, and for SystemVerilog, in JSON.
// Its candidates are weighed like any other's. The protocol is described in README.md.
#pragma once

#include <chrono>
#include <cstdint>
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

/// What the cost model calls a plugin's module; its parameters are what the plugin promised.
inline constexpr const char* kPluginModule = "plugin";

struct PluginCandidate {
  std::string id;
  std::uint64_t interval_cycles = 1, depth_cycles = 1;
  std::uint32_t input_lanes = 1, output_lanes = 1;
  double lead = 0;
  std::uint64_t memory_bytes = 0;
  Cost cost;
};

/// Files of a module a plugin wrote: its own first; all names begin with the module's.
struct PluginModule {
  std::vector<Source> sources;
  std::vector<MemoryFile> files;
};

/// Every call of the program ends: it has `time_limit`, and so many bytes to answer with; then it is killed,
/// with all it started. What it writes to its standard error is in the error's message. Any thread.
class Plugin {
 public:
  /// kInvalidInput where `program` cannot be run.
  static Result<std::shared_ptr<Plugin>> open(
      const std::filesystem::path& program, std::chrono::milliseconds time_limit = std::chrono::seconds(30));

  /// Asks for the candidates of all blocks not asked for yet, in one call. kInvalidInput where it does not
  /// answer as README.md says: the message names plugin, block and field.
  Status prepare(const kernels::Program& program);

  /// What it offered for such a block; empty where nothing, or where it was not asked.
  std::vector<PluginCandidate> offered(const kernels::Program& program, const kernels::Block& block) const;

  /// The module of a candidate. kUnsupported where the plugin is for plans only.
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

  mutable std::mutex mutex_;                                     // protects what follows
  std::map<std::string, std::vector<PluginCandidate>> offered_;  // by the block as it was described
  bool builds_ = false;
};

/// A block's ways of its own generator (null: none) and of the plugin's together; the plugin outlives it.
std::unique_ptr<Generator> with_plugin(std::unique_ptr<Generator> own, const Plugin& plugin,
                                       const kernels::Program& program, std::uint32_t block);

}  // namespace millrace::compiler::generators
