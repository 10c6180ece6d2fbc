// Runs installed programs, such as compilers, waits until they end, and collects their output and exit code.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace {

struct ChildOutcome {
  int exit_code = -1;  // -1: a signal ended the program
  int signal = 0;      // the signal that ended the program, or 0
  std::string output;  // the last megabyte of standard output and standard error together
  bool ok() const { return signal == 0 && exit_code == 0; }
};

/// Searches PATH for an executable program. A name with a slash is a path and is not searched for.
std::optional<std::filesystem::path> find_program(std::string_view name);

/// Options of run_child().
struct ChildWatch {
  std::stop_token stop = {};                             // a stop request kills the child
  std::function<void(std::string_view)> on_output = {};  // is called with each part of the output
  int niceness = 0;                                      // lowers the child's priority, as nice(1) does
};

/// Runs `command` in `directory` (if empty, in the current one) and waits until it ends. `command[0]` is a path. The
/// child inherits the environment but no descriptors. It receives SIGTERM if the calling thread ends first. Returns
/// kEnvironment if the program cannot start, and kResourceExhausted if no descriptors or processes are left. Any thread
/// may call it.
Result<ChildOutcome> run_child(const std::vector<std::string>& command,
                               const std::filesystem::path& directory = {}, const ChildWatch& watch = {});

}  // namespace millrace
