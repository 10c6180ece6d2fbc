#include "compiler/passes/requantise.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace millrace::compiler::passes {
namespace {

using kernels::Requantise;
using Wide = __int128;

constexpr int kLargestShift = 46;
constexpr std::int64_t kLargestMultiplier = std::numeric_limits<std::int32_t>::max();
// The largest magnitude of an offset. Products have at most 62 bits, so neither the sum of product and offset
// nor its rounding overflows.
constexpr std::int64_t kLargestOffset = std::int64_t{1} << 61;
// At most this many multipliers are tried for a shift. If more are possible, a slightly larger shift has a solution.
constexpr std::int64_t kMultipliersTried = 8;
// The first stride of the search around the accumulator where a step is expected.
constexpr std::int64_t kStride = 3;

/// One channel's step function over its reachable accumulators.
struct Steps {
  Range range;
  std::int64_t first = 0, last = 0;     // the results at both ends of the range
  std::vector<std::int64_t> positions;  // [i]: smallest accumulator with a result of at least first + 1 + i
};

std::string number(std::int64_t x) {
  return std::to_string(x);
}

Result<Steps> find_steps(const Reference& reference, Range range, std::size_t channel, std::int64_t lowest,
                         std::int64_t highest) {
  Steps s{range, reference(range.lowest, channel), reference(range.highest, channel), {}};
  const auto fail = [channel](const std::string& what) {
    return Error(ErrorCode::kUnsupported, "channel " + std::to_string(channel) + ": " + what);
  };
  if (s.first > s.last)
    return fail("the function decreases, from " + number(s.first) + " to " + number(s.last));
  if (s.first < lowest || s.last > highest)
    return fail("the function leaves " + number(lowest) + ".." + number(highest));
  std::int64_t low = range.lowest;  // an accumulator with a result below k
  for (std::int64_t k = s.first + 1; k <= s.last; ++k) {
    if (!s.positions.empty() && reference(s.positions.back(), channel) >= k) {
      s.positions.push_back(s.positions.back());
      continue;
    }
    std::int64_t high = range.highest;  // an accumulator with a result of at least k
    // Guess that the next step is as far from the last step as the last step is from the step before it. If this guess
    // is wrong, search from the guessed position in strides that double each time.
    const std::size_t n = s.positions.size();
    std::int64_t ahead = n < 2 ? 0 : s.positions[n - 1] - s.positions[n - 2] + 1, back = 0;
    bool first = true;
    while (high - low > 1) {
      const bool forward = ahead > 0 && ahead<high - low, backward = back> 0 && back < high - low;
      const std::int64_t middle = forward ? low + ahead : backward ? high - back : low + (high - low) / 2;
      const std::int64_t at = reference(middle, channel);
      if (at < s.first || at > s.last) return fail("the function decreases near " + number(middle));
      const bool reached = at >= k;
      (reached ? high : low) = middle;
      back = !reached ? 0 : forward && first ? kStride : backward ? 2 * back : 0;
      ahead = reached || !forward ? 0 : first ? kStride : 2 * ahead;
      first = false;
    }
    s.positions.push_back(high);
    low = high;
  }
  return s;
}

/// How a quotient is rounded: down, or half to even.
struct Rounding {
  bool half_even = false;
  std::int64_t zero_point = 0;
};

/// A bound on the line (acc * multiplier + offset) / 2^shift at the accumulator `at`: the line must be above, or below,
/// `twice` / 2. A closed bound includes `twice` / 2 itself. Rounded down, a result is at least k if the line is at
/// least k. Rounded half to even, a result is at least k if the line is above k - 1/2, or equal to it for an even k.
struct Bound {
  std::int64_t at = 0;
  std::int64_t twice = 0;
  bool closed = false;
};

/// A slope of the line, as a fraction.
struct Slope {
  Wide rise = 0, run = 1;  // run > 0
};

/// The set of lines whose rounded values equal a step function.
class LineProblem {
 public:
  LineProblem(const Steps& s, std::int64_t lowest, std::int64_t highest, Rounding rounding)
      : rounding_(rounding) {
    if (s.first > lowest) reach_at(s.range.lowest, s.first);
    for (std::size_t i = 0; i < s.positions.size(); ++i) {
      const std::int64_t k = s.first + 1 + static_cast<std::int64_t>(i);
      reach_at(s.positions[i], k);
      stay_at(s.positions[i] - 1, k);
    }
    if (s.last < highest) stay_at(s.range.highest, s.last + 1);
  }

