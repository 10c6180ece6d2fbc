#include <gtest/gtest.h>

#include <random>

#include "tools/load/histogram.hpp"

namespace millrace::load::test_histogram {
namespace {

using std::chrono::nanoseconds;

double error_of(nanoseconds got, nanoseconds wanted) {
  return std::abs(static_cast<double>(got.count() - wanted.count())) / static_cast<double>(wanted.count());
}

TEST(Histogram, WithoutValuesReportsZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.percentile(50).count(), 0);
  EXPECT_EQ(h.max().count(), 0);
  EXPECT_EQ(h.min().count(), 0);
  EXPECT_EQ(h.mean_ns(), 0);
}

TEST(Histogram, StoresEveryValueWithinOnePercent) {
  std::int64_t worst_at = 0;
  double worst = 0;
  for (std::int64_t v = 1; v < Histogram::kLongest.count(); v += 1 + v / 97) {
    // Record a smaller and a larger value too, because the histogram stores the minimum and the maximum exactly.
    Histogram h;
    h.record(nanoseconds(0));
    h.record(nanoseconds(v));
    h.record(Histogram::kLongest);
    const double error = error_of(h.percentile(50), nanoseconds(v));
    if (error > worst) worst = error, worst_at = v;
  }
  EXPECT_LE(worst, 0.01) << "at " << worst_at << " ns";
  EXPECT_GT(worst, 0) << "no bucket held two values: the walk was too short";
}

TEST(Histogram, PercentilesEqualPercentilesOfTheSortedValues) {
  constexpr std::uint64_t kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  std::lognormal_distribution<double> latency(11, 1.5);
  Histogram h;
  std::vector<nanoseconds> all;
  for (int i = 0; i < 20'001; ++i) {
    all.emplace_back(static_cast<std::int64_t>(latency(random)) + 1);
    h.record(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const double p : {1.0, 50.0, 90.0, 99.0, 99.9}) {
    const auto rank = static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(all.size())));
    EXPECT_LE(error_of(h.percentile(p), all[rank - 1]), 0.01) << p;
  }
  EXPECT_EQ(h.max(), all.back());
  EXPECT_EQ(h.percentile(100), all.back());
  EXPECT_EQ(h.min(), all.front());
}

TEST(Histogram, NegativeAndHugeValuesAreClamped) {
  Histogram h;
  h.record(nanoseconds(-5));
  h.record(nanoseconds::max());
  EXPECT_EQ(h.count(), 2U);
  EXPECT_EQ(h.min().count(), 0);
  EXPECT_EQ(h.max(), Histogram::kLongest);
}

TEST(Histogram, MergeEqualsRecordingAllValuesInOneHistogram) {
  Histogram a, b, both;
  for (int i = 1; i <= 1000; ++i) {
    (i % 3 == 0 ? a : b).record(nanoseconds(i * i));
    both.record(nanoseconds(i * i));
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  EXPECT_DOUBLE_EQ(a.mean_ns(), both.mean_ns());
  for (const double p : {10.0, 50.0, 99.0}) EXPECT_EQ(a.percentile(p), both.percentile(p));
}

TEST(Histogram, BucketsCountEveryValueOnceInAscendingOrder) {
  Histogram h;
  for (int i = 0; i < 5000; ++i) h.record(nanoseconds(i * 37));
  std::uint64_t sum = 0;
  nanoseconds before{0};
  h.for_each([&](nanoseconds below, std::uint64_t count) {
    EXPECT_GT(below, before);
    before = below;
    sum += count;
  });
  EXPECT_EQ(sum, 5000U);
  EXPECT_GT(before, h.max());
}

}  // namespace
}  // namespace millrace::load::test_histogram
