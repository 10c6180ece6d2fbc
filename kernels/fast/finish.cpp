// Computes the constants of a requantisation, lane by lane, and picks the narrowest arithmetic that is exact
// for them.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>

#include "kernels/fast/linear_fit.hpp"
#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {
namespace {

constexpr std::int64_t kLowest32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kHighest32 = std::numeric_limits<std::int32_t>::max();

// Up to this number of steps, the kernels compare with each threshold in turn.
constexpr std::uint32_t kQuickSearch = 16;

// The limit on the steps of all channels together.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 22U;

bool fits32(std::int64_t value) {
  return value >= kLowest32 && value <= kHighest32;
}

template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

bool rounds_half_even(const Requantise& r) {
  return r.form == Requantise::Form::kMultiplyShiftHalfEven;
}

struct Scaling {
  std::int64_t multiplier, offset, shift;
  std::int64_t half;  // the most that rounding adds before the shift
  std::int64_t sum(std::int64_t acc) const { return acc * multiplier + offset; }
  // With rounding half to even, the true result may be one less.
  std::int64_t result(std::int64_t acc) const { return (sum(acc) + half) >> shift; }
};

Scaling scaling(const Requantise& r, std::size_t channel) {
  const std::int64_t shift = entry(r.shift, channel);
  return {entry(r.multiplier, channel), entry(r.offset, channel), shift,
          rounds_half_even(r) && shift > 0 ? std::int64_t{1} << (shift - 1) : 0};
}

// Every function below is monotone in the accumulator, so it is enough to check both ends of the range. The
// product alone may wrap; the sum is exact again.
bool is_exact_in_32(const Scaling& s, const AccumulatorRange& range) {
  return fits32(s.offset) && fits32(s.half) && fits32(s.sum(range.lowest)) && fits32(s.sum(range.highest)) &&
         fits32(s.sum(range.highest) + s.half);
}
bool ends_in_32(const Scaling& s, const AccumulatorRange& range) {
  return fits32(s.result(range.lowest) - 1) && fits32(s.result(range.highest));
}

bool all_exact_in_32(const Requantise& r, std::uint32_t first, const std::vector<AccumulatorRange>& ranges) {
  for (std::size_t c = 0; c < ranges.size(); ++c)
    if (!is_exact_in_32(scaling(r, first + c), ranges[c])) return false;
  return true;
}

// Converts a multiply-shift to thresholds: the smallest accumulator that gives each result above the lowest.
std::vector<std::int64_t> steps_of(const Requantise& r, std::size_t channel) {
  using Wide = __int128;
  const Scaling s = scaling(r, channel);
  std::vector<std::int64_t> steps;
  for (std::int64_t k = std::int64_t{r.lowest} + 1; k <= r.highest; ++k) {
    Wide least = Wide{k - r.zero_point} << s.shift;  // the smallest sum that gives k
    if (s.half > 0) least += (k - r.zero_point) % 2 == 0 ? -s.half : 1 - s.half;
    const Wide rest = least - s.offset;
    Wide at = rest > 0 ? Wide{INT64_MAX} : Wide{INT64_MIN};
    if (s.multiplier > 0) at = rest > 0 ? (rest + s.multiplier - 1) / s.multiplier : rest / s.multiplier;
    steps.push_back(static_cast<std::int64_t>(std::clamp<Wide>(at, INT64_MIN, INT64_MAX)));
  }
  return steps;
}

void fill_multiply(Arena& arena, Finish& finish, const Requantise& r, std::uint32_t first,
                   const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes) {
  const std::size_t padded = (ranges.size() + lanes - 1) / lanes * lanes;
  const bool half_even = rounds_half_even(r);
  finish.zero_point = r.zero_point;
  finish.lowest -= r.zero_point;
  finish.highest -= r.zero_point;
  if (all_exact_in_32(r, first, ranges)) {
    finish.mode = half_even ? Finish::Mode::kHalfEven32 : Finish::Mode::kMultiply32;
    auto* multiplier = arena.make<std::int32_t>(padded);
    auto* offset = arena.make<std::int32_t>(padded);
    auto* shift = arena.make<std::int32_t>(padded);
    for (std::size_t c = 0; c < ranges.size(); ++c) {
      const Scaling s = scaling(r, first + c);
      multiplier[c] = static_cast<std::int32_t>(s.multiplier);
      offset[c] = static_cast<std::int32_t>(s.offset);
      shift[c] = static_cast<std::int32_t>(std::min<std::int64_t>(s.shift, 31));  // 31 leaves only the sign
    }
    finish.multiplier32 = multiplier;
    finish.offset32 = offset;
    finish.shift32 = shift;
    return;
  }
  bool narrow = true;
  for (std::size_t c = 0; c < ranges.size(); ++c)
    narrow = narrow && ends_in_32(scaling(r, first + c), ranges[c]);
  finish.mode = half_even ? (narrow ? Finish::Mode::kHalfEven64 : Finish::Mode::kHalfEvenWide)
                          : (narrow ? Finish::Mode::kMultiply64 : Finish::Mode::kMultiplyWide);
  auto* multiplier = arena.make<std::int64_t>(padded);
  auto* offset = arena.make<std::int64_t>(padded);
  auto* shift = arena.make<std::int64_t>(padded);
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    const Scaling s = scaling(r, first + c);
    const std::size_t lane = c % lanes;
    const std::size_t at = c - lane + lane % 2 * (lanes / 2) + lane / 2;
    multiplier[at] = s.multiplier;
    offset[at] = s.offset;
    shift[at] = s.shift;
  }
  finish.multiplier64 = multiplier;
  finish.offset64 = offset;
  finish.shift64 = shift;
}

