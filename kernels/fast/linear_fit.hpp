// Thresholds that came from a scale: found again as the float32 arithmetic that they describe, and proved
// equal.
//
// The usual requantisation of a quantised net is clamp(round_half_even(float32(acc) * scale) + zero point).
// Programs hold it as a table of thresholds where no integer multiply-shift equals it; a handful of vector
// instructions compute it.
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

/// `thresholds` ascend; count(acc) is how many of them acc reaches. An exact fit (bias 0) equals it for every
/// acc of `range`; nothing where none was found. `lowest` is the output that stands for a count of 0.
std::optional<LinearFit> fit_exactly(std::span<const std::int64_t> thresholds, AccumulatorRange range,
                                     std::int32_t lowest);

/// As above, but count(acc) or count(acc) + 1; add is 0.
std::optional<LinearFit> fit_from_below(std::span<const std::int64_t> thresholds, AccumulatorRange range);

}  // namespace millrace::kernels::fast
