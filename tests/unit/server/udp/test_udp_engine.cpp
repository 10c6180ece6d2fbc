// Tests requests in the UDP engine: in whatever order fragments arrive, the engine executes a request once, answers the
// request, and stays within its limits of memory and time.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/engine_fixture.hpp"

namespace millrace::server::udp::test_udp_engine {
namespace {

TEST_F(UdpEngine, FragmentsInAnyOrderAreComputedOnce) {
  open();
  std::vector<std::uint32_t> order{0, 1, 2};
  std::uint64_t id = 10;
  do {
    const Bytes message = pattern(kIn, id);
    for (const std::uint32_t i : order) fragment(id, i, message);
    EXPECT_EQ(answers().size(), 0U);
    ASSERT_TRUE(pipeline.complete_one());
    EXPECT_EQ(response(), expected(message));
    ++id;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(pipeline.submitted(), 6U);
  EXPECT_EQ(counters.get(Event::kResponses), 6U);
}

TEST_F(UdpEngine, DuplicateRequestGetsAckWhileComputingAndTheSameResponseLater) {
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  EXPECT_TRUE(answers().empty());
  request(10, message);
  const Answer ack = answer();  // only fragment 0 is answered; the others are dropped
  EXPECT_EQ(ack.header.type, Type::kAck);
  EXPECT_EQ(ack.header.request_id, 10U);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message));
  for (int again = 0; again < 3; ++again) {
    request(10, message);
    EXPECT_EQ(response(), expected(message));
  }
  EXPECT_EQ(pipeline.submitted(), 1U);
  EXPECT_EQ(counters.get(Event::kRepeated), 3U);
}

TEST_F(UdpEngine, AsksForMissingFragmentsThreeTimesAndAgainWhenTheClientRepeatsFragment0) {
  open();
  const Bytes message = pattern(kIn, 1);
  fragment(10, 0, message);
  const auto missing = [&](std::vector<std::uint32_t> wanted) {
    const Answer a = answer();
    ASSERT_EQ(a.header.type, Type::kNack);
    wire::Nack nack;
    ASSERT_TRUE(wire::decode(a.payload, nack));
    std::vector<std::uint32_t> named;
    for (std::uint32_t i = 0; i < nack.bits; ++i)
      if (nack.wants(i)) named.push_back(nack.base + i);
    EXPECT_EQ(named, wanted);
  };
  pass(999us);
  EXPECT_TRUE(answers().empty());
  pass(1us);
  missing({1, 2});
  pass(1ms);
  missing({1, 2});
  fragment(10, 2, message);
  pass(1ms);
  missing({1});
  pass(100ms);
  EXPECT_EQ(answers().size(), 2U) << "three times, with growing pauses, then silence";
  fragment(10, 0, message);
  missing({1});
  fragment(10, 1, message);
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(message));
}

TEST_F(UdpEngine, PartlyReceivedRequestIsDroppedAfterATimeoutAndMayStartAgain) {
  open();
  const Bytes message = pattern(kIn, 1);
  fragment(10, 1, message);
  EXPECT_EQ(engine->receiving(), 1U);
  pass(501ms);
  EXPECT_EQ(engine->receiving(), 0U);
  EXPECT_EQ(counters.get(Event::kForgotten), 1U);
  (void)answers();
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(message));
}

TEST_F(UdpEngine, TheDeadlineEndsAnIncompleteRequest) {
  open();
  deadline_us = 20000;
  const Bytes message = pattern(kIn, 1);
  fragment(10, 0, message);
  pass(19ms);
  (void)answers();
  pass(1ms);
  EXPECT_EQ(answer().code(), ErrCode::kDeadline);
  request(10, message);
  EXPECT_EQ(answer().code(), ErrCode::kDeadline) << "remembered";
  EXPECT_EQ(pipeline.submitted(), 0U);
}

TEST_F(UdpEngine, ContradictingFragmentsEndTheRequest) {
  open();
  Bytes message = pattern(kIn, 1);
  fragment(10, 0, message);
  message[5] ^= std::byte{1};
  fragment(10, 0, message);
  EXPECT_EQ(answer().code(), ErrCode::kConflict);
  request(10, message);
  EXPECT_EQ(answer().code(), ErrCode::kConflict);
  fragment(11, 0, message);
  fragment(11, 1, message, 1000);
  EXPECT_EQ(answer().code(), ErrCode::kConflict) << "another fragment size";
  EXPECT_EQ(pipeline.submitted(), 0U);
  EXPECT_EQ(engine->receiving(), 0U);
}

