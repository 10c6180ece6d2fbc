// One question to a program outside, and its answer. Private to compiler/generators.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// Runs `program` in a process group of its own with `question` as its standard input, and returns what it wrote
/// to its standard output once it has ended with code 0. The answer has at most 16 MiB. Whatever happens, nothing
/// of that group is left when this returns. kInvalidInput with what went wrong (late, too long, a signal, a code,
/// and the end of its standard error), kResourceExhausted if there are no processes left; errors of the temporary
/// files that the three streams are.
Result<std::string> ask_program(const std::filesystem::path& program, const std::string& question,
                                std::chrono::milliseconds time_limit);

}  // namespace millrace::compiler::generators
