#include "compiler/passes/requantise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace millrace::compiler::passes {
namespace {

using kernels::Requantise;
using Wide = __int128;

constexpr int kLargestShift = 46;
constexpr std::int64_t kLargestMultiplier = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLargestOffset = std::int64_t{1} << 62;  // with a product of at most 62 bits, no sum overflows

/// An accumulator and a result.
struct Point {
  std::int64_t at = 0;
  std::int64_t k = 0;
};

/// One channel's step function over its reachable accumulators.
struct Steps {
  Range range;
  std::int64_t first = 0, last = 0;      // results at both ends of the range
  std::vector<std::int64_t> positions;   // smallest accumulator with result >= first + 1 + i
};

std::string number(std::int64_t x) { return std::to_string(x); }

Result<Steps> find_steps(const Reference& reference, Range range, std::size_t channel, std::int64_t lowest, std::int64_t highest) {
  Steps s{range, reference(range.lowest, channel), reference(range.highest, channel), {}};
  const auto fail = [channel](const std::string& what) {
    return Error(ErrorCode::kUnsupported, "channel " + std::to_string(channel) + ": " + what);
  };
  if (s.first > s.last) return fail("the function decreases, from " + number(s.first) + " to " + number(s.last));
  if (s.first < lowest || s.last > highest) return fail("the function leaves " + number(lowest) + ".." + number(highest));
  std::int64_t low = range.lowest;  // result below k
  for (std::int64_t k = s.first + 1; k <= s.last; ++k) {
    if (!s.positions.empty() && reference(s.positions.back(), channel) >= k) {
      s.positions.push_back(s.positions.back());
      continue;
    }
    std::int64_t high = range.highest;  // result at least k
    // Steps lie about as far apart as the last two: look there first.
    const std::size_t n = s.positions.size();
    std::int64_t guess = n < 2 ? 0 : s.positions[n - 1] - s.positions[n - 2] + 1;
    while (high - low > 1) {
      const bool guessed = guess > 0 && guess < high - low;
      const std::int64_t middle = guessed ? low + guess : low + (high - low) / 2;
      guess = guessed && guess > 2 && middle != low + 1 ? guess - 3 : 0;
      const std::int64_t at = reference(middle, channel);
      if (at < s.first || at > s.last) return fail("the function decreases near " + number(middle));
      if (at >= k) high = middle;
      else low = middle;
    }
    s.positions.push_back(high);
    low = high;
  }
  return s;
}

/// Lines q = m * acc + b that lie on or above every point of `reach` and below every point of `stay`.
struct Corridor {
  std::vector<Point> reach, stay;

  Corridor(const Steps& s, std::int64_t lowest, std::int64_t highest) {
    if (s.first > lowest) reach.push_back({s.range.lowest, s.first});
    for (std::size_t i = 0; i < s.positions.size(); ++i) {
      const std::int64_t k = s.first + 1 + static_cast<std::int64_t>(i);
      reach.push_back({s.positions[i], k});
      stay.push_back({s.positions[i] - 1, k});
    }
    if (s.last < highest) stay.push_back({s.range.highest, s.last + 1});
  }

  /// How far the two sets overlap for slope m (negative: a line fits), and how that changes with m.
  struct Overlap {
    double amount, derivative;
  };
  Overlap overlap(double m) const {
    const auto above = [m](const Point& p) { return static_cast<double>(p.k) - m * static_cast<double>(p.at); };
    double most = -HUGE_VAL, least = HUGE_VAL, most_at = 0, least_at = 0;
    for (const Point& p : reach)
      if (above(p) > most) most = above(p), most_at = static_cast<double>(p.at);
    for (const Point& p : stay)
      if (above(p) < least) least = above(p), least_at = static_cast<double>(p.at);
    return {most - least, least_at - most_at};
  }

