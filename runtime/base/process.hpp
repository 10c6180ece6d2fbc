// Programs run to their end: compilers and tools of the machine, for their output and exit code.
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
  int exit_code = -1;  // where it ended by itself
  int signal = 0;      // where one ended it
  std::string output;  // both of its outputs together, the last megabyte
  bool ok() const { return signal == 0 && exit_code == 0; }
};

/// The program as PATH has it; none where it is not there or may not be run. A name with a slash is taken as
/// it is.
std::optional<std::filesystem::path> find_program(std::string_view name);

/// What a caller that does not just wait wants.
struct ChildWatch {
  std::stop_token stop = {};                             // asked to stop: the child is killed
  std::function<void(std::string_view)> on_output = {};  // each part of its output, as it comes
  int niceness = 0;                                      // lower priority, as nice(1)
};

/// Runs `command` in `directory` (empty: the current one) with nothing of this process but its environment,
/// and waits for its end. It is told to end (SIGTERM) where the calling thread ends first. `command[0]` is a
/// path. kEnvironment where it cannot be started, kResourceExhausted where there are no descriptors or
/// processes left. Any thread.
Result<ChildOutcome> run_child(const std::vector<std::string>& command,
                               const std::filesystem::path& directory = {}, const ChildWatch& watch = {});

}  // namespace millrace
