#include "runtime/link/sender.hpp"

#include <gtest/gtest.h>

#include "lossy_line.hpp"

namespace millrace::runtime::link::test_sender {

namespace {

constexpr Time kStart{1000h};
constexpr ChannelId kId{1, 2, 4};
constexpr std::uint32_t kIncarnation = 7;  // of the receiver

/// A sender that may have 4 unacknowledged packets (credits), whose datagrams the test reads one by one.
struct Bench {
  Sender sender{{kId, 100, 4, {}}};
  Time now = kStart;

  std::vector<Datagram> sent() {
    std::vector<Datagram> all;
    for (auto bytes = sender.next_datagram(now); !bytes.empty(); bytes = sender.next_datagram(now)) {
      EXPECT_EQ(parse(bytes, all.emplace_back()), Refusal::kNone);
      all.back().payload = {};
    }
    return all;
  }
  void state(std::uint32_t next, std::uint32_t limit, std::uint64_t arrived = 0, std::uint32_t epoch = 9,
             std::uint32_t generation = 3, std::uint32_t incarnation = kIncarnation) {
    Datagram d;
    d.type = Type::kState;
    d.channel = kId;
    d.generation = generation;
    d.incarnation = incarnation;
    d.epoch = epoch;
    d.next = next;
    d.limit = limit;
    d.arrived = arrived;
    sender.receive(d, now);
  }
  /// Gives the sender the datagram of a receiver that has gone into service, and returns the sender's answer.
  std::vector<Datagram> opened(std::uint32_t incarnation = kIncarnation) {
    Datagram d;
    d.type = Type::kReceiverOpened;
    d.channel = kId;
    d.generation = 3;
    d.epoch = 9;
    d.incarnation = incarnation;
    sender.receive(d, now);
    return sent();
  }
  bool push() { return sender.push(0, 0, true, std::vector<std::byte>(10)); }
  void bring_up() {
    sender.start(3, 9, now);
    EXPECT_EQ(sent().size(), 1u);
    EXPECT_EQ(opened().size(), 1u);
    state(0, 4);
  }
};

}  // namespace

TEST(LinkSender, RepeatsItsGreetingUntilTheReceiverAnswers) {
  Bench b;
  EXPECT_EQ(b.sender.state(b.now), LinkState::kDown);
  EXPECT_FALSE(b.push());
  b.sender.start(3, 9, b.now);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kTraining);
  for (int i = 0; i < 20; ++i) {
    const auto sent = b.sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].type, Type::kGreeting);
    EXPECT_EQ(sent[0].packet_bytes, 100u);
    EXPECT_EQ(sent[0].credits, 4u);
    EXPECT_FALSE(b.push());
    EXPECT_LE(b.sender.next_time(), b.now + 50ms);
    EXPECT_EQ(sent[0].incarnation, 0u);
    b.now = b.sender.next_time();
  }
  b.state(0, 4);  // before the sender knows the receiver
  EXPECT_EQ(b.sender.state(b.now), LinkState::kTraining);
  const auto again = b.opened();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].incarnation, kIncarnation);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kTraining);
  b.state(0, 4);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kUp);
  EXPECT_EQ(b.sender.credit(), 4u);
}

TEST(LinkSender, SendsNoPacketWithoutCredit) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(b.push());
  EXPECT_FALSE(b.push());
  EXPECT_EQ(b.sent().size(), 4u);
  b.state(3, 5);
  EXPECT_TRUE(b.push());
  EXPECT_FALSE(b.push());
}

TEST(LinkSender, RepeatsOnlyThePacketThatIsMissing) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) b.push();
  EXPECT_EQ(b.sent().size(), 4u);
  b.state(0, 4, 0b111);  // packets 1 to 3 have arrived
  const auto sent = b.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].number, 0u);
  EXPECT_EQ(b.sender.counters().repeats, 1u);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kDegraded);
  EXPECT_EQ(b.sender.state(b.now + 2s), LinkState::kUp);
}

TEST(LinkSender, ToleratesReorderedPackets) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) b.push();
  b.sent();
  b.state(0, 4, 0b011);  // packets 1 and 2 have overtaken packet 0
  EXPECT_TRUE(b.sent().empty());
}

TEST(LinkSender, RepeatsAnUnansweredPacketAndReportsALostLinkInTime) {
  Bench b;
  b.bring_up();
  b.push();
  EXPECT_EQ(b.sent().size(), 1u);
  const Time sent = b.now;
  int repeats = 0;
  while (b.sender.state(b.now) != LinkState::kLost) {
    b.now = b.sender.next_time();
    ASSERT_LE(b.now, sent + 100ms);
    for (const Datagram& d : b.sent()) repeats += d.type == Type::kData;
  }
  EXPECT_GE(repeats, 3);
  EXPECT_EQ(b.sender.counters().losses, 1u);
  EXPECT_FALSE(b.push());
  // The link was lost. When the receiver answers again, the sender must repeat the packet at once.
  b.state(0, 4);
  EXPECT_NE(b.sender.state(b.now), LinkState::kLost);
  const auto again = b.sent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].number, 0u);
}

