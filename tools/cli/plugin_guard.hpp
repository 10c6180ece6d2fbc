// Lets a command call the code of plugins without being ended by it. `millrace verify` computes the expected outputs with
// the plugins of a deployment. Their code may crash, or may never return.
#pragma once

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::cli {

/// The end of a child process in which the rest of a command runs.
class PluginGuard {
 public:
  /// Continues the command in a child process, in which alone this function returns successfully. The parent process waits
  /// for the child and ends with the child's exit code; it returns kInvalidInput if a signal ended the child, and names the
  /// block that a plugin was computing. Call it before the process starts a thread or prints anything. kResourceExhausted
  /// if there is no process or memory for the child.
  static Result<PluginGuard> continue_in_child();

  /// Makes each model of a plugin in `program` note its block while it computes, and limits the time that it may take. The
  /// guard must outlive the program's models.
  void watch(kernels::Program& program) const;

 private:
  explicit PluginGuard(char* note) : note_(note) {}
  char* note_;  // what a plugin computes now: a text in memory that parent and child share until they end
};

}  // namespace millrace::cli
