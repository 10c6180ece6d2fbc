// Small problems for tests of the exploration, and checks of their solutions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

/// Returns a problem with a chain of layers and a chain of equal cards. Each layer can be built with 1, 2, 4 …
/// multipliers, and each multiplier uses one DSP slice.
Problem row(const std::vector<std::uint64_t>& work, std::uint32_t cards, std::uint64_t dsp);

/// Checks the solution with verify() and returns it. The test fails if there is no solution or verify() refuses it.
Solution verified(const Problem& problem, Result<Solution> found);

/// Returns the error's message, or "accepted" if there is no error. The test fails if the error's code is not `code`.
std::string refusal_of(const Result<Solution>& found, ErrorCode code);

void expect(const std::string& text, const std::string& part);

}  // namespace millrace::compiler::explore::tests