TEST_F(UdpEngine, RequestWithAStaleModelHandleGetsErrGenerationAndIsNotRun) {
  open();
  const Bytes message = pattern(kIn, 1);
  fragment(10, 0, message);
  directory.replace();
  request(11, message);
  EXPECT_EQ(answer().code(), ErrCode::kGeneration);
  handle = 0xFFFF;
  request(12, message);
  EXPECT_EQ(answer().code(), ErrCode::kUnknownModel);
  EXPECT_EQ(pipeline.submitted(), 0U);
}

TEST_F(UdpEngine, WrongTotalSizeIsRefusedBeforeMemoryIsAllocated) {
  open();
  const std::uint64_t before = engine->buffer_bytes();
  for (const std::size_t size : {std::size_t{1}, std::size_t{kIn - 1}, std::size_t{kIn + 1}}) {
    fragment(10, 0, pattern(size, 1));
    EXPECT_EQ(answer().code(), ErrCode::kSize);
  }
  wire::Header h;
  h.request_id = 10;
  h.frag_count = 65535;
  h.total_len = 65535U * 1200U;
  h.model = handle;
  deliver(h, pattern(1200, 1));
  EXPECT_EQ(answer().code(), ErrCode::kSize);
  EXPECT_EQ(engine->buffer_bytes(), before);
}

TEST_F(UdpEngine, RequestsWithIdsBelowTheWindowOrTheSessionStartAreRefusedAsStale) {
  open(100);  // the session begins at id 101
  const Bytes message = pattern(kIn, 1);
  fragment(101, 0, message);
  EXPECT_EQ(answer().code(), ErrCode::kStale);
  request(102, message);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message));
  request(102 + 64, message);
  pipeline.complete_one();
  (void)answers();
  fragment(102, 0, message);
  EXPECT_EQ(answer().code(), ErrCode::kStale);
  request(103, message);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message)) << "late, but within the window and never seen";
  request(~std::uint64_t{0}, message);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message));
  fragment(~std::uint64_t{0} - 64, 0, message);
  EXPECT_EQ(answer().code(), ErrCode::kStale);
}

TEST_F(UdpEngine, AnswersBusyIfTheRequestWindowIsFullAndLosesNoRequest) {
  options.window = 4;
  make();
  open();
  for (std::uint64_t id = 10; id < 14; ++id) request(id, pattern(kIn, id));
  request(14, pattern(kIn, 14));
  const Answer a = answer();
  ASSERT_EQ(a.header.type, Type::kBusy);
  wire::Busy busy;
  ASSERT_TRUE(wire::decode(a.payload, busy));
  EXPECT_EQ(busy.reason, wire::BusyReason::kWindow);
  EXPECT_GT(busy.retry_after_us, 0U);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(pattern(kIn, 10)));
  request(14, pattern(kIn, 14));
  EXPECT_TRUE(answers().empty()) << "taken now";
}

TEST_F(UdpEngine, AnswersBusyIfTheQueueIsFullAndAcceptsTheSameRequestIdLater) {
  open();
  pipeline.capacity = 0;
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  EXPECT_EQ(answer().header.type, Type::kBusy);
  EXPECT_EQ(engine->in_flight(), 0U);
  pipeline.capacity = 1;
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(message));
}

TEST_F(UdpEngine, RequestReplacedByAnUrgentRequestGetsBusyAndMayBeSentAgain) {
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one(
      Error(ErrorCode::kResourceExhausted, "this frame was replaced by a more urgent frame")));
  const Answer a = answer();
  ASSERT_EQ(a.header.type, Type::kBusy);
  wire::Busy busy;
  ASSERT_TRUE(wire::decode(a.payload, busy));
  EXPECT_EQ(busy.reason, wire::BusyReason::kQueue);
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(message));
}

TEST_F(UdpEngine, BusyMessageEstimatesTheWaitingTimeWithinBounds) {
  open();
  const Bytes message = pattern(kIn, 1);
  const auto told = [&](std::chrono::milliseconds pipelines) {
    pipeline.retry = pipelines;
    request(10, message);
    wire::Busy busy;
    EXPECT_TRUE(wire::decode(answer().payload, busy));
    return std::chrono::microseconds(busy.retry_after_us);
  };
  pipeline.capacity = 0;
  EXPECT_EQ(told(0ms), 1ms) << "nothing is known";
  EXPECT_EQ(told(250ms), 250ms);
  EXPECT_EQ(told(1h), 60s);
  pipeline.capacity = 1;
  pipeline.retry = 40ms;
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one(Error(ErrorCode::kResourceExhausted, "it made way")));
  wire::Busy busy;
  ASSERT_TRUE(wire::decode(answer().payload, busy));
  EXPECT_EQ(busy.retry_after_us, 40'000U);
}

