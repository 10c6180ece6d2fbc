#include "runtime/link/receiver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "lossy_line.hpp"

namespace millrace::runtime::link::test_receiver {

namespace {

constexpr ChannelId kId{1, 2, 4};
constexpr std::uint32_t kIncarnation = 7;  // of the receiver

/// A receiver to which the test gives datagrams one by one.
struct Bench {
  explicit Bench(std::uint32_t credits = 8) : receiver({kId, 100, credits, {}}) {}
  Receiver receiver;
  Time now{1000h};

  void greet(std::uint32_t generation = 3, std::uint32_t epoch = 9, std::uint32_t number = 0,
             std::uint32_t credits = 8, std::uint32_t incarnation = kIncarnation) {
    Datagram d;
    d.type = Type::kGreeting;
    d.channel = kId;
    d.generation = generation;
    d.epoch = epoch;
    d.number = number;
    d.packet_bytes = 100;
    d.credits = credits;
    d.incarnation = incarnation;
    receiver.receive(d, now);
  }
  void data(std::uint32_t number, std::uint32_t epoch = 9, std::uint32_t generation = 3,
            std::size_t bytes = 10) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(number));
    Datagram d;
    d.channel = kId;
    d.generation = generation;
    d.epoch = epoch;
    d.number = number;
    d.sequence = number;
    d.payload = payload;
    receiver.receive(d, now);
  }
  std::optional<Datagram> sent() {
    const auto bytes = receiver.next_datagram(now);
    if (bytes.empty()) return std::nullopt;
    Datagram d;
    EXPECT_EQ(parse(bytes, d), Refusal::kNone);
    return d;
  }
  void bring_up() {
    receiver.start(kIncarnation, 9);
    greet();
    EXPECT_TRUE(sent());
  }
  /// Takes all packets and returns their numbers.
  std::vector<std::uint64_t> take() {
    std::vector<std::uint64_t> numbers;
    Packet packet;
    while (receiver.peek(packet)) {
      EXPECT_TRUE(std::all_of(packet.payload.begin(), packet.payload.end(), [&](std::byte byte) {
        return byte == static_cast<std::byte>(packet.sequence);
      }));
      numbers.push_back(packet.sequence);
      receiver.take();
    }
    return numbers;
  }
};

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST(LinkReceiver, AcceptsNoDataBeforeTheSenderHasGreeted) {
  Bench b;
  b.data(0);
  b.receiver.start(kIncarnation, 9);
  b.data(0);
  EXPECT_EQ(b.receiver.counters().drops.generation, 2u);
  EXPECT_TRUE(b.take().empty());
}

TEST(LinkReceiver, AnswersAGreetingWithItsState) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  EXPECT_EQ(b.receiver.state(b.now), LinkState::kTraining);
  b.greet();
  const auto state = b.sent();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->type, Type::kState);
  EXPECT_EQ(state->generation, 3u);
  EXPECT_EQ(state->epoch, 9u);
  EXPECT_EQ(state->next, 0u);
  EXPECT_EQ(state->limit, 8u);
  EXPECT_EQ(b.receiver.state(b.now), LinkState::kUp);
}

TEST(LinkReceiver, SendsItsIncarnationNumberToASenderThatDoesNotKnowIt) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  for (const std::uint32_t known : {0u, 6u}) {
    b.greet(3, 9, 40, 8, known);
    EXPECT_EQ(b.receiver.next_time(), Time::min());
    const auto answer = b.sent();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->type, Type::kReceiverOpened);
    EXPECT_EQ(answer->generation, 3u);
    EXPECT_EQ(answer->incarnation, kIncarnation);
    EXPECT_FALSE(b.sent());
    b.data(40);  // the receiver does not know yet which packets the sender still has
    EXPECT_TRUE(b.take().empty());
  }
  b.greet(3, 9, 48);
  EXPECT_EQ(b.sent()->next, 48u);
  // Greetings that were sent before the restart and arrive late must change nothing.
  b.data(48);
  b.greet(3, 9, 40, 8, 6);
  b.greet(3, 9, 40, 8, 0);
  EXPECT_EQ(b.receiver.counters().drops.generation, 4u);
  EXPECT_EQ(b.take(), Numbers{48});
  EXPECT_EQ(b.receiver.violation(), Violation::kNone);
}