  /// Slopes between which a real line may fit, a little widened; absent where none does.
  std::optional<std::pair<double, double>> slopes() const {
    double low = 0, high = 1;
    while (overlap(high).derivative < 0 && high < 1e12) high *= 2;
    double middle = 0;
    Overlap o{0, 0};
    for (int i = 0; i < 200; ++i) {
      middle = low + (high - low) / 2;
      o = overlap(middle);
      if (o.amount < 0 || o.derivative == 0) break;
      (o.derivative < 0 ? low : high) = middle;
    }
    if (o.amount > 1e-9) return std::nullopt;
    double below = low, inside = middle;
    for (int i = 0; i < 100; ++i) {
      const double m = below + (inside - below) / 2;
      (overlap(m).amount < 0 ? inside : below) = m;
    }
    double above = high;
    inside = middle;
    for (int i = 0; i < 100; ++i) {
      const double m = inside + (above - inside) / 2;
      (overlap(m).amount < 0 ? inside : above) = m;
    }
    return std::pair(below * (1 - 1e-12), above * (1 + 1e-12));
  }

  /// An offset for which (acc * multiplier + offset) >> shift takes every step where it should; exact.
  std::optional<std::int64_t> offset(std::int64_t multiplier, int shift) const {
    Wide least = -kLargestOffset, most = kLargestOffset;
    for (const Point& p : reach) least = std::max(least, (Wide{p.k} << shift) - Wide{p.at} * multiplier);
    for (const Point& p : stay) most = std::min(most, (Wide{p.k} << shift) - Wide{p.at} * multiplier - 1);
    if (least > most) return std::nullopt;
    // In the middle of what is allowed, or zero where that is allowed too.
    if (least <= 0 && most >= 0) return 0;
    return static_cast<std::int64_t>(least + (most - least) / 2);
  }
};

struct Line {
  std::int64_t multiplier = 0, offset = 0;
  int shift = 0;
};

/// The fewest bits of shift, then the smallest multiplier.
std::optional<Line> cheapest_line(const Steps& s, std::int64_t lowest, std::int64_t highest) {
  const Corridor corridor(s, lowest, highest);
  if (const auto offset = corridor.offset(0, 0)) return Line{0, *offset, 0};
  const auto slopes = corridor.slopes();
  if (!slopes) return std::nullopt;
  for (int shift = 0; shift <= kLargestShift; ++shift) {
    const double from = std::ceil(std::ldexp(slopes->first, shift)), to = std::floor(std::ldexp(slopes->second, shift));
    if (from > static_cast<double>(kLargestMultiplier)) break;
    const auto first = std::max<std::int64_t>(1, static_cast<std::int64_t>(from));
    const auto last = static_cast<std::int64_t>(std::min(to, static_cast<double>(std::min(first + 8, kLargestMultiplier))));
    for (std::int64_t m = first; m <= last; ++m)
      if (const auto offset = corridor.offset(m, shift)) return Line{m, *offset, shift};
  }
  return std::nullopt;
}

template <class T>
void write_once_if_equal(std::vector<T>& values) {
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) values.resize(1);
}

void use_thresholds(Requantise& r, const std::vector<Steps>& all) {
  r.form = Requantise::Form::kThresholds;
  r.multiplier.clear();
  r.offset.clear();
  r.shift.clear();
  std::vector<std::vector<std::int64_t>> rows;
  for (const Steps& s : all) {
    std::vector<std::int64_t> row;
    for (std::int64_t k = r.lowest + 1; k <= r.highest; ++k) {
      if (k <= s.first) row.push_back(s.range.lowest);
      else if (k > s.last) row.push_back(s.range.highest + 1);
      else row.push_back(s.positions[static_cast<std::size_t>(k - s.first - 1)]);
    }
    rows.push_back(std::move(row));
  }
  write_once_if_equal(rows);
  for (const auto& row : rows) r.thresholds.insert(r.thresholds.end(), row.begin(), row.end());
}

// The checker: shares nothing with the solver but the problem. ---------------------------------------------------------

class Prover {
 public:
  Prover(const Requantise& candidate, const RequantiseProblem& problem) : r_(candidate), p_(problem) {}

  std::string run() const {
    if (std::string why = check_form(); !why.empty()) return why;
    for (std::size_t c = 0; c < p_.accumulators.size(); ++c) {
      if (std::string why = check_channel(c); !why.empty()) return "channel " + std::to_string(c) + ": " + why;
    }
    return {};
  }