TEST_F(UdpEngine, PipelineErrorsBecomeErrCodesAndRetriesGetTheSameErrCode) {
  open();
  const std::vector<std::pair<ErrorCode, ErrCode>> table{{ErrorCode::kDeadlineExceeded, ErrCode::kDeadline},
                                                         {ErrorCode::kUnavailable, ErrCode::kUnavailable},
                                                         {ErrorCode::kCancelled, ErrCode::kUnavailable},
                                                         {ErrorCode::kNotFound, ErrCode::kGeneration},
                                                         {ErrorCode::kInternal, ErrCode::kInternal}};
  std::uint64_t id = 10;
  for (const auto& [from, to] : table) {
    const Bytes message = pattern(kIn, id);
    request(id, message);
    pipeline.complete_one(Error(from, "as the test says"));
    EXPECT_EQ(answer().code(), to);
    fragment(id, 0, message);
    EXPECT_EQ(answer().code(), to);
    ++id;
    pipeline.refusal = Error(from, "as the test says");
    request(id, message);
    EXPECT_EQ(answer().code(), to);
    fragment(id, 0, message);
    EXPECT_EQ(answer().code(), to);
    pipeline.refusal.reset();
    ++id;
  }
}

TEST_F(UdpEngine, TooManyPartlyReceivedRequestsAreRefused) {
  options.max_receiving = 3;
  make();
  open();
  for (std::uint64_t id = 10; id < 13; ++id) fragment(id, 0, pattern(kIn, id));
  EXPECT_TRUE(answers().empty());
  fragment(13, 1, pattern(kIn, 13));
  EXPECT_TRUE(answers().empty()) << "only fragment 0 is answered";
  fragment(13, 0, pattern(kIn, 13));
  EXPECT_EQ(answer().header.type, Type::kBusy);
  EXPECT_EQ(engine->receiving(), 3U);
}

TEST_F(UdpEngine, MemoryIsBoundedByDroppingTheOldestStoredResponse) {
  options.max_buffer_bytes = 3 * (kIn + kOut);
  make();
  open();
  for (std::uint64_t id = 10; id < 20; ++id) {
    request(id, pattern(kIn, id));
    ASSERT_TRUE(pipeline.complete_one());
    EXPECT_EQ(response(), expected(pattern(kIn, id)));
    EXPECT_LE(engine->buffer_bytes(), options.max_buffer_bytes);
  }
  EXPECT_EQ(counters.get(Event::kEvicted), 7U);
  fragment(10, 0, pattern(kIn, 10));
  EXPECT_EQ(answer().code(), ErrCode::kStale) << "given up, and not computed again";
  fragment(19, 0, pattern(kIn, 19));
  EXPECT_EQ(response(), expected(pattern(kIn, 19)));
  for (std::uint64_t id = 30; id < 33; ++id) request(id, pattern(kIn, id));
  EXPECT_TRUE(answers().empty());
  request(33, pattern(kIn, 33));
  EXPECT_EQ(answer().header.type, Type::kBusy) << "all memory is in pipelines";
}

TEST_F(UdpEngine, NumberOfRequestsIsBoundedByDroppingTheOldestStoredResponse) {
  options.max_requests = 2;
  make();
  open();
  for (std::uint64_t id = 10; id < 14; ++id) {
    request(id, pattern(kIn, id));
    ASSERT_TRUE(pipeline.complete_one());
    EXPECT_EQ(response(), expected(pattern(kIn, id)));
  }
  EXPECT_EQ(counters.get(Event::kEvicted), 2U);
}

TEST_F(UdpEngine, ResendsTheResponseFragmentsThatANackNames) {
  open();
  const Bytes message = pattern(kIn, 1);
  wire::Nack nack;
  nack.base = 1;
  nack.bits = 2;
  nack.want(1);
  std::array<std::byte, wire::kMaxNackBytes> body;
  const auto named = std::span(body).first(wire::encode(nack, body));
  send(Type::kNack, 10, named);
  EXPECT_EQ(answer().code(), ErrCode::kStale) << "never seen";
  request(10, message);
  send(Type::kNack, 10, named);
  EXPECT_TRUE(answers().empty()) << "not answered yet";
  pipeline.complete_one();
  (void)answers();
  send(Type::kNack, 10, named);
  const Answer a = answer();
  EXPECT_EQ(a.header.type, Type::kRsp);
  EXPECT_EQ(a.header.frag_index, 2);
  const Bytes whole = expected(message);
  EXPECT_EQ(a.payload, Bytes(whole.begin() + 2400, whole.end()));
  nack.base = 500;
  send(Type::kNack, 10, std::span(body).first(wire::encode(nack, body)));
  EXPECT_TRUE(answers().empty()) << "no such fragment";
}

