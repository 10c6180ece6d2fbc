// Proves that an integer step function equals a float32 one, and finds the cheapest such function.
//
// A non-decreasing function of an integer with results in [lowest, highest] is determined by its step positions: for
// each result k above the first, the smallest accumulator that gives at least k. solve() finds these positions by
// bisection of the reference.
//
// A requantisation by multiplier, offset and shift equals the reference if both have each step at the same accumulator.
// So each step k bounds the line (acc * multiplier + offset) / 2^shift twice: the line must be at least k at the step's
// accumulator, and below k at the accumulator before. These bounds determine the possible slopes exactly. Arithmetic is
// on integers (128 bits if needed), so "proved" means for every reachable accumulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

/// A range of integers that includes both ends.
struct Range {
  std::int64_t lowest = 0, highest = 0;
};

/// Maps (accumulator, channel) to a result that never decreases as the accumulator grows over the channel's range.
using Reference = std::function<std::int64_t(std::int64_t, std::size_t)>;

struct RequantiseProblem {
  Reference reference;
  std::vector<Range> accumulators;       // the reachable accumulators of each channel
  std::int64_t lowest = 0, highest = 0;  // range of the output type; contains all results of the reference
  bool needs_thresholds = false;         // whether the form must be kThresholds, as for bipolar results
};

/// Finds a requantisation that equals the reference. All channels use the same form: the first of kMultiplyShift,
/// kMultiplyShiftHalfEven and kThresholds that is possible for every channel. A channel's multiplier has the smallest
/// possible shift. If all channels are equal, the result has one entry. Returns kUnsupported if the reference
/// decreases or leaves the range of the output type.
Result<kernels::Requantise> solve(const RequantiseProblem& problem);

/// Checks that `candidate` equals the reference for every reachable accumulator of every channel, without overflow of
/// its 64-bit arithmetic. Returns an empty text if they are equal, otherwise a sentence that names the first channel
/// and accumulator that differ. Shares no code with solve().
std::string prove(const kernels::Requantise& candidate, const RequantiseProblem& problem);

}  // namespace millrace::compiler::passes
