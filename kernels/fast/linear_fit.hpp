// Finds a float32 scale that gives the same results as a table of thresholds, and proves that it does.
//
// The usual requantisation of a quantised net is clamp(round_half_even(float32(acc) * scale) + zero point). A
// program holds it as a table of thresholds if no integer multiply-shift equals it. A few vector instructions
// compute the float32 form.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {

/// count = round_half_even(clamp(float32(acc) * scale + bias, least, most)) + add
struct LinearFit {
  float scale = 0, bias = 0, least = 0, most = 0;
  std::int32_t add = 0;
  std::int32_t count(std::int32_t acc) const;
};

/// `thresholds` ascend; an accumulator reaches those that are at most its value. Returns a fit (with bias 0)
/// whose count(acc) is the number of thresholds reached, for every acc of `range`, or nothing if none was found.
/// `lowest` is the output for a count of 0.
std::optional<LinearFit> fit_exactly(std::span<const std::int64_t> thresholds, AccumulatorRange range,
                                     std::int32_t lowest);

/// As above, but the number of thresholds reached is count(acc) or count(acc) + 1. `add` is 0.
std::optional<LinearFit> fit_from_below(std::span<const std::int64_t> thresholds, AccumulatorRange range);

}  // namespace millrace::kernels::fast
