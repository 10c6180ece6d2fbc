// One question to a program outside, and its answer. Private to compiler/generators.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

struct ProcessLimits {
  std::chrono::milliseconds time = std::chrono::seconds(30);
  std::size_t answer_bytes = std::size_t{16} << 20U;
};

/// Runs `program` in a process group of its own, writes `question` to its standard input, and returns what it
/// wrote to its standard output once it has ended with code 0. Whatever happens, nothing of that group is
/// left when this returns. kInvalidInput with what went wrong (not started, late, too long, a signal, a code,
/// and the end of its standard error).
Result<std::string> ask_program(const std::filesystem::path& program, const std::string& question,
                                const ProcessLimits& limits);

}  // namespace millrace::compiler::generators