TEST(LinkReceiver, DropsPacketsThatTheSenderDiscardedBeforeItsGreeting) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  b.greet(3, 10, 0);  // the sender has a newer epoch already
  b.data(40, 9);      // sent before, and delayed
  EXPECT_EQ(b.receiver.violation(), Violation::kNone);
  EXPECT_EQ(b.receiver.counters().drops.epoch, 1u);
  b.receiver.set_epoch(10);
  b.data(0, 10);
  EXPECT_EQ(b.take(), Numbers{0});
}

// A host that is started anew may count epochs (the numbers with which it discards frames) from the
// beginning.
TEST(LinkReceiver, AcceptsPacketsOfALowerEpoch) {
  Bench b;
  b.bring_up();
  b.receiver.set_epoch(1);
  b.data(0, 1);
  EXPECT_EQ(b.take(), Numbers{0});
  b.greet();  // sent before the sender learned of the new epoch
  b.data(1, 1);
  EXPECT_TRUE(b.take().empty());
  b.greet(3, 1);
  b.data(1, 1);
  EXPECT_EQ(b.take(), Numbers{1});
}

TEST(LinkReceiver, DeliversInOrderAndReportsMissingPackets) {
  Bench b;
  b.bring_up();
  b.data(0);
  b.data(2);
  b.data(3);
  b.data(5);
  EXPECT_EQ(b.take(), Numbers{0});
  auto state = b.sent();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->next, 1u);
  EXPECT_EQ(state->limit, 9u);
  EXPECT_EQ(state->arrived, 0b1011u);
  b.data(1);
  EXPECT_EQ(b.take(), (Numbers{1, 2, 3}));
  b.data(4);
  EXPECT_EQ(b.take(), (Numbers{4, 5}));
}

TEST(LinkReceiver, ReportsSeveralArrivedPacketsTogether) {
  Bench b;
  b.bring_up();
  b.data(0);
  EXPECT_FALSE(b.sent());
  EXPECT_EQ(b.receiver.next_time(), b.now + 1ms);
  b.now += 1ms;
  EXPECT_EQ(b.sent()->next, 1u);
  b.data(1);
  EXPECT_FALSE(b.sent());
  b.data(2);  // a quarter of the credits
  EXPECT_EQ(b.sent()->next, 3u);
  EXPECT_FALSE(b.sent());
}

TEST(LinkReceiver, GivesCreditAtOnceIfTheSenderHasNone) {
  Bench b;
  b.bring_up();
  for (std::uint32_t i = 0; i < 8; ++i) b.data(i);
  EXPECT_EQ(b.sent()->limit, 8u);
  EXPECT_FALSE(b.sent());
  b.receiver.take();
  EXPECT_EQ(b.sent()->limit, 9u);
}

TEST(LinkReceiver, ReportsItsStateAgainWhenAPacketArrivesTwice) {
  Bench b;
  b.bring_up();
  b.data(0);
  b.now += 1ms;
  EXPECT_TRUE(b.sent());
  b.data(0);
  EXPECT_TRUE(b.sent());
  EXPECT_EQ(b.receiver.counters().drops.duplicate, 1u);
  EXPECT_EQ(b.take(), Numbers{0});
}

TEST(LinkReceiver, RefusesAPacketBeyondItsCredit) {
  Bench b;
  b.bring_up();
  b.data(8);
  EXPECT_EQ(b.receiver.violation(), Violation::kBeyondCredit);
  b.data(7);
  EXPECT_EQ(b.receiver.counters().drops.violation, 1u);
  EXPECT_EQ(b.receiver.counters().gaps, 1u);
}

TEST(LinkReceiver, RefusesPacketsThatAreTooLong) {
  Bench b;
  b.bring_up();
  b.data(0, 9, 3, 101);
  EXPECT_EQ(b.receiver.violation(), Violation::kPacketBytes);
  EXPECT_TRUE(b.take().empty());
}

TEST(LinkReceiver, RefusesAGreetingWithSettingsThatDifferFromItsOwn) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  b.greet(3, 9, 0, 7);
  EXPECT_EQ(b.receiver.violation(), Violation::kSettings);
  EXPECT_FALSE(b.sent());
}

TEST(LinkReceiver, AGreetingOlderThanTheReceiverIsNoViolationWhateverItsSettings) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  b.greet(3, 9, 0, 7, kIncarnation - 1);  // sent under an earlier plan
  EXPECT_EQ(b.receiver.violation(), Violation::kNone);
  ASSERT_EQ(b.sent()->type, Type::kReceiverOpened);
  b.greet();
  EXPECT_EQ(b.sent()->type, Type::kState);
  b.greet(3, 9, 0, 7, 0);
  EXPECT_EQ(b.receiver.violation(), Violation::kNone);
  EXPECT_FALSE(b.sent());
}