 private:
  bool fits(std::size_t entries) const { return entries == 1 || entries == p_.accumulators.size(); }

  std::string check_form() const {
    if (r_.lowest > r_.highest || r_.lowest < p_.lowest || r_.highest > p_.highest) return "the clamp leaves the output's type";
    if (r_.form == Requantise::Form::kThresholds) {
      const auto steps = static_cast<std::size_t>(std::int64_t{r_.highest} - r_.lowest);
      if (steps == 0) return r_.thresholds.empty() ? "" : "thresholds without steps";
      if (r_.thresholds.size() % steps != 0 || !fits(r_.thresholds.size() / steps)) return "the number of thresholds is wrong";
      for (std::size_t i = 0; i < r_.thresholds.size(); ++i)
        if (i % steps != 0 && r_.thresholds[i] < r_.thresholds[i - 1]) return "thresholds descend";
      return {};
    }
    if (!fits(r_.multiplier.size()) || !fits(r_.offset.size()) || !fits(r_.shift.size())) return "the number of multipliers is wrong";
    for (const std::uint8_t s : r_.shift)
      if (s > 62) return "the shift is above 62";
    return {};
  }

  template <class T>
  static T pick(const std::vector<T>& values, std::size_t c) {
    return values.size() == 1 ? values[0] : values[c];
  }

  /// Absent where 64 bits overflow.
  std::optional<std::int64_t> candidate(std::int64_t acc, std::size_t c) const {
    if (r_.form == Requantise::Form::kThresholds) {
      const auto steps = static_cast<std::size_t>(std::int64_t{r_.highest} - r_.lowest);
      const std::size_t row = steps == 0 || r_.thresholds.size() == steps ? 0 : c * steps;
      const auto begin = r_.thresholds.begin() + static_cast<std::ptrdiff_t>(row);
      return r_.lowest + (std::upper_bound(begin, begin + static_cast<std::ptrdiff_t>(steps), acc) - begin);
    }
    const Wide sum = Wide{acc} * pick(r_.multiplier, c) + pick(r_.offset, c);
    if (sum > std::numeric_limits<std::int64_t>::max() || sum < std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    const std::int64_t q = static_cast<std::int64_t>(sum) >> pick(r_.shift, c);
    return std::min<std::int64_t>(std::max<std::int64_t>(q, r_.lowest), r_.highest);
  }

  std::string differs(std::int64_t acc, std::size_t c) const {
    const auto got = candidate(acc, c);
    if (!got) return "64 bits overflow at accumulator " + number(acc);
    const std::int64_t wanted = p_.reference(acc, c);
    if (*got == wanted) return {};
    return "accumulator " + number(acc) + " gives " + number(*got) + ", the reference gives " + number(wanted);
  }

  /// Both functions are monotone (a candidate with a negative multiplier too, the other way): they are equal where they agree at
  /// both ends and on both sides of every step of the reference.
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
    MILLRACE_ASSIGN(Steps s, find_steps(problem.reference, problem.accumulators[c], c, problem.lowest, problem.highest));
    r.lowest = static_cast<std::int32_t>(std::min<std::int64_t>(r.lowest, s.first));
    r.highest = static_cast<std::int32_t>(std::max<std::int64_t>(r.highest, s.last));
    all.push_back(std::move(s));
  }
  for (const Steps& s : all) {
    const auto line = cheapest_line(s, r.lowest, r.highest);
    if (!line) {
      use_thresholds(r, all);
      return r;
    }
    r.multiplier.push_back(static_cast<std::int32_t>(line->multiplier));
    r.offset.push_back(line->offset);
    r.shift.push_back(static_cast<std::uint8_t>(line->shift));
  }
  write_once_if_equal(r.multiplier);
  write_once_if_equal(r.offset);
  write_once_if_equal(r.shift);
  return r;
}

std::string prove(const Requantise& candidate, const RequantiseProblem& problem) { return Prover(candidate, problem).run(); }

}  // namespace millrace::compiler::passes
