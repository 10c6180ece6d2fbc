// Range checks: nothing that a validated program computes can overflow.
#include <algorithm>
#include <cstdint>

#include "kernels/program/checks.hpp"

namespace millrace::kernels::checks {
namespace {

using Wide = __int128;

constexpr Wide kLowest64 = INT64_MIN;
constexpr Wide kHighest64 = INT64_MAX;

bool is_one_or(std::size_t size, std::uint32_t channels) {
  return size == 1 || size == channels;
}

template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

std::string wrong_count(const char* field, std::size_t size, std::uint32_t channels) {
  return text(field, " has ", size, " entries; give one, or one per channel (", channels, ")");
}

std::string multiply_shift(const Requantise& r, Range range, std::uint32_t channels) {
  if (!r.thresholds.empty()) return "requantise.thresholds is given, but the form is multiply-shift";
  const bool half_even = r.form == Requantise::Form::kMultiplyShiftHalfEven;
  if (!is_one_or(r.multiplier.size(), channels))
    return wrong_count("requantise.multiplier", r.multiplier.size(), channels);
  if (!is_one_or(r.offset.size(), channels))
    return wrong_count("requantise.offset", r.offset.size(), channels);
  if (!is_one_or(r.shift.size(), channels)) return wrong_count("requantise.shift", r.shift.size(), channels);
  const std::size_t distinct = std::max({r.multiplier.size(), r.offset.size(), r.shift.size()});
  for (std::size_t c = 0; c < distinct; ++c) {
    const Wide multiplier = entry(r.multiplier, c);
    const Wide offset = entry(r.offset, c);
    if (multiplier < 0)
      return text("requantise.multiplier[", c, "] is negative; the step function must not decrease");
    if (entry(r.shift, c) > 62) return text("requantise.shift[", c, "] is above 62");
    // The product has at most 63 bits and fits. The sum may overflow, and so may the rounding that is added
    // to the sum and the zero point that is added to the result.
    const Wide spare = half_even ? Wide{1} << 32 : 0;
    const Wide half = half_even && entry(r.shift, c) > 0 ? Wide{1} << (entry(r.shift, c) - 1) : 0;
    if (multiplier * range.lowest + offset < kLowest64 + spare ||
        multiplier * range.highest + offset + half > kHighest64 - spare) {
      return text("requantise overflows 64 bits in channel ", c, "; use a smaller multiplier or offset");
    }
  }
  return {};
}

std::string thresholds(const Requantise& r, const Tensor& out, std::uint32_t channels) {
  if (!r.multiplier.empty() || !r.offset.empty() || !r.shift.empty()) {
    return "requantise.multiplier, offset or shift is given, but the form is thresholds";
  }
  const auto steps = static_cast<std::uint64_t>(std::int64_t{r.highest} - r.lowest);
  if (steps == 0)
    return r.thresholds.empty() ? "" : "requantise.thresholds is given, but lowest equals highest";
  const std::uint64_t count = r.thresholds.size();
  if (count != steps && (count % steps != 0 || count / steps != channels)) {
    return text("requantise.thresholds has ", count, " entries; give ", steps, ", or ", steps,
                " for each of ", channels, " channels");
  }
  for (std::uint64_t i = 1; i < count; ++i) {
    if (i % steps != 0 && r.thresholds[i] < r.thresholds[i - 1]) {
      return text("requantise.thresholds[", i,
                  "] is below the one before it; they must ascend within a channel");
    }
  }
  if (out.type.kind == ElementType::Kind::kBipolar) {
    for (std::uint64_t i = 0; i < count; i += 2) {
      if (r.thresholds[i] != r.thresholds[i + 1])
        return text("requantise.thresholds[", i,
                    "] differs from the next, which gives 0 in a bipolar tensor");
    }
  }
  return {};
}

// The sum of the positive extremes and that of the negative ones. Partial sums in any order stay between
// them.
struct Extremes {
  Wide lowest = 0;
  Wide highest = 0;
  void add(Wide a, Wide b) {
    lowest += std::min({a, b, Wide{0}});
    highest += std::max({a, b, Wide{0}});
  }
};

std::string accumulator_type(ElementType type) {
  if (!is_legal(type) || type.kind != ElementType::Kind::kSigned)
    return "accumulator must be a signed integer of 1 to 32 bits";
  return {};
}

std::string accumulator_fits(ElementType type, const Extremes& sums, const std::string& where) {
  if (sums.lowest >= type.lowest() && sums.highest <= type.highest()) return {};
  const Wide clamped_low = std::max(sums.lowest, kLowest64),
             clamped_high = std::min(sums.highest, kHighest64);
  return text("accumulator ", to_string(type), " is too narrow", where, ": sums reach ",
              static_cast<std::int64_t>(clamped_low), " .. ", static_cast<std::int64_t>(clamped_high));
}

}  // namespace

std::string requantise(const Requantise& r, Range range, const Tensor& out) {
  if (!out.type.is_integer()) return text("output '", out.name, "' must be an integer tensor");
  if (r.lowest > r.highest) return "requantise.lowest is above requantise.highest";
  if (!holds(out.type, r.lowest) || !holds(out.type, r.highest)) {
    return text("requantise.lowest .. highest (", r.lowest, " .. ", r.highest, ") leaves the range of ",
                to_string(out.type));
  }
  const std::uint32_t channels = out.shape.back();
  if (r.form != Requantise::Form::kMultiplyShiftHalfEven && r.zero_point != 0) {
    return "requantise.zero_point is given, but the form is not multiply-shift-half-even";
  }
  if (r.zero_point != 0 && (r.zero_point < out.type.lowest() || r.zero_point > out.type.highest())) {
    return text("requantise.zero_point (", r.zero_point, ") leaves the range of ", to_string(out.type));
  }
  switch (r.form) {
    case Requantise::Form::kMultiplyShift:
    case Requantise::Form::kMultiplyShiftHalfEven:
      if (out.type.kind == ElementType::Kind::kBipolar && r.lowest != r.highest) {
        return "requantise.form must be thresholds for a bipolar output";
      }
      return multiply_shift(r, range, channels);
    case Requantise::Form::kThresholds:
      return thresholds(r, out, channels);
  }
  return "requantise.form is unknown";
}

std::string accumulator(const Convolution& c, ElementType input) {
  if (std::string wrong = accumulator_type(c.accumulator); !wrong.empty()) return wrong;
  const std::size_t taps = c.weights.size() / c.out_channels;
  const Wide least = input.lowest(), most = input.highest();
  for (std::size_t o = 0; o < c.out_channels; ++o) {
    Extremes sums;
    if (!c.bias.empty()) sums.add(c.bias[o], c.bias[o]);
    // All weights of one sign reach their extreme products at the same input value.
    std::int64_t positive = 0, negative = 0;
    const std::int16_t* const weights = c.weights.data() + o * taps;
    for (std::size_t i = 0; i < taps; ++i) {
      const std::int64_t weight = weights[i];
      (weight > 0 ? positive : negative) += weight;
    }
    sums.add(positive * least, positive * most);
    sums.add(negative * least, negative * most);
    if (std::string wrong = accumulator_fits(c.accumulator, sums, text(" for output channel ", o));
        !wrong.empty())
      return wrong;
  }
  return {};
}

std::string accumulator(const SumPool& p, ElementType input) {
  if (std::string wrong = accumulator_type(p.accumulator); !wrong.empty()) return wrong;
  const Wide taps = Wide{p.window.kernel_h} * p.window.kernel_w;
  Extremes sums;
  sums.add(taps * input.lowest(), taps * input.highest());
  return accumulator_fits(p.accumulator, sums, "");
}

}  // namespace millrace::kernels::checks
