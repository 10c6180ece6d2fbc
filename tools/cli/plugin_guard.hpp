// Lets a command call the code of plugins without being ended by it. `millrace verify` computes the expected outputs with
// the plugins of a deployment. Their code may crash, or may never return.
#pragma once

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::cli {

/// The end of a child process in which the rest of a command runs.
class PluginGuard {
 public:
  /// Starts a child process, in which this function returns successfully and the command continues. In the parent
  /// process, this function waits for the child and ends the parent with the child's exit code. If a signal ended the
  /// child, it returns kInvalidInput in the parent, naming the block that a plugin was computing. Call it before the
  /// process starts a thread or prints anything. Returns kResourceExhausted if the system has no process or memory for
  /// the child.
  static Result<PluginGuard> continue_in_child();

  /// Loads the plugins of `program` (runtime::plugins::load_models()). Each call of a plugin's code, also while its
  /// library is loaded, first stores the name of its block in the memory that parent and child share. A call that takes
  /// too long ends the process. The guard must outlive the program's models.
  Status load_models(kernels::Program& program) const;

 private:
  explicit PluginGuard(char* note) : note_(note) {}
  char* note_;  // what a plugin computes now: a text in memory that parent and child share until they end
};

}  // namespace millrace::cli
