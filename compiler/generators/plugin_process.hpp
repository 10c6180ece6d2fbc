// Asks an external program one question and reads its answer. Private to compiler/generators.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// Runs `command`, a program's path and its arguments, in a new process group with `question` as standard input. Returns
/// the program's standard output, at most 16 MiB, if the program ends with code 0. When this function returns, every
/// process of the group has been killed. kInvalidInput if the program is too slow, writes too much, or ends with a signal or another code; the
/// message quotes the end of its standard error. kResourceExhausted if no process can be started. Other errors come
/// from the temporary files that serve as standard streams.
Result<std::string> ask_program(const std::vector<std::string>& command, const std::string& question,
                                std::chrono::milliseconds time_limit);

}  // namespace millrace::compiler::generators