  /// Returns the least and the greatest slope of all lines within the bounds, or nothing. Treats all bounds as closed.
  std::optional<std::pair<Slope, Slope>> slopes() const {
    Slope steepest{1, 1};  // steeper than any line within the bounds
    if (!reach_.empty() && !stay_.empty())
      steepest.rise = Wide{reach_.back().twice} - stay_.front().twice + (Wide{1} << 33);
    const auto low = tighten({0, 1}, true), high = tighten(steepest, false);
    if (!low || !high || low->rise * high->run > high->rise * low->run) return std::nullopt;
    return std::pair(*low, *high);
  }

  /// Returns an offset with which the line is within all bounds, zero if possible; nothing if no offset works.
  std::optional<std::int64_t> offset(std::int64_t multiplier, int shift) const {
    Wide least = -kLargestOffset, most = kLargestOffset;
    for (const Bound& d : reach_) {
      const Wide level = Wide{d.twice} << shift;  // twice the sum
      least = std::max(least, (d.closed ? (level + 1) >> 1 : (level >> 1) + 1) - Wide{d.at} * multiplier);
    }
    for (const Bound& d : stay_) {
      const Wide level = Wide{d.twice} << shift;
      most = std::min(most, (d.closed ? level >> 1 : ((level + 1) >> 1) - 1) - Wide{d.at} * multiplier);
    }
    if (least > most) return std::nullopt;
    if (least <= 0 && most >= 0) return 0;
    return static_cast<std::int64_t>(least + (most - least) / 2);
  }

 private:
  bool takes_half(std::int64_t k) const {
    return !rounding_.half_even || (k - rounding_.zero_point) % 2 == 0;
  }
  std::int64_t twice(std::int64_t k) const {
    return rounding_.half_even ? 2 * (k - rounding_.zero_point) - 1 : 2 * k;
  }
  void reach_at(std::int64_t at, std::int64_t k) { reach_.push_back({at, twice(k), takes_half(k)}); }
  void stay_at(std::int64_t at, std::int64_t k) { stay_.push_back({at, twice(k), !takes_half(k)}); }

  /// Returns the slope nearest to `slope` with which a line can be within all bounds. Uses Newton's method, because the
  /// largest conflict between a lower and an upper bound is convex in the slope. Each round computes the slope of the
  /// line through one lower and one upper bound. The result is exact after a few rounds.
  std::optional<Slope> tighten(Slope slope, bool from_below) const {
    if (reach_.empty() || stay_.empty()) return slope;
    for (;;) {
      const auto above = [&](const Bound& d) { return d.twice * slope.run - d.at * slope.rise; };
      const Bound *most = &reach_[0], *least = &stay_[0];
      Wide most_above = above(*most), least_above = above(*least);
      for (const Bound& d : reach_)
        if (const Wide a = above(d); a > most_above) most = &d, most_above = a;
      for (const Bound& d : stay_)
        if (const Wide a = above(d); a < least_above) least = &d, least_above = a;
      if (most_above <= least_above) return slope;
      const Wide run = Wide{most->at} - least->at, rise = Wide{most->twice} - least->twice;
      if (from_below ? run <= 0 : run >= 0) return std::nullopt;  // other slopes only enlarge the conflict
      slope = run > 0 ? Slope{rise, run} : Slope{-rise, -run};
      if (slope.rise < 0) return std::nullopt;
    }
  }

  Rounding rounding_;
  std::vector<Bound> reach_, stay_;
};

struct Line {
  std::int64_t multiplier = 0, offset = 0;
  int shift = 0;
};

/// Returns the line with the smallest shift and, for this shift, the smallest multiplier.
std::optional<Line> cheapest_line(const LineProblem& problem) {
  if (const auto offset = problem.offset(0, 0)) return Line{0, *offset, 0};
  const auto slopes = problem.slopes();
  if (!slopes) return std::nullopt;
  for (int shift = 0; shift <= kLargestShift; ++shift) {
    const auto& [low, high] = *slopes;
    const Wide from = ((low.rise << shift) + 2 * low.run - 1) / (2 * low.run),
               to = (high.rise << shift) / (2 * high.run);
    if (from > kLargestMultiplier) break;
    const auto first = static_cast<std::int64_t>(std::max<Wide>(1, from));
    const auto last = static_cast<std::int64_t>(
        std::min<Wide>(to, std::min(first + kMultipliersTried, kLargestMultiplier)));
    for (std::int64_t m = first; m <= last; ++m)
      if (const auto offset = problem.offset(m, shift)) return Line{m, *offset, shift};
  }
  return std::nullopt;
}

/// Tests quickly whether each channel may have a line (a multiplier, offset and shift) that equals its step function.
/// The answer false is certain for every rounding; the answer true is rarely wrong.
bool may_have_lines(const std::vector<Steps>& all, const Requantise& r) {
  return std::all_of(all.begin(), all.end(), [&](const Steps& s) {
    return LineProblem(s, r.lowest, r.highest, {}).slopes().has_value();
  });
}

/// Returns for every channel the cheapest line that equals the channel's step function. Returns nothing if some channel
/// has no such line.
std::optional<std::vector<Line>> cheapest_lines(const std::vector<Steps>& all, const Requantise& r,
                                                Rounding rounding) {
  std::vector<Line> lines;
  for (const Steps& s : all) {
    const auto line = cheapest_line(LineProblem(s, r.lowest, r.highest, rounding));
    if (!line) return std::nullopt;
    lines.push_back(*line);
  }
  return lines;
}

template <class T>
void write_once_if_equal(std::vector<T>& values) {
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end())
    values.resize(1);
}

