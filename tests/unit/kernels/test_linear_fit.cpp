#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/fast/plan.hpp"
#include "random_program.hpp"

namespace millrace::tests::test_linear_fit {
namespace {

using namespace kernels::fast;

struct Case {
  std::int32_t lowest = 0;
  AccumulatorRange range;
  std::vector<std::int64_t> thresholds;
  std::int64_t count(std::int64_t acc) const {
    return std::upper_bound(thresholds.begin(), thresholds.end(), acc) - thresholds.begin();
  }
};

// Returns the thresholds of clamp(round_half_even(float32(acc) * scale) + zero_point), found by trying every value of
// the accumulator.
Case scaled(AccumulatorRange range, float scale, std::int32_t zero_point, std::int32_t lowest,
            std::int32_t highest) {
  Case c{lowest, range, {}};
  for (std::int64_t acc = range.lowest; acc <= range.highest; ++acc) {
    const auto q = static_cast<std::int64_t>(std::nearbyint(static_cast<float>(acc) * scale)) + zero_point;
    const std::int64_t count = std::clamp<std::int64_t>(q, lowest, highest) - lowest;
    while (static_cast<std::int64_t>(c.thresholds.size()) < count) c.thresholds.push_back(acc);
  }
  while (static_cast<std::int64_t>(c.thresholds.size()) < highest - lowest)
    c.thresholds.push_back(range.highest + 1);
  return c;
}

Case any(Chance& chance) {
  const AccumulatorRange range{-chance.between(0, 30000), chance.between(0, 30000)};
  float scale =
      static_cast<float>(chance.between(1, 100000)) / static_cast<float>(chance.between(1000, 10000000));
  if (chance.one_in(3)) scale = std::exp2(static_cast<float>(-chance.between(0, 12)));
  const std::int32_t lowest = chance.one_in(2) ? -128 : 0;
  const auto zero_point = static_cast<std::int32_t>(chance.between(lowest, lowest + 255));
  return scaled(range, scale, zero_point, lowest, lowest + 255);
}

TEST(LinearFit, FitReproducesTheThresholdsOfQuantisedNets) {
  for (const std::uint64_t seed : seeds(400)) {
    Chance chance(seed);
    const Case c = any(chance);
    const auto fit = fit_exactly(c.thresholds, c.range, c.lowest);
    ASSERT_TRUE(fit) << "seed " << seed;
    for (std::int64_t acc = c.range.lowest; acc <= c.range.highest; ++acc) {
      ASSERT_EQ(fit->count(static_cast<std::int32_t>(acc)), c.count(acc))
          << "seed " << seed << ", accumulator " << acc;
    }
  }
}

TEST(LinearFit, NeverReturnsAWrongFit) {
  int exact = 0, below = 0;
  for (const std::uint64_t seed : seeds(400)) {
    Chance chance(seed);
    Case c = any(chance);
    for (auto i = chance.between(1, 4); i > 0; --i) {
      c.thresholds[static_cast<std::size_t>(chance.between(0, 254))] += chance.between(-2, 2);
    }
    std::sort(c.thresholds.begin(), c.thresholds.end());
    const auto fit = fit_exactly(c.thresholds, c.range, c.lowest);
    const auto guess = fit_from_below(c.thresholds, c.range);
    exact += fit ? 1 : 0;
    below += guess ? 1 : 0;
    for (std::int64_t acc = c.range.lowest; acc <= c.range.highest; ++acc) {
      const std::int64_t count = c.count(acc);
      if (fit) {
        ASSERT_EQ(fit->count(static_cast<std::int32_t>(acc)), count)
            << "seed " << seed << ", accumulator " << acc;
      }
      if (guess) {
        const std::int64_t less = count - guess->count(static_cast<std::int32_t>(acc));
        ASSERT_TRUE(less == 0 || less == 1) << "seed " << seed << ", accumulator " << acc;
      }
    }
  }
  EXPECT_LT(exact, 300) << "a step moved by one is another function, unless no accumulator sees it";
  EXPECT_GT(below, 50) << "and still close to a line";
}

TEST(LinearFit, FitsAChannelWhoseResultIsConstantFarFromZero) {
  // If a convolution's weights are all zero and its output scale is tiny, its accumulators can be as far from zero as
  // in the range below.
  const std::vector<std::int64_t> thresholds = {1073741700, 1073741760, 1073741800};
  const AccumulatorRange range{1073741760, 1073741790};
  const auto fit = fit_exactly(thresholds, range, -128);
  ASSERT_TRUE(fit);
  for (std::int64_t acc = range.lowest; acc <= range.highest; ++acc)
    EXPECT_EQ(fit->count(static_cast<std::int32_t>(acc)), 2);
}

TEST(LinearFit, ApproximationFromBelowIsConstantIfItCanExceedOnlyOneThreshold) {
  const std::vector<std::int64_t> thresholds = {-500, 7, 600};
  const AccumulatorRange range{-100, 100};
  const auto fit = fit_from_below(thresholds, range);
  ASSERT_TRUE(fit);
  for (std::int64_t acc = range.lowest; acc <= range.highest; ++acc)
    EXPECT_EQ(fit->count(static_cast<std::int32_t>(acc)), 1);
}

TEST(LinearFit, FitsThresholdListsThatAreEmptyOrUnreachable) {
  EXPECT_TRUE(fit_exactly({}, {-5, 5}, 0));
  const std::vector<std::int64_t> far = {INT64_MIN, INT64_MIN, 100, INT64_MAX};
  const auto fit = fit_exactly(far, {-50, 50}, 0);
  ASSERT_TRUE(fit);
  for (std::int32_t acc = -50; acc <= 50; ++acc) EXPECT_EQ(fit->count(acc), 2);
}

}  // namespace
}  // namespace millrace::tests::test_linear_fit
