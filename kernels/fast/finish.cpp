// Computes the constants of a requantisation, lane by lane, and picks the cheapest arithmetic that is exact for them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {
namespace {

std::int64_t reached(std::span<const std::int64_t> thresholds, std::int64_t acc) {
  return std::upper_bound(thresholds.begin(), thresholds.end(), acc) - thresholds.begin();
}

// Returns whether, for every accumulator of the range, the number of reached thresholds exceeds the fit's count by 0 to
// `slack`. Neither number ever decreases, and the first one changes only at thresholds. Therefore it is enough to check
// both ends of the range and the accumulators next to each threshold.
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

// The interval of all scales for which acc * scale, rounded to the nearest integer, steps up exactly at the thresholds.
// Rounding errors may move the interval's ends, so holds() checks the chosen scale afterwards.
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
  // An accumulator of 0 becomes the output's zero point, unless the output's bounds exclude that value.
  const std::int64_t zero = reached(thresholds, 0);  // as a number of reached thresholds
  // float32 represents whole numbers up to 2^24 exactly. Outputs and step counts must stay far below that.
  if (std::abs(std::int64_t{lowest}) > (1 << 20) || thresholds.size() > (1U << 20U)) return std::nullopt;
  LinearFit fit;
  const std::int64_t first = reached(thresholds, range.lowest), last = reached(thresholds, range.highest);
  if (first == last) {  // the channel is constant, however far its accumulator lies from 0
    fit.add = static_cast<std::int32_t>(first);
    return fit;
  }
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
  } else if (inside >= 2) {
    return std::nullopt;  // all steps are at the same accumulator
  } else if (inside == 1) {
    fit.bias = static_cast<float>(before);  // the only step is either reached or not
    return fit;
  }
  // Subtract a margin so that the rounded count is never too high and at most one too low.
  fit.scale = static_cast<float>(scale);
  for (const double margin : {0.75, 0.6, 0.9}) {
    fit.bias = static_cast<float>(bias - margin);
    if (holds(fit, thresholds, range, 1)) return fit;
  }
  return std::nullopt;
}

namespace {

constexpr std::int64_t kLowest32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kHighest32 = std::numeric_limits<std::int32_t>::max();

// If a step function has at most this many steps, the kernels compare the accumulator with one threshold after the
// other.
constexpr std::uint32_t kQuickSearch = 16;

// The largest number of steps of a step function, over all channels together, for which tables are made.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 22U;

std::uint64_t steps_of(const Requantise& r) {
  return static_cast<std::uint64_t>(std::int64_t{r.highest} - r.lowest);
}

/// The constants of a multiply-shift for one channel.
struct Scaling {
  Scaling(const Requantise& r, std::size_t channel)
      : multiplier(entry(r.multiplier, channel)),
        offset(entry(r.offset, channel)),
        shift(entry(r.shift, channel)),
        rounds(r.form == Requantise::Form::kMultiplyShiftHalfEven && shift > 0) {}
  std::int64_t multiplier, offset, shift;
  bool rounds;  // rounds half to even; if false, down
};

// Returns, for each result above the lowest, the smallest accumulator that gives the result.
std::vector<std::int64_t> as_thresholds(const Requantise& r, std::size_t channel) {
  using Wide = __int128;
  const Scaling s(r, channel);
  const std::int64_t half = s.rounds ? std::int64_t{1} << (s.shift - 1) : 0;
  std::vector<std::int64_t> steps;
  for (std::int64_t k = std::int64_t{r.lowest} + 1; k <= r.highest; ++k) {
    Wide least = Wide{k - r.zero_point} << s.shift;  // the smallest sum that gives k
    if (s.rounds) least += (k - r.zero_point) % 2 == 0 ? -half : 1 - half;
    const Wide rest = least - s.offset;
    Wide at = rest > 0 ? Wide{INT64_MAX} : Wide{INT64_MIN};
    if (s.multiplier > 0) at = rest > 0 ? (rest + s.multiplier - 1) / s.multiplier : rest / s.multiplier;
    steps.push_back(static_cast<std::int64_t>(std::clamp<Wide>(at, INT64_MIN, INT64_MAX)));
  }
  return steps;
}

/// Makes the Finish (the constants of a requantisation) for some channels of a block.
class Maker {
 public:
  Maker(Arena& arena, const Requantise& r, std::uint32_t first, const std::vector<AccumulatorRange>& ranges,
        std::uint32_t lanes)
      : arena_(arena), r_(r), first_(first), ranges_(ranges), lanes_(lanes) {
    finish_.lowest = r.lowest;
    finish_.highest = r.highest;
  }

  Finish make() {
    if (r_.form == Requantise::Form::kThresholds) {
      const auto steps = static_cast<std::uint32_t>(steps_of(r_));
      if (!round() && (steps <= kQuickSearch || !guess())) finish_.mode = Finish::Mode::kThresholds;
      if (finish_.mode != Finish::Mode::kRound) set_thresholds(steps);
    } else if (steps_of(r_) * ranges_.size() > kMostSteps || !round()) {
      set_multiply();
    }
    return finish_;
  }

 private:
  // Writes one number for each channel into the arena, padded to whole vectors.
  template <class T, class Value>
  const T* lay_out(Value value) {
    T* made = arena_.make<T>((ranges_.size() + lanes_ - 1) / lanes_ * lanes_);
    for (std::size_t c = 0; c < ranges_.size(); ++c) made[c] = static_cast<T>(value(c));
    return made;
  }