void use_lines(Requantise& r, const std::vector<Line>& lines, Rounding rounding) {
  r.form = rounding.half_even ? Requantise::Form::kMultiplyShiftHalfEven : Requantise::Form::kMultiplyShift;
  r.zero_point = static_cast<std::int32_t>(rounding.zero_point);
  for (const Line& line : lines) {
    r.multiplier.push_back(static_cast<std::int32_t>(line.multiplier));
    r.offset.push_back(line.offset);
    r.shift.push_back(static_cast<std::uint8_t>(line.shift));
  }
  write_once_if_equal(r.multiplier);
  write_once_if_equal(r.offset);
  write_once_if_equal(r.shift);
}

/// Returns the roundings to try, the cheapest first. For rounding half to even, only the parity of the zero point
/// matters, because the offset can contain the rest of it. With the result for a sum of 0 as the zero point, most
/// offsets are 0.
std::vector<Rounding> roundings(const RequantiseProblem& problem) {
  const Range range = problem.accumulators[0];
  const std::int64_t zero =
      problem.reference(std::min(std::max<std::int64_t>(0, range.lowest), range.highest), 0);
  return {{}, {true, zero}, {true, zero < problem.highest ? zero + 1 : zero - 1}};
}

void use_thresholds(Requantise& r, const std::vector<Steps>& all) {
  r.form = Requantise::Form::kThresholds;
  std::vector<std::vector<std::int64_t>> rows;
  for (const Steps& s : all) {
    std::vector<std::int64_t> row;
    for (std::int64_t k = r.lowest + 1; k <= r.highest; ++k) {
      if (k <= s.first)
        row.push_back(s.range.lowest);
      else if (k > s.last)
        row.push_back(s.range.highest + 1);
      else
        row.push_back(s.positions[static_cast<std::size_t>(k - s.first - 1)]);
    }
    rows.push_back(std::move(row));
  }
  write_once_if_equal(rows);
  for (const auto& row : rows) r.thresholds.insert(r.thresholds.end(), row.begin(), row.end());
}

/// Checks a requantisation. Shares no code with the solver.
class Prover {
 public:
  Prover(const Requantise& candidate, const RequantiseProblem& problem) : r_(candidate), p_(problem) {}

  std::string run() const {
    if (std::string why = check_form(); !why.empty()) return why;
    for (std::size_t c = 0; c < p_.accumulators.size(); ++c) {
      if (std::string why = check_channel(c); !why.empty())
        return "channel " + std::to_string(c) + ": " + why;
    }
    return {};
  }

 private:
  bool half_even() const { return r_.form == Requantise::Form::kMultiplyShiftHalfEven; }
  bool fits(std::size_t entries) const { return entries == 1 || entries == p_.accumulators.size(); }

  std::string check_form() const {
    if (r_.lowest > r_.highest || r_.lowest < p_.lowest || r_.highest > p_.highest)
      return "the clamp leaves the output's type";
    if (r_.form == Requantise::Form::kThresholds) {
      const auto steps = static_cast<std::size_t>(std::int64_t{r_.highest} - r_.lowest);
      if (steps == 0) return r_.thresholds.empty() ? "" : "thresholds without steps";
      if (r_.thresholds.size() % steps != 0 || !fits(r_.thresholds.size() / steps))
        return "the number of thresholds is wrong";
      for (std::size_t i = 0; i < r_.thresholds.size(); ++i)
        if (i % steps != 0 && r_.thresholds[i] < r_.thresholds[i - 1]) return "thresholds descend";
      return {};
    }
    if (!fits(r_.multiplier.size()) || !fits(r_.offset.size()) || !fits(r_.shift.size()))
      return "the number of multipliers is wrong";
    for (const std::uint8_t s : r_.shift)
      if (s > 62) return "the shift is above 62";
    if (!half_even() && r_.zero_point != 0)
      return "the zero point must be a part of the offset, unless results are rounded half to even";
    if (half_even() && (r_.zero_point < p_.lowest || r_.zero_point > p_.highest))
      return "the zero point leaves the output's type";
    return {};
  }

