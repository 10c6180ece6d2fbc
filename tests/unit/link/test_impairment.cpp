#include "runtime/link/impairment.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "lossy_line.hpp"

namespace millrace::runtime::link::test_impairment {

namespace {

constexpr int kCount = 20'000;

struct Seen {
  int arrived = 0, reordered = 0;
  std::uint64_t wrong_bits = 0;
};

/// Sends numbered datagrams, 10 µs apart, whose other bytes are zero.
Seen pass(const Impairment& impairment) {
  Impairer network(1);
  network.set(impairment, Time{});
  Seen seen;
  Time now{1000h};
  std::uint32_t newest = 0;
  const auto collect = [&] {
    for (auto d = network.next(now); !d.empty(); d = network.next(now)) {
      ++seen.arrived;
      std::uint32_t number = 0;
      std::memcpy(&number, d.data(), sizeof number);
      if (impairment.bit_errors == 0 && number < newest) ++seen.reordered;
      newest = std::max(newest, number);
      for (const std::byte byte : d.subspan(4))
        seen.wrong_bits += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned>(byte)));
    }
  };
  std::vector<std::byte> bytes(104);
  for (std::uint32_t i = 0; i < kCount; ++i, now += 10us) {
    std::memcpy(bytes.data(), &i, sizeof i);
    network.accept(bytes, now);
    collect();
  }
  now += 1s;
  collect();
  return seen;
}

}  // namespace

TEST(LinkImpairment, PassesEverythingUnchangedByDefault) {
  const Seen seen = pass({});
  EXPECT_EQ(seen.arrived, kCount);
  EXPECT_EQ(seen.reordered, 0);
  EXPECT_EQ(seen.wrong_bits, 0u);
}

TEST(LinkImpairment, LosesAndRepeatsDatagramsAtTheGivenRates) {
  Impairment i;
  i.loss = 0.2;
  EXPECT_NEAR(pass(i).arrived, 0.8 * kCount, 300);
  i.loss = 0;
  i.duplicate = 0.2;
  EXPECT_NEAR(pass(i).arrived, 1.2 * kCount, 300);
  i.outage = true;
  EXPECT_EQ(pass(i).arrived, 0);
}

TEST(LinkImpairment, InvertsBitsAtTheGivenRate) {
  Impairment i;
  i.bit_errors = 1e-3;
  EXPECT_NEAR(static_cast<double>(pass(i).wrong_bits), 1e-3 * kCount * 800, 700);
}

TEST(LinkImpairment, ReordersDatagrams) {
  Impairment i;
  i.reorder = 0.1;
  const Seen seen = pass(i);
  EXPECT_EQ(seen.arrived, kCount);
  EXPECT_GT(seen.reordered, kCount / 20);
}

TEST(LinkImpairment, DelaysDatagramsByTheGivenLatencyAndRate) {
  Impairer network(1);
  Impairment i;
  i.latency = 1ms;
  i.gigabits_per_second = 0.008;  // a byte in 1 µs
  network.set(i, Time{});
  const Time start{1000h};
  const std::vector<std::byte> bytes(100);
  network.accept(bytes, start);
  network.accept(bytes, start);
  EXPECT_EQ(network.next_time(), start + 1100us);
  EXPECT_TRUE(network.next(start + 1099us).empty());
  EXPECT_FALSE(network.next(start + 1100us).empty());
  EXPECT_EQ(network.next_time(), start + 1200us);
}

TEST(LinkImpairment, ANewRateAppliesToDatagramsThatAreAlreadyQueued) {
  Impairment slow, fast;
  slow.gigabits_per_second = 8e-6;  // a byte in 1 ms
  slow.latency = fast.latency = 1ms;
  fast.gigabits_per_second = 0.008;  // a byte in 1 µs
  const Time start{1000h};
  const std::vector<std::byte> bytes(100);
  for (const bool limited : {true, false}) {
    if (!limited) fast.gigabits_per_second = 0;
    Impairer network(1);
    network.set(slow, start);
    for (int n = 0; n < 20; ++n) network.accept(bytes, start);
    EXPECT_EQ(network.next_time(), start + 101ms);
    EXPECT_FALSE(network.next(start + 101ms).empty());
    const Time changed = start + 150ms;
    network.set(fast, changed);
    // The datagrams behind the first one pass at the new rate, and so does one that comes later.
    network.accept(bytes, changed);
    for (int n = 1; n <= 20; ++n) {
      const Time leaves = changed + 1ms + (limited ? n * 100us : 0us);
      EXPECT_EQ(network.next_time(), leaves) << n;
      EXPECT_FALSE(network.next(leaves).empty()) << n;
    }
    EXPECT_EQ(network.next_time(), Time::max());
  }
}

TEST(LinkImpairment, AnOutageEmptiesTheQueueOfASlowCable) {
  Impairment slow;
  slow.gigabits_per_second = 8e-6;  // a byte in 1 ms
  const Time start{1000h};
  const std::vector<std::byte> bytes(100);
  Impairer network(1);
  network.set(slow, start);
  for (int n = 0; n < 20; ++n) network.accept(bytes, start);
  Impairment cut = slow;
  cut.outage = true;
  network.set(cut, start);
  network.set(slow, start + 1ms);
  network.accept(bytes, start + 1ms);
  EXPECT_EQ(network.next_time(), start + 101ms);
}

TEST(LinkImpairment, QueuesABoundedNumberOfDatagrams) {
  Impairer network(1);
  Impairment i;
  i.latency = 1s;
  network.set(i, Time{});
  for (std::size_t n = 0; n < Impairer::kMostWaiting + 10; ++n)
    network.accept(std::vector<std::byte>(1), Time{});
  std::size_t left = 0;
  while (!network.next(Time{} + 2s).empty()) ++left;
  EXPECT_EQ(left, Impairer::kMostWaiting);
}

}  // namespace millrace::runtime::link::test_impairment