TEST(LinkSender, SendsEverythingAgainToARestartedReceiver) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) b.push();
  EXPECT_EQ(b.sent().size(), 4u);
  b.state(0, 4, 0b10);  // packet 2 has arrived
  // A receiver that has restarted has forgotten packet 2. The sender greets it at once.
  const auto greeting = b.opened(8);
  ASSERT_EQ(greeting.size(), 1u);
  EXPECT_EQ(greeting[0].type, Type::kGreeting);
  EXPECT_EQ(greeting[0].incarnation, 8u);
  EXPECT_EQ(greeting[0].number, 0u);
  b.state(0, 4, 0, 9, 3, 8);
  const auto again = b.sent();
  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[2].number, 2u);
  // The sender must ignore states and *receiver opened* datagrams that the old receiver sent before its
  // restart.
  b.state(4, 8);
  EXPECT_EQ(b.sender.counters().drops.generation, 1u);
  EXPECT_EQ(b.sender.credit(), 0u);
  EXPECT_TRUE(b.opened().empty());
  EXPECT_EQ(b.sender.counters().drops.generation, 2u);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kUp);
  // A receiver that was only out of reach has not restarted, so it still has packet 2.
  b.now += 100ms;
  b.sent();
  ASSERT_EQ(b.sender.state(b.now), LinkState::kLost);
  b.state(0, 4, 0b10, 9, 3, 8);
  EXPECT_EQ(b.sent().size(), 3u);
}

// The receiver's counter may start anew, for example in a card that lost its power.
TEST(LinkSender, AcceptsAnOlderReceiverIncarnationOnlyAfterALongSilence) {
  Bench b;
  b.bring_up();
  b.now += 700ms;
  b.sent();
  EXPECT_TRUE(b.opened(1).empty());
  b.now += 200ms;
  b.sent();
  ASSERT_EQ(b.opened(1).size(), 1u);
  b.state(0, 4, 0, 9, 3, 1);
  EXPECT_EQ(b.sender.state(b.now), LinkState::kUp);
}

TEST(LinkSender, TheTimeOfAnOutageIsNotMeasuredAsARoundTrip) {
  Bench b;
  b.bring_up();
  b.push();
  b.sent();
  b.now += 1ms;
  b.state(1, 5);
  b.push();
  b.sent();
  for (int i = 0; i < 79; ++i, b.now += 1ms) b.sent();
  b.push();  // sent once, shortly before the link counts as lost
  b.sent();
  for (int i = 0; i < 2000; ++i, b.now += 1ms) b.sent();
  ASSERT_EQ(b.sender.state(b.now), LinkState::kLost);
  b.state(3, 7);  // both packets had arrived
  b.push();
  ASSERT_EQ(b.sent().size(), 1u);
  const Time sent = b.now;
  bool repeated = false;
  while (!repeated && b.now < sent + 200ms) {
    b.now += 1ms;
    b.state(3, 7, 0, 8);  // the receiver answers, although in an old epoch, so the link is not lost
    for (const Datagram& d : b.sent()) repeated = repeated || (d.type == Type::kData && d.number == 3);
  }
  EXPECT_TRUE(repeated);
  EXPECT_LE(b.now - sent, 20ms);
}

TEST(LinkSender, NoticesThatAnIdleLinkIsLost) {
  Bench b;
  b.bring_up();
  const Time start = b.now;
  while (b.sender.state(b.now) != LinkState::kLost) {
    b.now = b.sender.next_time();
    ASSERT_LE(b.now, start + 500ms);
    b.sent();
  }
}

TEST(LinkSender, AsksForCreditAgainWhenACreditUpdateMayBeLost) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) b.push();
  b.sent();
  b.state(4, 4);  // all have arrived, none was taken
  EXPECT_FALSE(b.push());
  b.now += 20ms;
  const auto sent = b.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type, Type::kGreeting);
}

TEST(LinkSender, RefusesAcknowledgementsOfPacketsThatItDidNotSend) {
  for (const bool by_bitmap : {false, true}) {
    Bench b;
    b.bring_up();
    b.push();
    b.push();
    b.sent();
    b.state(by_bitmap ? 1 : 3, by_bitmap ? 5 : 7, by_bitmap ? 1 : 0);
    EXPECT_EQ(b.sender.violation(), Violation::kUnsent);
    EXPECT_EQ(b.sender.counters().drops.violation, 1u);
    EXPECT_EQ(b.sender.credit(), 2u);
  }
}

TEST(LinkSender, RefusesMoreCreditThanThePlanAllows) {
  Bench b;
  b.bring_up();
  b.state(0, 5);
  EXPECT_EQ(b.sender.violation(), Violation::kLimit);
  EXPECT_EQ(b.sender.credit(), 4u);
}

TEST(LinkSender, IgnoresReceiverStatesOfOtherGenerationsAndEpochs) {
  Bench b;
  b.bring_up();
  b.push();
  b.sent();
  b.state(1, 5, 0, 9, 2);
  EXPECT_EQ(b.sender.counters().drops.generation, 1u);
  b.state(1, 5, 0, 8);
  EXPECT_EQ(b.sender.counters().drops.epoch, 1u);
  EXPECT_EQ(b.sender.credit(), 3u);
}

TEST(LinkSender, ANewEpochDropsThePacketsOfTheOldEpoch) {
  Bench b;
  b.bring_up();
  for (int i = 0; i < 4; ++i) b.push();
  b.sent();
  b.push();
  b.sender.set_epoch(10, b.now);
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.sender.credit(), 4u);
  b.push();
  const auto sent = b.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].number, 0u);
  EXPECT_EQ(sent[0].epoch, 10u);
}

TEST(LinkSender, TellsTheReceiverThatItStops) {
  Bench b;
  b.bring_up();
  b.push();
  b.sender.stop();
  const auto sent = b.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].type, Type::kSenderClosed);
  EXPECT_EQ(b.sender.next_time(), Time::max());
  EXPECT_TRUE(b.sent().empty());
}

}  // namespace millrace::runtime::link::test_sender
