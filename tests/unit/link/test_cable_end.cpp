#include "runtime/link/cable_end.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "lossy_line.hpp"
#include "tests/support/seed.hpp"

namespace millrace::runtime::link::test_cable_end {

namespace {

/// The bytes that packet `number` must carry. Packets differ in length and content.
std::vector<std::byte> content(std::uint32_t number, std::uint32_t packet_bytes) {
  std::mt19937 random(number);
  std::vector<std::byte> bytes(1 + random() % packet_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Sends packets, takes them at the other end, and checks that they arrive once, in order and unchanged.
class Transfer {
 public:
  Transfer(LossyLine& line, std::uint32_t packet_bytes, std::uint32_t packets)
      : line_(line), packet_bytes_(packet_bytes), packets_(packets) {}

  bool operator()() {
    while (sent_ < packets_ && line_.sender.credit() > 0) {
      const auto bytes = content(sent_, packet_bytes_);
      EXPECT_TRUE(line_.sender.push(sent_ / 3, sent_ % 3, sent_ % 3 == 2, bytes));
      ++sent_;
    }
    Packet packet;
    while (line_.receiver.peek(packet)) {
      const auto expected = content(taken_, packet_bytes_);
      EXPECT_EQ(packet.sequence, taken_ / 3);
      EXPECT_EQ(packet.offset, taken_ % 3);
      EXPECT_EQ(packet.last, taken_ % 3 == 2);
      EXPECT_TRUE(std::equal(packet.payload.begin(), packet.payload.end(), expected.begin(), expected.end()))
          << "packet " << taken_;
      line_.receiver.take();
      ++taken_;
    }
    return taken_ == packets_;
  }

 private:
  LossyLine& line_;
  const std::uint32_t packet_bytes_, packets_;
  std::uint32_t sent_ = 0, taken_ = 0;
};

struct Case {
  const char* name;
  Impairment impairment;
  std::uint32_t credits, packets;
};

Impairment faults(double loss, double reorder, double duplicate, double bit_errors,
                  std::chrono::nanoseconds latency = 50us) {
  Impairment i;
  i.loss = loss;
  i.reorder = reorder;
  i.duplicate = duplicate;
  i.bit_errors = bit_errors;
  i.latency = latency;
  return i;
}

}  // namespace

class LossyCable : public testing::TestWithParam<Case> {};

TEST_P(LossyCable, DeliversEveryPacketOnceAndInOrder) {
  const Case& c = GetParam();
  constexpr std::uint32_t kPacketBytes = 300;
  const auto seed = tests::chosen_seed();
  RecordProperty("seed", static_cast<int>(seed));
  LossyLine line(kPacketBytes, c.credits, c.impairment, seed);
  line.receiver.start(1, 5);
  line.sender.start(1, 5, line.now);
  EXPECT_TRUE(line.run(60s, Transfer(line, kPacketBytes, c.packets))) << "seed " << seed;
  EXPECT_EQ(line.sender.violation(), Violation::kNone) << "seed " << seed;
  EXPECT_EQ(line.receiver.violation(), Violation::kNone) << "seed " << seed;
  EXPECT_EQ(line.sender.counters().packets, c.packets);
  EXPECT_EQ(line.receiver.counters().packets, c.packets);
  const bool repairs = c.impairment.loss > 0 || c.impairment.bit_errors > 0;
  EXPECT_EQ(repairs, line.sender.counters().repeats > 0) << line.sender.counters().repeats;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, LossyCable,
    testing::Values(Case{"None", {}, 16, 2000}, Case{"Latency", faults(0, 0, 0, 0, 5ms), 16, 500},
                    Case{"OnePercentLoss", faults(0.01, 0, 0, 0), 16, 5000},
                    Case{"TwentyPercentLoss", faults(0.2, 0, 0, 0), 16, 2000},
                    Case{"OneCredit", faults(0.2, 0, 0.2, 0), 1, 500},
                    Case{"BitErrors", faults(0, 0, 0, 1e-4), 16, 2000},
                    Case{"OnePercentOfEverything", faults(0.01, 0.01, 0.01, 1e-5), 16, 5000},
                    Case{"TwentyPercentOfEverything", faults(0.2, 0.2, 0.2, 1e-4), 100, 5000},
                    Case{"WindowBeyondTheBitmap", faults(0.05, 0.05, 0.05, 0), 200, 5000}),
    [](const auto& tested) { return tested.param.name; });

/// Restarts the ends of a line and changes their epochs (the numbers with which a host discards frames) at
/// random moments, as happens when cards are loaded again.
class Restarts {
 public:
  Restarts(LossyLine& line, unsigned seed) : line_(line), random_(seed) { restart_both(); }

  void restart_both() {
    line_.receiver.start(++incarnation_, epoch_);
    line_.sender.start(++generation_, epoch_, line_.now);
  }
  /// Performs a random event, such as a restart of one end, and then lets at most 40 ms pass.
  void step() {
    switch (random_() % 8) {
      case 0:
        if (random_() % 2 == 0) line_.receiver.stop();  // otherwise it crashes without a farewell
        line_.receiver.start(++incarnation_, epoch_);
        taken_ = 0;  // packets come again if their acknowledgement was lost
        break;
      case 1:
        if (random_() % 2 == 0) line_.sender.stop();
        line_.sender.start(++generation_, epoch_, line_.now);
        break;
      case 2:  // a new epoch, which one end learns before the other
        ++epoch_;
        if (random_() % 2 == 0) line_.sender.set_epoch(epoch_, line_.now);
        line_.run(std::chrono::milliseconds(random_() % 10), work());
        line_.receiver.set_epoch(epoch_);
        line_.run(std::chrono::milliseconds(random_() % 10), work());
        line_.sender.set_epoch(epoch_, line_.now);
        break;
      case 3: {  // datagrams that are on their way overtake each other if the latency falls
        Impairment network;
        network.loss = network.reorder = network.duplicate = 0.05;
        network.latency = std::chrono::milliseconds(1 + random_() % 40);
        line_.impair(network);
        break;
      }
      default:
        break;
    }
    line_.run(std::chrono::milliseconds(random_() % 40), work());
  }
  /// Sends packets as far as credit allows, and takes some of those that have arrived. Packets must be in order.
  std::function<bool()> work() {
    return [this] {
      while (line_.sender.credit() > 0) {
        ++sent_;
        EXPECT_TRUE(line_.sender.push(sent_, 0, true, content(static_cast<std::uint32_t>(sent_), 50)));
      }
      Packet packet;
      while (random_() % 4 != 0 && line_.receiver.peek(packet)) {
        EXPECT_GT(packet.sequence, taken_);
        const auto expected = content(static_cast<std::uint32_t>(packet.sequence), 50);
        EXPECT_TRUE(
            std::equal(packet.payload.begin(), packet.payload.end(), expected.begin(), expected.end()));
        taken_ = packet.sequence;
        line_.receiver.take();
      }
      return false;
    };
  }
  std::uint64_t taken() const { return taken_; }

 private:
  LossyLine& line_;
  std::mt19937 random_;
  std::uint32_t incarnation_ = 0, generation_ = 0, epoch_ = 1;
  std::uint64_t sent_ = 0, taken_ = 0;
};

TEST(CableEnd, RestartsNeitherLookLikeProtocolViolationsNorStopAChannel) {
  const auto seed = tests::chosen_seed();
  Impairment good;
  good.latency = 1ms;
  for (unsigned round = 0; round < 10; ++round) {
    LossyLine line(50, 8, good, seed + round);
    Restarts restarts(line, seed + round);
    for (int step = 0; step < 200; ++step) {
      restarts.step();
      ASSERT_EQ(line.sender.violation(), Violation::kNone) << "seed " << seed << ", round " << round;
      ASSERT_EQ(line.receiver.violation(), Violation::kNone) << "seed " << seed << ", round " << round;
    }
    // When the network is good again, the channel must recover without a restart of either end.
    line.impair(good);
    line.run(3s, restarts.work());
    const auto before = restarts.taken();
    line.run(100ms, restarts.work());
    ASSERT_GT(restarts.taken(), before) << "seed " << seed << ", round " << round;
  }
}

TEST(CableEnd, DropsDatagramsOfChannelsThatAreNotInThePlan) {
  CableEnd end(1, 2);
  end.add_receiver(4, 100, 2, {});
  const Time now{1000h};
  const auto give = [&](Type type, ChannelId id, bool from_peer = true) {
    Datagram d;
    d.type = type;
    d.channel = id;
    d.packet_bytes = type == Type::kGreeting ? 100 : 0;
    d.credits = type == Type::kGreeting ? 2 : 0;
    d.incarnation = 1;
    std::array<std::byte, kHeaderBytes> bytes{};
    encode_header(d, bytes);
    end.receive(bytes, from_peer, now);
  };
  give(Type::kGreeting, {2, 1, 4}, false);
  EXPECT_EQ(end.drops().address, 1u);
  give(Type::kGreeting, {1, 2, 4});
  give(Type::kGreeting, {3, 1, 4});
  give(Type::kGreeting, {2, 3, 4});
  give(Type::kState, {2, 1, 4});
  EXPECT_EQ(end.drops().endpoint, 4u);
  give(Type::kGreeting, {2, 1, 3});
  give(Type::kGreeting, {2, 1, 16});
  give(Type::kState, {1, 2, 4});  // tag 4 has a receiver, but no sender
  EXPECT_EQ(end.drops().tag, 3u);
  end.receive(std::vector<std::byte>(10), true, now);
  EXPECT_EQ(end.drops().malformed, 1u);
  std::vector<std::byte> damaged(kHeaderBytes);
  Datagram d;
  d.type = Type::kState;
  d.incarnation = 1;
  encode_header(d, std::span<std::byte, kHeaderBytes>(damaged.data(), kHeaderBytes));
  damaged[20] ^= std::byte{1};
  end.receive(damaged, true, now);
  EXPECT_EQ(end.drops().damaged, 1u);
}

TEST(CableEnd, TwoChannelsWithTheSameTagInOppositeDirectionsAreIndependent) {
  CableEnd near(1, 2), far(2, 1);
  Timing timing;
  Sender& forth = near.add_sender(0, 100, 4, timing);
  Receiver& back_end = near.add_receiver(0, 50, 2, timing);
  Sender& back = far.add_sender(0, 50, 2, timing);
  Receiver& forth_end = far.add_receiver(0, 100, 4, timing);
  Time now{1000h};
  forth.start(1, 0, now);
  back.start(7, 0, now);
  forth_end.start(1, 0);
  back_end.start(1, 0);
  const auto exchange = [&] {
    for (int i = 0; i < 10; ++i) {
      now += 100us;
      for (auto d = near.next_datagram(now); !d.empty(); d = near.next_datagram(now))
        far.receive(d, true, now);
      for (auto d = far.next_datagram(now); !d.empty(); d = far.next_datagram(now))
        near.receive(d, true, now);
    }
  };
  exchange();
  ASSERT_EQ(forth.credit(), 4u);
  ASSERT_EQ(back.credit(), 2u);
  ASSERT_TRUE(forth.push(8, 0, true, content(1, 100)));
  ASSERT_TRUE(back.push(9, 0, true, content(2, 50)));
  exchange();
  Packet packet;
  ASSERT_TRUE(forth_end.peek(packet));
  EXPECT_EQ(packet.sequence, 8u);
  ASSERT_TRUE(back_end.peek(packet));
  EXPECT_EQ(packet.sequence, 9u);
}

}  // namespace millrace::runtime::link::test_cable_end