std::span<const std::int64_t> thresholds_of(const Requantise& r, std::size_t channel, std::uint32_t steps) {
  const std::size_t from = r.thresholds.size() == steps ? 0 : channel * steps;
  return {r.thresholds.data() + from, steps};
}

// `rows` is at least `steps`. Rows after the last step hold the type's highest value.
template <class T>
T* spread_thresholds(Arena& arena, const Requantise& r, std::uint32_t first, std::size_t channels,
                     std::uint32_t steps, std::uint32_t rows, std::uint32_t lanes) {
  constexpr std::int64_t kLowest = std::numeric_limits<T>::min(), kHighest = std::numeric_limits<T>::max();
  const std::size_t blocks = (channels + lanes - 1) / lanes;
  T* spread = arena.make<T>(blocks * rows * lanes);
  for (std::size_t c = 0; c < channels; ++c) {
    const std::span<const std::int64_t> thresholds = thresholds_of(r, first + c, steps);
    for (std::uint32_t i = 0; i < rows; ++i) {
      const std::int64_t t = i < steps ? thresholds[i] : kHighest;
      spread[(c / lanes * rows + i) * lanes + c % lanes] = static_cast<T>(std::clamp(t, kLowest, kHighest));
    }
  }
  return spread;
}

template <class Fit>
std::vector<LinearFit> fit_all(const std::vector<AccumulatorRange>& ranges, Fit fit) {
  std::vector<LinearFit> fits;
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    const std::optional<LinearFit> found = fit(c);
    if (!found) return {};
    fits.push_back(*found);
  }
  return fits;
}

void fill_fits(Arena& arena, Finish& finish, const std::vector<LinearFit>& fits, std::uint32_t lanes) {
  const std::size_t padded = (fits.size() + lanes - 1) / lanes * lanes;
  auto* scale = arena.make<float>(padded);
  auto* bias = arena.make<float>(padded);
  auto* least = arena.make<float>(padded);
  auto* most = arena.make<float>(padded);
  auto* add = arena.make<std::int32_t>(padded);
  for (std::size_t c = 0; c < fits.size(); ++c) {
    scale[c] = fits[c].scale;
    bias[c] = fits[c].bias;
    least[c] = fits[c].least;
    most[c] = fits[c].most;
    add[c] = fits[c].add + finish.lowest;
  }
  finish.scale = scale;
  finish.bias = bias;
  finish.least = least;
  finish.most = most;
  finish.add = add;
}

