#include "kernels/fast/linear_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::kernels::fast {
namespace {

std::int64_t reached(std::span<const std::int64_t> thresholds, std::int64_t acc) {
  return std::upper_bound(thresholds.begin(), thresholds.end(), acc) - thresholds.begin();
}

// Whether 0 <= exact - fit <= slack for every acc of the range. Both functions never decrease, and the exact
// one is constant between thresholds, so it is enough to check the ends of each constant stretch.
bool holds(const LinearFit& fit, std::span<const std::int64_t> thresholds, AccumulatorRange range,
           std::int64_t slack) {
  const auto holds_at = [&](std::int64_t acc) {
    const std::int64_t less = reached(thresholds, acc) - fit.count(static_cast<std::int32_t>(acc));
    return less >= 0 && less <= slack;
  };
  if (!holds_at(range.lowest) || !holds_at(range.highest)) return false;
  return std::all_of(thresholds.begin(), thresholds.end(), [&](std::int64_t t) {
    return t <= range.lowest || t > range.highest || (holds_at(t) && holds_at(t - 1));
  });
}

// The scales for which t * scale exceeds value - 1/2 at each threshold t but not at t - 1. They form an
// interval up to rounding errors, which holds() checks.
struct Interval {
  double low = 0, high = std::numeric_limits<double>::infinity();
  void at_least(double value, double acc) {
    if (acc > 0) low = std::max(low, value / acc);
    if (acc < 0) high = std::min(high, value / acc);
  }
  void at_most(double value, double acc) {
    if (acc > 0) high = std::min(high, value / acc);
    if (acc < 0) low = std::max(low, value / acc);
  }
};

}  // namespace

std::int32_t LinearFit::count(std::int32_t acc) const {
  const float product = static_cast<float>(acc) * scale;
  const float sum = product + bias;
  const float clamped = std::min(std::max(sum, least), most);
  return static_cast<std::int32_t>(std::nearbyint(clamped)) + add;
}

std::optional<LinearFit> fit_exactly(std::span<const std::int64_t> thresholds, AccumulatorRange range,
                                     std::int32_t lowest) {
  // An accumulator of 0 gives the zero point, unless the clamp hides it.
  const std::int64_t zero = reached(thresholds, 0);  // as a count
  // float32 holds whole numbers up to 2^24 exactly.
  if (std::abs(std::int64_t{lowest}) > (1 << 20) || thresholds.size() > (1U << 20U)) return std::nullopt;
  Interval scales;
  for (std::size_t i = 0; i < thresholds.size(); ++i) {
    const std::int64_t t = thresholds[i];
    if (t <= range.lowest || t > range.highest) continue;
    const double half = static_cast<double>(static_cast<std::int64_t>(i) + 1 - zero) - 0.5;
    scales.at_least(half, static_cast<double>(t));
    scales.at_most(half, static_cast<double>(t - 1));
  }
  if (scales.low > scales.high * (1 + 1e-6)) return std::nullopt;
  if (!std::isfinite(scales.high)) scales.high = scales.low > 0 ? 2 * scales.low : 1e-9;
  LinearFit fit;
  fit.least = static_cast<float>(-zero);
  fit.most = static_cast<float>(static_cast<std::int64_t>(thresholds.size()) - zero);
  fit.add = static_cast<std::int32_t>(zero);
  for (const double near : {(scales.low + scales.high) / 2, scales.low, scales.high}) {
    float scale = std::nextafterf(std::nextafterf(static_cast<float>(near), 0.0F), 0.0F);
    for (int i = 0; i < 5; ++i, scale = std::nextafterf(scale, std::numeric_limits<float>::max())) {
      fit.scale = scale;
      if (holds(fit, thresholds, range, 0)) return fit;
    }
  }
  return std::nullopt;
}

std::optional<LinearFit> fit_from_below(std::span<const std::int64_t> thresholds, AccumulatorRange range) {
  if (thresholds.size() > (1U << 20U)) return std::nullopt;
  const auto first = std::upper_bound(thresholds.begin(), thresholds.end(), range.lowest);
  const auto end = std::upper_bound(first, thresholds.end(), range.highest);
  LinearFit fit;
  fit.most = static_cast<float>(thresholds.size());
  const double before = static_cast<double>(first - thresholds.begin());
  const std::ptrdiff_t inside = end - first;
  double scale = 0, bias = before;
  if (inside >= 2 && end[-1] > first[0]) {
    scale = static_cast<double>(inside - 1) / static_cast<double>(end[-1] - first[0]);
    bias = before + 1 - static_cast<double>(first[0]) * scale;
  } else if (inside >= 1) {
    return std::nullopt;  // the threshold search is quick if there is only one step
  }
  // Subtract a margin so that the rounded count is never too high and at most one too low.
  fit.scale = static_cast<float>(scale);
  for (const double margin : {0.75, 0.6, 0.9}) {
    fit.bias = static_cast<float>(bias - margin);
    if (holds(fit, thresholds, range, 1)) return fit;
  }
  return std::nullopt;
}

}  // namespace millrace::kernels::fast
