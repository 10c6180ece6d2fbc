// Where each operation runs: contiguous cuts of the layers, one card a piece. Pure functions: a problem in, a
// solution out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::explore {

/// What runs together: operations of one stage on one place.
struct Part {
  bool host = false;
  std::uint32_t place = 0;  // which of the cards used, counted from 0; 0 on the host
  std::uint32_t stage = 0;
  std::vector<std::uint32_t> operations;  // ascending
  bool operator==(const Part&) const = default;
};

struct Solution {
  std::vector<Part> parts;           // topological order
  std::vector<std::uint32_t> card;   // place -> a card of the problem that has the cables it needs
  std::uint64_t largest_cost = 0;    // of a place
  std::uint64_t crossing_bytes = 0;  // a frame, summed over the cuts each tensor crosses
  bool operator==(const Solution&) const = default;
};

/// Cuts the layers, in order, into contiguous pieces so that the largest cost is smallest, then so that the
/// fewest bytes cross the cuts, then as early as possible. As many pieces as asked for, else as many as there
/// are cards, at most one a layer, fewer where no cut uses only existing cables. Cuts in which a tensor skips
/// a card are taken only where the cards have cables for it. Errors: kDoesNotFit (more pieces than layers or
/// cards, cables missing; says which), kUnsupported (a tensor that would go from a card to itself around the
/// host), kInvalidInput (nothing for a card to do).
Result<Solution> solve(const Problem& problem);

/// What a solution of that problem must satisfy, recomputed from nothing. Empty where all holds.
std::string verify(const Problem& problem, const Solution& solution);

}  // namespace millrace::compiler::explore