  template <class T>
  static T pick(const std::vector<T>& values, std::size_t c) {
    return values.size() == 1 ? values[0] : values[c];
  }

  /// Returns the result of the requantisation that is being checked, or nothing if its arithmetic overflows 64 bits.
  std::optional<std::int64_t> candidate(std::int64_t acc, std::size_t c) const {
    if (r_.form == Requantise::Form::kThresholds) {
      const auto steps = static_cast<std::size_t>(std::int64_t{r_.highest} - r_.lowest);
      const std::size_t row = steps == 0 || r_.thresholds.size() == steps ? 0 : c * steps;
      const auto begin = r_.thresholds.begin() + static_cast<std::ptrdiff_t>(row);
      return r_.lowest + (std::upper_bound(begin, begin + static_cast<std::ptrdiff_t>(steps), acc) - begin);
    }
    const Wide sum = Wide{acc} * pick(r_.multiplier, c) + pick(r_.offset, c);
    const int shift = pick(r_.shift, c);
    Wide q = sum >> shift, largest = sum;  // the largest intermediate result
    if (half_even() && shift > 0) {
      largest = sum + (Wide{1} << (shift - 1));
      q = (largest - 1 + (q & 1)) >> shift;
    }
    q += r_.zero_point;
    for (const Wide x : {sum, largest, q})
      if (x > std::numeric_limits<std::int64_t>::max() || x < std::numeric_limits<std::int64_t>::min())
        return std::nullopt;
    return static_cast<std::int64_t>(std::min<Wide>(std::max<Wide>(q, r_.lowest), r_.highest));
  }

  std::string differs(std::int64_t acc, std::size_t c) const {
    const auto got = candidate(acc, c);
    if (!got) return "64 bits overflow at accumulator " + number(acc);
    const std::int64_t wanted = p_.reference(acc, c);
    if (*got == wanted) return {};
    return "accumulator " + number(acc) + " gives " + number(*got) + ", but the reference gives " +
           number(wanted);
  }

  /// Compares the candidate with the reference on one channel. Both are monotone, so they are equal if they agree at
  /// both ends of the range and on both sides of every step of the reference.
  std::string check_channel(std::size_t c) const {
    const Range range = p_.accumulators[c];
    if (range.lowest > range.highest) return "the range is empty";
    std::int64_t at = range.lowest;
    if (std::string why = differs(at, c); !why.empty()) return why;
    if (std::string why = differs(range.highest, c); !why.empty()) return why;
    const std::int64_t last = p_.reference(range.highest, c);
    for (std::int64_t value = p_.reference(at, c); value != last; value = p_.reference(at, c)) {
      if (value > last) return "the reference decreases";
      std::int64_t same = at, more = range.highest;  // the first accumulator whose result exceeds `value`
      while (more - same > 1) {
        const std::int64_t middle = same + (more - same) / 2;
        (p_.reference(middle, c) > value ? more : same) = middle;
      }
      if (std::string why = differs(more - 1, c); !why.empty()) return why;
      if (std::string why = differs(more, c); !why.empty()) return why;
      at = more;
    }
    return {};
  }

  const Requantise& r_;
  const RequantiseProblem& p_;
};

}  // namespace

Result<Requantise> solve(const RequantiseProblem& problem) {
  std::vector<Steps> all;
  Requantise r;
  r.lowest = std::numeric_limits<std::int32_t>::max();
  r.highest = std::numeric_limits<std::int32_t>::min();
  for (std::size_t c = 0; c < problem.accumulators.size(); ++c) {
    MILLRACE_ASSIGN(
        Steps s, find_steps(problem.reference, problem.accumulators[c], c, problem.lowest, problem.highest));
    r.lowest = static_cast<std::int32_t>(std::min<std::int64_t>(r.lowest, s.first));
    r.highest = static_cast<std::int32_t>(std::max<std::int64_t>(r.highest, s.last));
    all.push_back(std::move(s));
  }
  const std::vector<Rounding> tried =
      !problem.needs_thresholds && may_have_lines(all, r) ? roundings(problem) : std::vector<Rounding>{};
  for (const Rounding rounding : tried) {
    if (const auto lines = cheapest_lines(all, r, rounding)) {
      use_lines(r, *lines, rounding);
      return r;
    }
  }
  use_thresholds(r, all);
  return r;
}

std::string prove(const Requantise& candidate, const RequantiseProblem& problem) {
  return Prover(candidate, problem).run();
}

}  // namespace millrace::compiler::passes