/// Sends random datagrams of a hostile client. The engine must not crash, exceed a limit, or execute a request twice.
TEST_F(UdpEngine, RandomTrafficOfAHostileClientExceedsNoLimit) {
  const unsigned seed = tests::chosen_seed();
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  options.window = 8;
  options.max_receiving = 4;
  options.max_requests = 12;
  options.max_buffer_bytes = 12 * (kIn + kOut);
  make();
  open();
  std::uint64_t base = 10;
  for (int i = 0; i < 60000; ++i) {
    const std::uint64_t id = base + random() % 12 - 2;
    Bytes message = pattern(kIn, id);  // an id always has the same message
    switch (random() % 16) {
      case 0:
        send(static_cast<Type>(2 + random() % 9), id, pattern(random() % 100, random()));
        break;
      case 1:
        pipeline.complete_one();
        break;
      case 2:
        pipeline.complete_one(random() % 2 == 0 ? Status() : Error(ErrorCode::kUnavailable, "card lost"));
        break;
      case 3:
        pass(std::chrono::microseconds(random() % 3000));
        break;
      case 4:
        base += random() % 3;
        break;
      case 5:
        if (random() % 50 == 0) pass(600ms);
        break;
      case 6:
        if (random() % 10 == 0) message[random() % 1200] ^= std::byte{1};
        fragment(id, static_cast<std::uint32_t>(random() % 3), message);
        break;
      default:
        fragment(id, static_cast<std::uint32_t>(random() % 3), message);
        break;
    }
    (void)sender.take();
    ASSERT_LE(engine->buffer_bytes(), options.max_buffer_bytes);
    ASSERT_LE(engine->receiving(), 4U);
  }
  EXPECT_EQ(pipeline.most_executions(), 1U);
  EXPECT_GT(pipeline.submitted(), 100U);
  while (pipeline.complete_one()) {
  }
  pass(1s);
  EXPECT_EQ(engine->in_flight(), 0U);
  EXPECT_EQ(engine->receiving(), 0U);
}

class UdpEngineWithManyTensors : public UdpEngine {
 protected:
  UdpEngineWithManyTensors() : UdpEngine({1000, 1, 1999}, {100, 2400}) {}
};

TEST_F(UdpEngineWithManyTensors, InputsAndOutputsAreConcatenatedInOrder) {
  open();
  const Bytes message = pattern(3000, 4);
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one());
  Bytes all = expected(message, 100);
  const Bytes second = expected(message, 2400);
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_EQ(response(), all);
}

class UdpEngineWithLargeTensors : public UdpEngine {
 protected:
  UdpEngineWithLargeTensors() : UdpEngine({300 * 1200}, {200 * 1200 + 1}) {}
};

TEST_F(UdpEngineWithLargeTensors, LongRequestsAndResponsesAreTransferredBurstByBurst) {
  open();
  const Bytes message = pattern(300 * 1200, 4);
  for (std::uint32_t i = 0; i < wire::kBurst; ++i) fragment(10, i, message);
  std::uint32_t asked = 0;
  for (int round = 0; round < 10; ++round) {
    for (const Answer& a : answers()) {
      ASSERT_EQ(a.header.type, Type::kNack);
      wire::Nack nack;
      ASSERT_TRUE(wire::decode(a.payload, nack));
      for (std::uint32_t i = 0; i < nack.bits; ++i)
        if (nack.wants(i)) {
          ++asked;
          fragment(10, nack.base + i, message);
        }
    }
  }
  EXPECT_EQ(asked, 300 - wire::kBurst);
  ASSERT_TRUE(pipeline.complete_one());
  Bytes out(200 * 1200 + 1);
  wire::Assembly assembly;
  bool started = false;
  for (int round = 0; round < 10 && !(started && assembly.complete()); ++round) {
    for (const Answer& a : answers()) {
      wire::Layout layout;
      ASSERT_TRUE(wire::layout_of(a.header, a.payload.size(), layout));
      if (!std::exchange(started, true)) assembly.start(layout, out);
      assembly.add(layout, a.header.frag_index, a.payload);
    }
    wire::Nack nack;
    if (!assembly.ask(nack)) break;
    std::array<std::byte, wire::kMaxNackBytes> body;
    send(Type::kNack, 10, std::span(body).first(wire::encode(nack, body)));
  }
  EXPECT_EQ(out, expected(message, out.size()));
}

}  // namespace
}  // namespace millrace::server::udp::test_udp_engine
