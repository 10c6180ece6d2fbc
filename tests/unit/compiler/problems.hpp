// Small problems for tests of the exploration, and checks of their solutions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

/// Layers in a row, on equal cards in a row. Each layer can be built with 1, 2, 4 … multipliers, which take a DSP slice
/// each.
Problem row(const std::vector<std::uint64_t>& work, std::uint32_t cards, std::uint64_t dsp);

/// The solution, after verify(). The test fails if there is none.
Solution verified(const Problem& problem, Result<Solution> found);

/// The error's message, or "accepted" if there is no error. The test fails if the error has another code.
std::string refusal_of(const Result<Solution>& found, ErrorCode code);

void expect(const std::string& text, const std::string& part);

}  // namespace millrace::compiler::explore::tests
