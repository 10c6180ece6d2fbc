// Compares the simulation of queues with closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "compiler/queueing/simulate.hpp"

namespace millrace::compiler::queueing::test_queueing {
namespace {

/// Returns a network of stations in a row. A frame occupies each station for the whole time of its visit.
Network row(const std::vector<double>& seconds, std::uint32_t slots = 0) {
  Network network;
  Pipeline& pipeline = network.pipelines.emplace_back();
  pipeline.slots = slots;
  for (std::uint32_t s = 0; s < seconds.size(); ++s) {
    network.stations.push_back({"station " + std::to_string(s)});
    Step step{s, seconds[s], seconds[s], {}};
    if (s > 0) step.after = {s - 1};
    pipeline.steps.push_back(step);
  }
  return network;
}

/// The mean waiting time of an M/D/1 queue (Pollaczek and Khinchine).
double mean_wait(double load, double service) {
  return load * service / (2 * (1 - load));
}

/// The probability that a customer of an M/D/1 queue waits at most `time` (Erlang, 1909). Times are in units of the
/// service time.
double waits_at_most(double time, double load) {
  long double sum = 0;
  for (int k = 0; k <= static_cast<int>(time); ++k) {
    const long double x = load * (static_cast<long double>(time) - k);
    long double term = std::exp(x);
    for (int i = 1; i <= k; ++i) term *= -x / i;
    sum += term;
  }
  return static_cast<double>((1 - static_cast<long double>(load)) * sum);
}

TEST(Queueing, WaitingTimesAreThoseOfAnMD1Queue) {
  for (const double load : {0.3, 0.6, 0.9}) {
    const double service = 2e-6;
    const Observation seen = simulate(row({service}), {load / service, 1'000'000, 7});
    EXPECT_NEAR(seen.mean, service + mean_wait(load, service), 0.02 * seen.mean) << load;
    EXPECT_NEAR(seen.frames_per_second, load / service, 0.01 * load / service);
    EXPECT_NEAR(seen.stations[0].busy, load, 0.01);
    // If a percentile is below the probability that the queue is empty, its waiting time is 0.
    if (load > 0.5) {
      EXPECT_NEAR(waits_at_most(seen.p50 / service - 1, load), 0.5, 0.01) << load;
    }
    EXPECT_NEAR(waits_at_most(seen.p90 / service - 1, load), 0.9, 0.01) << load;
    EXPECT_NEAR(waits_at_most(seen.p99 / service - 1, load), 0.99, 0.002) << load;
    EXPECT_NEAR(waits_at_most(seen.p999 / service - 1, load), 0.999, 0.0005) << load;
  }
}

// With Poisson arrivals and deterministic services, frames wait as long in the whole row as they would at the slowest
// station alone, whatever the order of the stations is (B. Avi-Itzhak, "A sequence of service stations with arbitrary
// input and regular service times", Management Science 11, 1965).
TEST(Queueing, FramesWaitInARowOfStationsAsLongAsAtTheSlowestStationAlone) {
  for (const auto& row_of :
       {std::vector{1.0, 0.4, 0.7}, std::vector{0.4, 0.7, 1.0}, std::vector{0.7, 1.0, 0.4}}) {
    const Observation seen = simulate(row(row_of), {0.8, 400'000, 3});
    const double alone = std::accumulate(row_of.begin(), row_of.end(), 0.0);
    EXPECT_NEAR(seen.mean, alone + mean_wait(0.8, 1.0), 0.02 * seen.mean);
  }
}

// The total waiting time does not depend on how many frames may wait between two stations (the credits).
// Source: B. Avi-Itzhak, "A sequence of service stations", Management Science 11, 1965.
TEST(Queueing, CreditsChangeWhereFramesWaitButNotHowLong) {
  Network network = row({0.7, 1.0, 0.4});
  const Load load{0.8, 100'000, 3};
  const Observation free = simulate(network, load);
  for (auto& step : network.pipelines[0].steps) step.credits = 1;
  const Observation bounded = simulate(network, load);
  EXPECT_NEAR(bounded.mean, free.mean, 1e-6);
  EXPECT_NEAR(bounded.p99, free.p99, 1e-6);
}

TEST(Queueing, AFrameThatNeverWaitsTakesTheSumOfItsDelays) {
  Network network = row({3, 5, 2});
  network.pipelines[0].steps[1].delay_seconds = 1;  // the station computes while the frame arrives
  network.pipelines[0].steps[2].delay_seconds = 9;  // the station computes several frames at once
  const Observation seen = simulate(network, {1e-6, 100});
  EXPECT_NEAR(seen.p50, 13, 1e-9);
  EXPECT_NEAR(seen.p999, 13, 1e-9);
}

TEST(Queueing, JoinWaitsForTheSlowerBranch) {
  Network network;
  for (const char* name : {"fork", "slow", "quick", "join"}) network.stations.push_back({name});
  network.pipelines = {{{{0, 1, 1, {}}, {1, 6, 6, {0}}, {2, 2, 2, {0}}, {3, 1, 1, {1, 2}}}, 0}};
  EXPECT_NEAR(simulate(network, {1e-6, 100}).p90, 8, 1e-9);
  const Observation saturated = simulate(network, {0, 2000});
  EXPECT_NEAR(saturated.frames_per_second, 1.0 / 6, 1e-3);
  EXPECT_EQ(bottleneck(network, saturated), "slow");
}

TEST(Queueing, SustainedRateIsThatOfTheSlowestStation) {
  const Network network = row({1e-6, 4e-6, 2e-6});
  const Observation saturated = simulate(network, {0, 10'000});
  EXPECT_NEAR(saturated.frames_per_second, 250'000, 250);
  EXPECT_EQ(bottleneck(network, saturated), "station 1");
}

TEST(Queueing, SlotsLimitTheRateIfTheyAreFewerThanTheStations) {
  const Network network = row({1, 1, 1, 1, 1, 1, 1, 1, 1}, 3);
  const Observation saturated = simulate(network, {0, 5000});
  EXPECT_NEAR(saturated.frames_per_second, 3.0 / 9, 1e-3);
  EXPECT_NEAR(saturated.slots_in_use, 1, 0.01);
  EXPECT_EQ(bottleneck(network, saturated), "the number of frames in flight (slots)");
}

TEST(Queueing, TwoCreditsLimitACableToTwoFramesPerRoundTrip) {
  Network network = row({1, 1, 1});
  Step& cable = network.pipelines[0].steps[1];
  cable.interval_seconds = 0.1;
  cable.delay_seconds = 5;
  cable.credits = 2;
  cable.credit_seconds = 4;
  const Observation saturated = simulate(network, {0, 5000});
  EXPECT_NEAR(saturated.frames_per_second, 2.0 / 9, 1e-3);
  EXPECT_EQ(bottleneck(network, saturated), "the credits of station 1");
}

TEST(Queueing, ReplicasShareOneQueueAndTheirRatesAddUp) {
  Network network = row({1}, 1);
  Network two = network;
  two.stations.push_back({"other"});
  two.pipelines.push_back({{{1, 1, 1, {}}}, 1});
  EXPECT_NEAR(simulate(two, {0, 4000}).frames_per_second, 2, 0.01);
  const Observation alone = simulate(network, {0.8, 50'000}), shared = simulate(two, {1.6, 50'000});
  EXPECT_LT(shared.mean, alone.mean);
  EXPECT_NEAR(static_cast<double>(shared.stations[0].frames), 25'000, 300);
}

TEST(Queueing, EqualSeedsGiveEqualResults) {
  const Network network = row({1, 2});
  EXPECT_EQ(simulate(network, {0.3, 1000, 5}).p99, simulate(network, {0.3, 1000, 5}).p99);
  EXPECT_NE(simulate(network, {0.3, 1000, 5}).p99, simulate(network, {0.3, 1000, 6}).p99);
}

}  // namespace
}  // namespace millrace::compiler::queueing::test_queueing
