// Tests the schedule of requests. The schedule has no clock; the tests pass the time to it.
#include <gtest/gtest.h>

#include <deque>

#include "tools/load/run.hpp"

namespace millrace::load::test_schedule {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kStart = Clock::time_point(1000s);

TEST(OpenLoop, DueTimesFollowTheRateWithoutDrift) {
  Schedule schedule(kStart, 0s, 1000s, 3.0);
  std::uint64_t taken = 0;
  while (const auto slot = schedule.take(kStart)) {
    const double wanted = static_cast<double>(slot->index) / 3.0;
    ASSERT_NEAR(std::chrono::duration<double>(slot->intended - kStart).count(), wanted, 1e-6);
    ASSERT_EQ(slot->index, taken++);
  }
  EXPECT_EQ(taken, 3000U);
  EXPECT_TRUE(schedule.over(kStart));
  EXPECT_EQ(schedule.untaken(), 0U);
}

TEST(OpenLoop, RequestsDueDuringTheWarmUpAreNotMeasured) {
  Schedule schedule(kStart, 1s, 1s, 10.0);
  int measured = 0, warm_up = 0;
  while (const auto slot = schedule.take(kStart)) {
    EXPECT_EQ(slot->measured, slot->intended >= kStart + 1s);
    ++(slot->measured ? measured : warm_up);
  }
  EXPECT_EQ(measured, 10);
  EXPECT_EQ(warm_up, 10);
}

TEST(OpenLoop, CountsRequestsThatCouldNotBeSentBeforeTheRunEnded) {
  Schedule schedule(kStart, 0s, 10s, 100.0);
  for (int i = 0; i < 250; ++i) ASSERT_TRUE(schedule.take(kStart + 9s).has_value());
  EXPECT_FALSE(schedule.take(kStart + 10s).has_value());
  EXPECT_EQ(schedule.untaken(), 750U);
}

TEST(OpenLoop, CountsRequestsExactlyForAnyRate) {
  for (const double rate : {0.3, 1.0, 7.0, 333.333, 99'999.7}) {
    Schedule schedule(kStart, 100ms, 1s, rate);
    const std::uint64_t all = schedule.untaken();
    std::uint64_t taken = 0;
    while (schedule.take(kStart)) ++taken;
    EXPECT_EQ(taken, all) << rate;
    EXPECT_GE(taken, 1U) << "the first request is due immediately";
  }
}

/// Simulates `connections` connections to a server that answers within 1 ms, except that it stalls from second 2 to 3.
Tally play(Schedule schedule, std::size_t connections) {
  Tally tally;
  std::deque<Clock::time_point> free(connections, kStart);
  while (true) {
    std::sort(free.begin(), free.end());
    auto now = free.front();
    const auto slot = schedule.take(now);
    if (!slot) break;
    now = std::max(now, slot->intended);
    tally.sent(*slot, now);
    auto done = now + 1ms;
    if (done > kStart + 2s && now < kStart + 3s) done = kStart + 3s + 1ms;
    tally.succeeded(*slot, done);
    free.front() = done;
  }
  tally.finish(schedule);
  return tally;
}

TEST(OpenLoop, StallAddsToTheLatencyOfEveryDelayedRequest) {
  const Tally tally = play(Schedule(kStart, 0s, 10s, 100.0), 4);
  EXPECT_EQ(tally.latency.count(), 1000U);
  EXPECT_TRUE(tally.errors.empty());
  // Of the 1,000 requests, 100 were due during the stall. Half of the 100 waited longer than half a second.
  EXPECT_NEAR(static_cast<double>(tally.latency.percentile(95).count()), 5e8, 3e7);
  EXPECT_GE(tally.latency.percentile(99), 850ms);
  EXPECT_GT(tally.late, 80U);
  EXPECT_GT(tally.send_delay.max(), 900ms);
}

TEST(OpenLoop, AVeryLowRateSendsOneRequest) {
  for (const double rate : {1e-3, 1e-30, 1e-308}) {
    Schedule schedule(kStart, 0s, 1s, rate);
    EXPECT_TRUE(schedule.take(kStart).has_value());
    EXPECT_TRUE(schedule.over(kStart)) << rate;
    EXPECT_FALSE(schedule.take(kStart).has_value()) << rate;
    EXPECT_EQ(schedule.untaken(), 0U) << rate;
  }
}

TEST(ClosedLoop, AServerStallDelaysOnlyOneRequestPerConnection) {
  const Tally tally = play(Schedule(kStart, 0s, 10s, std::nullopt), 4);
  EXPECT_GT(tally.latency.count(), 30'000U);
  EXPECT_EQ(tally.latency.percentile(99) / 1ms, 1);
  EXPECT_GE(tally.latency.max(), 1s);
  EXPECT_EQ(tally.late, 0U);
}

TEST(ClosedLoop, SendsRequestsUntilTheRunEnds) {
  Schedule schedule(kStart, 1s, 2s, std::nullopt);
  EXPECT_FALSE(schedule.take(kStart)->measured);
  EXPECT_TRUE(schedule.take(kStart + 1s)->measured);
  EXPECT_TRUE(schedule.take(kStart + 3s - 1ns).has_value());
  EXPECT_FALSE(schedule.take(kStart + 3s).has_value());
  EXPECT_EQ(schedule.untaken(), 0U);
}

TEST(Tally, CountsFailuresButNotLatenciesDuringTheWarmUp) {
  Schedule schedule(kStart, 1s, 1s, std::nullopt);
  const auto slot = schedule.take(kStart);
  Tally tally;
  tally.sent(*slot, kStart);
  tally.succeeded(*slot, kStart + 1ms);
  tally.failed("429");
  tally.finish(schedule);
  EXPECT_EQ(tally.latency.count(), 0U);
  EXPECT_EQ(tally.errors.at("429"), 1U);
  EXPECT_EQ(tally.measured, 1s);
}

}  // namespace
}  // namespace millrace::load::test_schedule
