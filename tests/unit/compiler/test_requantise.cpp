#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <random>

#include "compiler/passes/requantise.hpp"
#include "kernels/reference/reference.hpp"

namespace millrace::compiler::passes::test_requantise {
namespace {

using kernels::Requantise;

/// Computes the requantisation of QLinearConv: float32(acc) * factor, rounded half to even, plus `zero`, clamped.
struct Qlinear {
  float factor = 1;
  std::int64_t zero = 0, lowest = -128, highest = 127;
  std::int64_t operator()(std::int64_t acc) const {
    const float scaled = static_cast<float>(acc) * factor;
    const double q = static_cast<double>(std::nearbyint(scaled)) + static_cast<double>(zero);
    return static_cast<std::int64_t>(
        std::min(std::max(q, static_cast<double>(lowest)), static_cast<double>(highest)));
  }
};

RequantiseProblem problem_of(std::vector<Qlinear> channels, Range range) {
  RequantiseProblem p;
  p.lowest = -128;
  p.highest = 255;
  p.accumulators.assign(channels.size(), range);
  p.reference = [channels = std::move(channels)](std::int64_t acc, std::size_t c) {
    return channels[c](acc);
  };
  return p;
}

/// Whether kernels/reference with `r` computes the function of `p` for every accumulator of every channel.
bool equal_everywhere(const Requantise& r, const RequantiseProblem& p) {
  for (std::size_t c = 0; c < p.accumulators.size(); ++c)
    for (std::int64_t acc = p.accumulators[c].lowest; acc <= p.accumulators[c].highest; ++acc)
      if (kernels::reference::requantise(r, acc, c) != p.reference(acc, c)) return false;
  return true;
}

Qlinear random_channel(std::mt19937& random) {
  Qlinear q;
  q.factor = std::exp2(std::uniform_real_distribution<float>(-11, 1)(random));
  if (random() % 2 == 0) q.factor = std::exp2(std::round(std::log2(q.factor)));  // powers of two have ties
  const bool is_unsigned = random() % 2 == 0;
  q.lowest = is_unsigned ? 0 : -128;
  q.highest = is_unsigned ? 255 : 127;
  q.zero = std::uniform_int_distribution<std::int64_t>(q.lowest, q.highest)(random);
  if (random() % 3 == 0) q.lowest = q.zero;  // as after a Relu
  return q;
}

struct Random {
  RequantiseProblem problem;
  Requantise solved;
};

std::vector<Random> random_cases(int count, unsigned seed) {
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<Random> cases;
  for (int i = 0; i < count; ++i) {
    std::vector<Qlinear> channels(1 + random() % 3);
    for (Qlinear& q : channels) q = random_channel(random);
    for (Qlinear& q : channels)
      q.lowest = std::max(q.lowest, channels[0].lowest), q.highest = channels[0].highest;
    for (Qlinear& q : channels) q.zero = std::min(std::max(q.zero, q.lowest), q.highest);
    const std::int64_t reach = std::int64_t{1} << (4 + random() % 11);
    const Range range{-static_cast<std::int64_t>(random() % static_cast<unsigned>(reach)),
                      static_cast<std::int64_t>(random() % static_cast<unsigned>(reach))};
    Random r{problem_of(channels, range), {}};
    auto solved = solve(r.problem);
    EXPECT_TRUE(solved.ok()) << solved.error().message();
    if (!solved.ok()) continue;
    r.solved = std::move(*solved);
    cases.push_back(std::move(r));
  }
  return cases;
}

TEST(Requantise, EveryRoundingMethodMatchesBruteForceForEveryAccumulatorValue) {
  std::map<Requantise::Form, int> seen;
  for (unsigned seed = 2024; seed < 2060; ++seed) {
    for (const Random& c : random_cases(1000, seed)) {
      if (++seen[c.solved.form] > 1000) continue;
      EXPECT_TRUE(equal_everywhere(c.solved, c.problem));
      EXPECT_EQ(prove(c.solved, c.problem), "");
    }
    if (seen.size() == 3 &&
        std::all_of(seen.begin(), seen.end(), [](const auto& s) { return s.second >= 1000; }))
      break;
  }
  for (const auto form : {Requantise::Form::kMultiplyShift, Requantise::Form::kMultiplyShiftHalfEven,
                          Requantise::Form::kThresholds}) {
    std::printf("form %d: %d\n", static_cast<int>(form), seen[form]);
    EXPECT_GE(seen[form], 1000);
  }
}

TEST(Requantise, ProofRejectsAnyParameterChangeThatChangesAResult) {
  std::mt19937 random(7);
  int rejected = 0, accepted = 0, rejected_half_even = 0;
  for (const Random& c : random_cases(1000, 99)) {
    Requantise moved = c.solved;
    if (moved.form == Requantise::Form::kThresholds) {
      if (moved.thresholds.empty()) continue;
      auto& t = moved.thresholds[random() % moved.thresholds.size()];
      t += random() % 2 == 0 ? 1 : -1;
    } else {
      const bool half_even = moved.form == Requantise::Form::kMultiplyShiftHalfEven;
      switch (random() % (half_even ? 5 : 4)) {
        case 0:
          moved.multiplier[random() % moved.multiplier.size()] += random() % 2 == 0 ? 1 : -1;
          break;
        case 1: {
          auto& b = moved.offset[random() % moved.offset.size()];
          b += (std::int64_t{1} << (random() % 40)) * (random() % 2 == 0 ? 1 : -1);
          break;
        }
        case 4:
          moved.zero_point += random() % 2 == 0 ? 1 : -1;
          break;
        case 2:
          moved.shift[random() % moved.shift.size()] ^= 1U;
          break;
        default:
          moved.highest -= moved.highest > moved.lowest ? 1 : 0;
          break;
      }
    }
    const std::string why = prove(moved, c.problem);
    const bool ascending =
        moved.form != Requantise::Form::kThresholds || why.find("descend") == std::string::npos;
    if (!ascending) continue;  // thresholds that descend are invalid
    if (why.find("this rounding method includes it") != std::string::npos ||
        why.find("zero point leaves") != std::string::npos)
      continue;
    EXPECT_EQ(why.empty(), equal_everywhere(moved, c.problem)) << why;
    ++(why.empty() ? accepted : rejected);
    rejected_half_even += !why.empty() && moved.form == Requantise::Form::kMultiplyShiftHalfEven ? 1 : 0;
  }
  std::printf("%d rejected, %d of them half to even; %d accepted as truly equal\n", rejected,
              rejected_half_even, accepted);
  EXPECT_GT(rejected, 300);
  EXPECT_GT(rejected_half_even, 50);
  EXPECT_GT(accepted, 50);
}

TEST(Requantise, PowerOfTwoScalesRoundHalfToEvenAndOtherScalesMultiply) {
  const auto general = solve(problem_of({Qlinear{0.0371F, 3, -128, 127}}, {-5000, 5000}));
  ASSERT_TRUE(general.ok());
  EXPECT_EQ(general->form, Requantise::Form::kMultiplyShift);
  // For an even result k, the step is at 2^s * (k - 1/2). For an odd k, the step is one accumulator later. A
  // multiplication followed by rounding down cannot represent such steps.
  for (const std::int64_t zero : {0, 3, -128}) {
    const auto ties = solve(problem_of({Qlinear{0.0625F, zero, -128, 127}}, {-5000, 5000}));
    ASSERT_TRUE(ties.ok());
    EXPECT_EQ(ties->form, Requantise::Form::kMultiplyShiftHalfEven);
    EXPECT_EQ(ties->multiplier, std::vector<std::int32_t>{1});
    EXPECT_EQ(ties->shift, std::vector<std::uint8_t>{4});
    EXPECT_EQ(ties->offset, std::vector<std::int64_t>{0});
    EXPECT_EQ(ties->zero_point, zero);
  }
}

TEST(Requantise, AllChannelsUseTheSameRoundingMethod) {
  const auto mixed =
      solve(problem_of({Qlinear{0.0371F, 3, -128, 127}, Qlinear{0.0625F, 3, -128, 127}}, {-5000, 5000}));
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->form, Requantise::Form::kMultiplyShiftHalfEven);
  EXPECT_EQ(mixed->zero_point, 3);
}

TEST(Requantise, FindsWhetherAZeroPointOutsideTheRangeOfResultsIsEvenOrOdd) {
  // All sums are at least 3, and the result for the smallest sum does not show whether the zero point is even or odd.
  const RequantiseProblem p = problem_of({Qlinear{0.5F, 7, -128, 127}}, {3, 150});
  const auto r = solve(p);
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->form, Requantise::Form::kMultiplyShiftHalfEven);
  EXPECT_TRUE(equal_everywhere(*r, p));
  Requantise other = *r;
  other.zero_point += 1;
  EXPECT_NE(prove(other, p), "");
  other.zero_point += 1;  // the same parity again, so an offset can compensate
  other.offset[0] -= std::int64_t{2} << other.shift[0];
  EXPECT_EQ(prove(other, p), "");
}