TEST(LinkReceiver, AcceptsASilentSenderThatStartsAgainWithTheSameGeneration) {
  Bench b;
  b.bring_up();
  b.data(0);
  b.data(1);
  EXPECT_EQ(b.take(), (Numbers{0, 1}));
  b.now += 800ms;
  b.greet(3, 9, 0, 8, 0);
  EXPECT_EQ(b.receiver.counters().drops.generation, 1u) << "the sender may still be in service";
  while (b.sent()) continue;
  b.now += 100ms;
  b.greet(3, 9, 0, 8, 0);
  ASSERT_EQ(b.sent()->type, Type::kReceiverOpened);
  b.greet();
  const auto state = b.sent();
  ASSERT_EQ(state->type, Type::kState);
  EXPECT_EQ(state->next, 0u) << "the restarted sender counts its packets from 0 again";
  b.data(0);
  EXPECT_EQ(b.take(), Numbers{0});
}

TEST(LinkReceiver, DropsDataOfOtherGenerationsAndEpochs) {
  Bench b;
  b.bring_up();
  b.data(0, 9, 2);
  b.data(0, 9, 4);
  EXPECT_EQ(b.receiver.counters().drops.generation, 2u);
  b.data(0, 8);
  b.data(0, 10);
  EXPECT_EQ(b.receiver.counters().drops.epoch, 2u);
  EXPECT_TRUE(b.take().empty());
}

TEST(LinkReceiver, ASenderOfANewerGenerationTakesOverAndAnOlderGreetingIsDropped) {
  Bench b;
  b.bring_up();
  b.data(0);
  b.greet(2);
  EXPECT_EQ(b.receiver.counters().drops.generation, 1u);
  b.data(1);
  EXPECT_EQ(b.take(), (Numbers{0, 1}));
  b.data(2);
  b.greet(4);
  EXPECT_TRUE(b.take().empty());  // packet 2 belongs to the old generation
  b.data(0, 9, 4);
  EXPECT_EQ(b.take(), Numbers{0});
  // A sender that lost its power counts its generations from the start again. The receiver must accept this sender once
  // the old one has been silent for long enough.
  b.now += 2s;
  b.greet(1);
  b.data(0, 9, 1);
  EXPECT_EQ(b.take(), Numbers{0});
}

TEST(LinkReceiver, ARestartedReceiverContinuesAtThePacketNumberOfTheSender) {
  Bench b;
  b.receiver.start(kIncarnation, 9);
  b.greet(3, 9, 40);
  EXPECT_EQ(b.sent()->next, 40u);
  b.data(40);
  EXPECT_EQ(b.take(), Numbers{40});
}

TEST(LinkReceiver, ANewEpochDropsThePacketsOfTheOldEpoch) {
  Bench b;
  b.bring_up();
  b.data(0);
  b.receiver.set_epoch(10);
  EXPECT_TRUE(b.take().empty());
  b.data(1);
  EXPECT_TRUE(b.take().empty());
  b.data(0, 10);
  EXPECT_EQ(b.take(), Numbers{0});
}

TEST(LinkReceiver, NoticesThatTheSenderStopsOrFallsSilent) {
  Bench b;
  b.bring_up();
  EXPECT_EQ(b.receiver.state(b.now + 500ms), LinkState::kUp);
  EXPECT_EQ(b.receiver.state(b.now + 900ms), LinkState::kLost);
  Datagram d;
  d.type = Type::kSenderClosed;
  d.channel = kId;
  d.generation = 3;
  b.receiver.receive(d, b.now);
  EXPECT_EQ(b.receiver.state(b.now), LinkState::kTraining);
}

TEST(LinkReceiver, PacketNumbersWrapAroundAfter32Bits) {
  Bench b(6);
  b.receiver.start(kIncarnation, 9);
  b.greet(3, 9, 0xfffffffc, 6);
  for (std::uint32_t i = 6; i-- > 0;) b.data(0xfffffffc + i);
  EXPECT_EQ(b.take(), (Numbers{0xfffffffc, 0xfffffffd, 0xfffffffe, 0xffffffff, 0, 1}));
  EXPECT_EQ(b.sent()->next, 2u);
}

}  // namespace millrace::runtime::link::test_receiver
