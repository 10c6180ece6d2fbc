// Proves that an integer step function equals a float32 one, and finds the cheapest such function (numerics.md,
// "Requantise").
//
// A non-decreasing function of an integer with results in [lowest, highest] is determined by its step positions:
// for each result k above the first, the smallest accumulator that gives at least k. solve() finds them by
// bisection of the reference. A multiplier, offset and shift equal the reference exactly if each step is at the
// same accumulator. So each step bounds the line (acc * multiplier + offset) / 2^shift twice: the line must reach
// a value at the step's accumulator, and stay below it at the accumulator before. The bounds determine the
// possible slopes exactly. All arithmetic is on integers, with 128 bits if needed. "Proved" therefore means for
// every reachable accumulator, not for a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

/// Both ends are included.
struct Range {
  std::int64_t lowest = 0, highest = 0;
};

/// (accumulator, channel) -> result. Non-decreasing in the accumulator over the channel's range.
using Reference = std::function<std::int64_t(std::int64_t, std::size_t)>;

struct RequantiseProblem {
  Reference reference;
  std::vector<Range> accumulators;       // the reachable ones, per channel
  std::int64_t lowest = 0, highest = 0;  // of the output type; holds all results of the reference
};

/// Uses one form for all channels: the first of kMultiplyShift, kMultiplyShiftHalfEven and kThresholds that every
/// channel admits. A channel's multiplier has the smallest possible shift. If all channels are equal, one entry
/// is written. Fails (kUnsupported) if the reference is found to decrease or leaves the output type.
Result<kernels::Requantise> solve(const RequantiseProblem& problem);

/// Empty if `candidate` equals the reference for every reachable accumulator of every channel, without overflow
/// of its 64-bit arithmetic. Otherwise a sentence that names the first channel and accumulator that differ.
/// Independent of solve().
std::string prove(const kernels::Requantise& candidate, const RequantiseProblem& problem);

}  // namespace millrace::compiler::passes
