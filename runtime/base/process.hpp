// Runs programs of the machine, such as compilers, to their end and collects their output and exit code.
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
  int signal = 0;      // the signal that ended the program; 0: none
  std::string output;  // standard output and error together, the last megabyte
  bool ok() const { return signal == 0 && exit_code == 0; }
};

/// Searches PATH for an executable program. A name with a slash is not searched for.
std::optional<std::filesystem::path> find_program(std::string_view name);

/// Options of run_child().
struct ChildWatch {
  std::stop_token stop = {};                             // on a request to stop, the child is killed
  std::function<void(std::string_view)> on_output = {};  // gets each part of the output as it comes
  int niceness = 0;                                      // lower priority, as nice(1)
};

/// Runs `command` in `directory` (empty: the current one) and waits for its end. The child inherits the
/// environment and no descriptors. It gets SIGTERM if the calling thread ends first. `command[0]` is a path.
/// kEnvironment if the program cannot be started, kResourceExhausted if there are no descriptors or processes
/// left. Any thread.
Result<ChildOutcome> run_child(const std::vector<std::string>& command,
                               const std::filesystem::path& directory = {}, const ChildWatch& watch = {});

}  // namespace millrace
