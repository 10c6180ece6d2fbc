// Small problems of the exploration, and what is said of their solutions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

/// Layers in a row on equal cards in a row; each can be built with 1, 2, 4 … times the work side by side, a
/// DSP each.
Problem row(const std::vector<std::uint64_t>& work, std::uint32_t cards, std::uint64_t dsp);

/// The solution, verified; a failure of the test where there is none.
Solution verified(const Problem& problem, Result<Solution> found);

/// The message of an error of that code (another one fails the test), "accepted" where there is none.
std::string refusal_of(const Result<Solution>& found, ErrorCode code);

void expect(const std::string& text, const std::string& part);

}  // namespace millrace::compiler::explore::tests