/// Whether an offset exists with which `multiplier` and `shift` give the right result for every accumulator. Computes
/// the offsets that each accumulator allows.
bool some_offset_fits(const RequantiseProblem& p, std::int64_t multiplier, int shift, std::int64_t lowest,
                      std::int64_t highest) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min() / 2, most = -least;
  for (std::int64_t acc = p.accumulators[0].lowest; acc <= p.accumulators[0].highest; ++acc) {
    const std::int64_t q = p.reference(acc, 0);
    if (q > lowest) least = std::max(least, (q << shift) - acc * multiplier);
    if (q < highest) most = std::min(most, ((q + 1) << shift) - acc * multiplier - 1);
  }
  return least <= most;
}

TEST(Requantise, ChoosesTheSmallestShift) {
  const RequantiseProblem p = problem_of({Qlinear{0.0371F, 3, -128, 127}}, {-5000, 5000});
  const auto r = solve(p);
  ASSERT_TRUE(r.ok());
  const int shift = r->shift[0];
  ASSERT_GT(shift, 0);
  EXPECT_TRUE(some_offset_fits(p, r->multiplier[0], shift, r->lowest, r->highest));
  const double slope = std::ldexp(0.0371, shift - 1);
  for (auto m = static_cast<std::int64_t>(slope * 0.98); m <= static_cast<std::int64_t>(slope * 1.02) + 1;
       ++m)
    EXPECT_FALSE(some_offset_fits(p, m, shift - 1, r->lowest, r->highest))
        << "multiplier " << m << " with shift " << shift - 1;
}