// Rounding in float32 is cheaper than every other mode except the 32-bit multiply-shift that rounds down.
bool fill_round(Arena& arena, Finish& finish, const Requantise& r, std::uint32_t first,
                const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes) {
  if (!rounds_half_even(r) && all_exact_in_32(r, first, ranges)) return false;
  const auto steps = static_cast<std::uint64_t>(std::int64_t{r.highest} - r.lowest);
  if (steps * ranges.size() > kMostSteps) return false;
  const std::vector<LinearFit> fits = fit_all(
      ranges, [&](std::size_t c) { return fit_exactly(steps_of(r, first + c), ranges[c], r.lowest); });
  if (fits.empty()) return false;
  finish.mode = Finish::Mode::kRound;
  fill_fits(arena, finish, fits, lanes);
  return true;
}

void fill_thresholds(Arena& arena, Finish& finish, const Requantise& r, std::uint32_t first,
                     const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes) {
  finish.steps = static_cast<std::uint32_t>(std::int64_t{r.highest} - r.lowest);
  finish.search = finish.steps == 0 ? 0 : std::bit_floor(finish.steps);
  const bool can_be_highest = std::any_of(ranges.begin(), ranges.end(), [](const AccumulatorRange& range) {
    return range.highest >= kHighest32;
  });
  const bool out_of_reach =
      std::any_of(r.thresholds.begin(), r.thresholds.end(), [](std::int64_t t) { return t > kHighest32; });
  if (can_be_highest && out_of_reach) {
    finish.mode = Finish::Mode::kThresholds64;
    finish.thresholds64 =
        spread_thresholds<std::int64_t>(arena, r, first, ranges.size(), finish.steps, finish.steps, lanes);
    return;
  }
  std::vector<LinearFit> fits = fit_all(ranges, [&](std::size_t c) {
    return fit_exactly(thresholds_of(r, first + c, finish.steps), ranges[c], r.lowest);
  });
  finish.mode = Finish::Mode::kRound;
  if (fits.empty() && finish.steps > kQuickSearch) {
    fits = fit_all(ranges, [&](std::size_t c) {
      return fit_from_below(thresholds_of(r, first + c, finish.steps), ranges[c]);
    });
    finish.mode = Finish::Mode::kGuess;
  }
  if (!fits.empty()) {
    fill_fits(arena, finish, fits, lanes);
  } else {
    finish.mode = Finish::Mode::kThresholds;
  }
  // A threshold outside the accumulator's type becomes the type's highest value if no accumulator reaches it,
  // or the lowest if every accumulator does.
  const std::uint32_t rows = finish.mode == Finish::Mode::kGuess ? finish.steps + 1 : finish.steps;
  if (finish.mode != Finish::Mode::kRound)
    finish.thresholds32 =
        spread_thresholds<std::int32_t>(arena, r, first, ranges.size(), finish.steps, rows, lanes);
}

}  // namespace

bool can_finish(const Requantise* requantise, std::uint32_t channels) {
  if (requantise == nullptr || requantise->form != Requantise::Form::kThresholds) return true;
  const auto steps = static_cast<std::uint64_t>(std::int64_t{requantise->highest} - requantise->lowest);
  return steps <= kMostSteps && steps * channels <= kMostSteps;
}

Finish make_finish(Arena& arena, const Requantise* requantise, std::uint32_t first,
                   const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes) {
  Finish finish;
  if (requantise == nullptr) return finish;
  finish.lowest = requantise->lowest;
  finish.highest = requantise->highest;
  if (requantise->form != Requantise::Form::kThresholds) {
    if (!fill_round(arena, finish, *requantise, first, ranges, lanes))
      fill_multiply(arena, finish, *requantise, first, ranges, lanes);
  } else {
    fill_thresholds(arena, finish, *requantise, first, ranges, lanes);
  }
  return finish;
}

}  // namespace millrace::kernels::fast
