// Proves an integer step function equal to a float32 one, and finds the cheapest that is (numerics.md,
// "Requantise").
//
// A non-decreasing function of an integer with results in [lowest, highest] is decided by its step positions:
// for each result k above its first, the smallest accumulator that gives at least k. They are found by
// bisection of the reference; a multiplier, offset and shift are equal to it exactly if each step falls on
// the same accumulator. A step is two demands on the line (acc * multiplier + offset) / 2^shift, to be
// reached at one accumulator and not yet at the one before: rounding down, by k; rounding half to even, by k
// - 1/2, which itself belongs to the even one of k - 1 and k (less the zero point). The demands bound the
// slope exactly, so that a function without a line is known as such, and a multiplier of the fewest bits is
// found otherwise. Everything is exact integer arithmetic (128 bits where needed), so "proved" means for
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

/// Inclusive.
struct Range {
  std::int64_t lowest = 0, highest = 0;
};

/// (accumulator, channel) -> result. Non-decreasing in the accumulator over the channel's range.
using Reference = std::function<std::int64_t(std::int64_t, std::size_t)>;

struct RequantiseProblem {
  Reference reference;
  std::vector<Range> accumulators;       // what is reachable, a channel
  std::int64_t lowest = 0, highest = 0;  // of the output type; the reference stays inside
};

/// One form for all channels, the first that every channel admits: kMultiplyShift, kMultiplyShiftHalfEven,
/// kThresholds. In the first two each channel has its cheapest multiplier (fewest bits of shift). Equal
/// channels are written once. Fails (kUnsupported) where the reference is found to decrease, or leaves its
/// range.
Result<kernels::Requantise> solve(const RequantiseProblem& problem);

/// Empty where `candidate` equals the reference for every reachable accumulator of every channel (and its
/// 64-bit arithmetic cannot overflow there), else a sentence with the first channel and accumulator that
/// differ. Independent of solve().
std::string prove(const kernels::Requantise& candidate, const RequantiseProblem& problem);

}  // namespace millrace::compiler::passes