TEST(Requantise, AConstantFunctionNeedsNoMultiplier) {
  const auto r = solve(problem_of({Qlinear{0.0001F, 5, 0, 255}}, {-100, 100}));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->multiplier, std::vector<std::int32_t>{0});
  EXPECT_EQ(kernels::reference::requantise(*r, 17, 0), 5);
}

TEST(Requantise, EqualChannelsShareOneSetOfParameters) {
  const Qlinear q{0.0371F, 3, -128, 127};
  const auto r = solve(problem_of({q, q, q}, {-5000, 5000}));
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->multiplier.size(), 1U);
}

TEST(Requantise, RefusesADecreasingFunction) {
  RequantiseProblem p = problem_of({Qlinear{}}, {-50, 50});
  p.reference = [](std::int64_t acc, std::size_t) { return -acc; };
  const auto r = solve(p);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message().find("decreases"), std::string::npos);
}

TEST(Requantise, RefusesAReferenceWhoseResultsOverflowTheOutputType) {
  const auto r = solve(problem_of({Qlinear{1, 0, -1000, 1000}}, {-500, 500}));
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message().find("leaves"), std::string::npos);
}

TEST(Requantise, ProofRefusesOverflowAndParameterVectorsOfWrongLength) {
  const RequantiseProblem p =
      problem_of({Qlinear{0.5F, 0, -128, 127}, Qlinear{0.25F, 0, -128, 127}}, {-300, 300});
  auto r = solve(p);
  ASSERT_TRUE(r.ok());
  Requantise bad = *r;
  bad.form = Requantise::Form::kMultiplyShift;
  bad.thresholds.clear();
  bad.multiplier = {1, 1, 1};
  bad.offset = {0};
  bad.shift = {0};
  EXPECT_NE(prove(bad, p), "");
  bad.multiplier = {1};
  bad.shift = {63};
  EXPECT_NE(prove(bad, p), "");
  bad.shift = {0};
  bad.offset = {std::numeric_limits<std::int64_t>::min()};
  EXPECT_NE(prove(bad, p).find("overflow"), std::string::npos);
}

}  // namespace
}  // namespace millrace::compiler::passes::test_requantise