  void set_multiply() {
    const auto lay_out_scaling = [&](auto value) {
      return lay_out<std::int64_t>([&](std::size_t c) { return value(Scaling(r_, first_ + c)); });
    };
    finish_.mode = Finish::Mode::kMultiply;
    finish_.zero_point = r_.zero_point;
    finish_.multiplier = lay_out_scaling([](const Scaling& s) { return s.multiplier; });
    finish_.offset = lay_out_scaling([](const Scaling& s) { return s.offset; });
    finish_.shift = lay_out_scaling([](const Scaling& s) { return s.shift; });
    finish_.half = lay_out_scaling(
        [](const Scaling& s) { return s.rounds ? (std::int64_t{1} << (s.shift - 1)) - 1 : 0; });
    finish_.odd = lay_out_scaling([](const Scaling& s) { return s.rounds ? 1 : 0; });
  }

  std::vector<std::int64_t> thresholds(std::size_t c) const {
    if (r_.form != Requantise::Form::kThresholds) return as_thresholds(r_, first_ + c);
    const auto steps = static_cast<std::ptrdiff_t>(steps_of(r_));
    const bool shared = r_.thresholds.size() == steps_of(r_);
    const auto begin = r_.thresholds.begin() + (shared ? 0 : static_cast<std::ptrdiff_t>(first_ + c) * steps);
    return {begin, begin + steps};
  }

  // Sets the mode if `fit` finds a LinearFit for every channel. Returns whether the mode was set.
  template <class Fit>
  bool set_fits(Finish::Mode mode, Fit fit) {
    std::vector<LinearFit> fits;
    for (std::size_t c = 0; c < ranges_.size(); ++c) {
      const std::optional<LinearFit> found = fit(thresholds(c), ranges_[c]);
      if (!found) return false;
      fits.push_back(*found);
    }
    finish_.mode = mode;
    finish_.scale = lay_out<float>([&](std::size_t c) { return fits[c].scale; });
    finish_.bias = lay_out<float>([&](std::size_t c) { return fits[c].bias; });
    finish_.least = lay_out<float>([&](std::size_t c) { return fits[c].least; });
    finish_.most = lay_out<float>([&](std::size_t c) { return fits[c].most; });
    finish_.add = lay_out<std::int32_t>([&](std::size_t c) { return fits[c].add + r_.lowest; });
    finish_.saturates = saturates(fits);
    return true;
  }

  // Returns whether the bounds of the result are those of an 8-bit type, and all products are far inside 32 bits.
  bool saturates(const std::vector<LinearFit>& fits) const {
    const bool is_byte = (r_.lowest == -128 && r_.highest == 127) || (r_.lowest == 0 && r_.highest == 255);
    for (std::size_t c = 0; c < fits.size(); ++c) {
      const auto [low, high] = ranges_[c];
      const double largest = static_cast<double>(std::max(std::abs(low), std::abs(high)));
      if (largest * static_cast<double>(fits[c].scale) > 1e9) return false;
    }
    return is_byte;
  }
  bool round() {
    return set_fits(Finish::Mode::kRound, [&](const auto& steps, AccumulatorRange range) {
      return fit_exactly(steps, range, r_.lowest);
    });
  }
  bool guess() { return set_fits(Finish::Mode::kGuess, fit_from_below); }

  // A threshold below the 32-bit range becomes the lowest number, which every accumulator reaches. A threshold above
  // the range becomes the highest number, and `reachable` does not count it.
  void set_thresholds(std::uint32_t steps) {
    finish_.steps = steps;
    finish_.search = std::bit_floor(std::max(steps, 1U));
    const std::size_t rows = 2 * std::size_t{finish_.search};
    auto* table = arena_.make<std::int32_t>((ranges_.size() + lanes_ - 1) / lanes_ * rows * lanes_);
    for (std::size_t c = 0; c < ranges_.size(); ++c) {
      std::vector<std::int64_t> column = thresholds(c);
      column.resize(rows, kHighest32);
      for (std::size_t i = 0; i < rows; ++i)
        table[(c / lanes_ * rows + i) * lanes_ + c % lanes_] =
            static_cast<std::int32_t>(std::clamp(column[i], kLowest32, kHighest32));
    }
    finish_.thresholds = table;
    finish_.reachable = lay_out<std::int32_t>([&](std::size_t c) {
      const std::vector<std::int64_t> column = thresholds(c);
      return std::upper_bound(column.begin(), column.end(), kHighest32) - column.begin();
    });
  }

  Arena& arena_;
  const Requantise& r_;
  std::uint32_t first_;
  const std::vector<AccumulatorRange>& ranges_;
  std::uint32_t lanes_;
  Finish finish_;
};

}  // namespace

bool can_finish(const Requantise* requantise, std::uint32_t channels) {
  if (requantise == nullptr || requantise->form != Requantise::Form::kThresholds) return true;
  return steps_of(*requantise) <= kMostSteps && steps_of(*requantise) * channels <= kMostSteps;
}

Finish make_finish(Arena& arena, const Requantise* requantise, std::uint32_t first,
                   const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes) {
  return requantise == nullptr ? Finish() : Maker(arena, *requantise, first, ranges, lanes).make();
}

}  // namespace millrace::kernels::fast
