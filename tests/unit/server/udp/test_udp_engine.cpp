// The engine without sockets: every datagram and every moment is the test's own.
#include <gtest/gtest.h>

#include <random>

#include "server/udp/engine.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/signature.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace millrace::server::udp {
namespace {

using namespace std::chrono_literals;
using tests::Bytes;
using tests::FakeDirectory;
using tests::FakePipeline;
using tests::pattern;
using tests::RecordingSender;
using wire::ErrCode;
using wire::Type;

constexpr std::uint32_t kIn = 3000, kOut = 2500;  // three fragments of 1,200 bytes each way

struct Answer {
  wire::Header header;
  Bytes payload;
  std::size_t bytes = 0;
  ErrCode code() const {
    wire::Err err;
    EXPECT_EQ(header.type, Type::kErr);
    EXPECT_TRUE(wire::decode(payload, err));
    return err.code;
  }
};

class UdpEngine : public ::testing::Test {
 protected:
  explicit UdpEngine(std::vector<std::uint32_t> inputs = {kIn}, std::vector<std::uint32_t> outputs = {kOut})
      : pipeline(FakePipeline::Mode::kManual, std::move(inputs), std::move(outputs)), directory(pipeline) {
    address.ip = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    address.port = 5000;
    make();
  }
  ~UdpEngine() override {
    while (pipeline.complete_one()) {
    }
  }

  void make() {
    engine.reset();
    options.cookie_period = 2s;
    engine = std::make_unique<Engine>(options, keys, directory, sender, counters);
  }

  void deliver(wire::Header h, std::span<const std::byte> payload) {
    h.client_id = client;
    h.key_id = key;
    Bytes bytes(h.bytes());
    wire::write_header(h, std::span(bytes).first<wire::kHeaderBytes>());
    if (key != 0) keys.sign(key, std::span(bytes).first(40), payload, std::span(bytes).subspan<40, 16>());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    last_bytes = bytes.size();
    engine->receive(bytes, address, now);
  }
  void send(Type type, std::uint64_t id, std::span<const std::byte> payload) {
    wire::Header h;
    h.type = type;
    h.request_id = id;
    h.total_len = static_cast<std::uint32_t>(payload.size());
    deliver(h, payload);
  }
  void fragment(std::uint64_t id, std::uint32_t index, const Bytes& message, std::uint32_t size = 1200) {
    wire::Layout layout;
    ASSERT_TRUE(wire::make_layout(static_cast<std::uint32_t>(message.size()), size, layout));
    wire::Header h;
    h.request_id = id;
    h.frag_index = static_cast<std::uint16_t>(index);
    h.frag_count = layout.count;
    h.total_len = layout.total;
    h.model = handle;
    h.time_us = deadline_us;
    deliver(h, std::span(message).subspan(layout.offset(index), layout.length(index)));
  }
  void request(std::uint64_t id, const Bytes& message) {
    for (std::uint32_t i = 0; i < 3; ++i) fragment(id, i, message);
  }

  std::vector<Answer> answers() {
    std::vector<Answer> out;
    for (const RecordingSender::Sent& sent : sender.take()) {
      EXPECT_EQ(sent.to, address);
      wire::Datagram d;
      EXPECT_EQ(wire::parse(sent.bytes, d), wire::Refusal::kNone);
      EXPECT_TRUE(d.header.from_server);
      EXPECT_EQ(d.header.client_id, client);
      EXPECT_EQ(d.header.key_id, key);
      if (key != 0) {
        EXPECT_TRUE(keys.verify(d));
      }
      out.push_back({d.header, Bytes(d.payload.begin(), d.payload.end()), sent.bytes.size()});
    }
    return out;
  }
  Answer answer() {
    const auto all = answers();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Answer() : all.front();
  }
  /// The one response among the answers, put together.
  Bytes response() {
    Bytes out;
    wire::Assembly assembly;
    for (const Answer& a : answers()) {
      if (a.header.type != Type::kRsp) continue;
      wire::Layout layout;
      EXPECT_TRUE(wire::layout_of(a.header, a.payload.size(), layout));
      if (out.empty()) {
        out.resize(layout.total);
        assembly.start(layout, out);
      }
      assembly.add(layout, a.header.frag_index, a.payload);
    }
    return assembly.complete() ? out : Bytes();
  }
  static Bytes expected(const Bytes& in, std::size_t size = kOut) {
    Bytes out(size);
    tests::compute(in, out);
    return out;
  }

  wire::CookieReply hello(std::uint64_t id, const wire::Cookie& cookie, std::string_view name = "fake",
                          std::string_view version = "") {
    std::array<std::byte, wire::kMaxHelloBytes> body;
    wire::Hello h;
    h.cookie = cookie;
    h.name = name;
    h.version = version;
    send(Type::kHello, id, std::span(body).first(wire::encode(h, body)));
    reply = answer();
    wire::CookieReply out;
    EXPECT_TRUE(wire::decode(reply.payload, out));
    return out;
  }
  void open(std::uint64_t id = 1) {
    const wire::CookieReply first = hello(id, {});
    EXPECT_EQ(first.state, wire::CookieState::kComeBack);
    const wire::CookieReply second = hello(id + 1, first.cookie);
    ASSERT_EQ(second.state, wire::CookieState::kOpen);
    handle = second.model;
  }
  void pass(std::chrono::nanoseconds time) {
    const Clock::time_point until = now + time;
    while (engine->next_tick() < until) {
      now = std::max(now, engine->next_tick());
      engine->tick(now);
    }
    now = until;
    engine->tick(now);
  }

  EngineOptions options;
  wire::KeyRing keys;
  Counters counters;
  FakePipeline pipeline;
  FakeDirectory directory;
  RecordingSender sender;
  std::unique_ptr<Engine> engine;
  Address address;
  std::uint64_t client = 77;
  std::uint8_t key = 0;
  std::uint32_t handle = 0;
  std::uint32_t deadline_us = 0;
  Clock::time_point now{1000h};
  std::size_t last_bytes = 0;
  Answer reply;
};

TEST_F(UdpEngine, HelloTellsWhatTheModelTakesAndGives) {
  const wire::CookieReply first = hello(1, {});
  EXPECT_EQ(first.model, 0U) << "a stranger learns nothing";
  const wire::CookieReply second = hello(2, first.cookie);
  EXPECT_EQ(second.model, directory.handle());
  EXPECT_EQ(second.input_bytes, kIn);
  EXPECT_EQ(second.output_bytes, kOut);
  EXPECT_EQ(second.window, 64);
  EXPECT_EQ(second.epoch, engine->epoch());
  EXPECT_EQ(second.epoch, first.epoch);
  wire::Signature signature;
  ASSERT_TRUE(wire::decode(second.signature, signature));
  EXPECT_EQ(signature.inputs, (std::vector<wire::TensorDescription>{{"in0", "UINT8", {1, kIn}}}));
}

TEST_F(UdpEngine, HelloForAnUnknownModelSaysSoAndOpensTheSession) {
  const wire::CookieReply first = hello(1, {});
  const wire::CookieReply second = hello(2, first.cookie, "nothing");
  EXPECT_EQ(second.state, wire::CookieState::kOpen);
  EXPECT_EQ(second.model_error, static_cast<std::uint16_t>(ErrCode::kUnknownModel));
  EXPECT_EQ(hello(3, first.cookie, "fake", "2").model_error,
            static_cast<std::uint16_t>(ErrCode::kUnknownModel));
  EXPECT_EQ(hello(4, first.cookie, "").model_error, 0);
  EXPECT_EQ(counters.get(Event::kSessionsOpened), 1U);
}

TEST_F(UdpEngine, CookiesHoldForTheirAddressAndClientAndTimeOnly) {
  const wire::Cookie good = hello(1, {}).cookie;
  address.port = 5001;
  EXPECT_EQ(hello(2, good).state, wire::CookieState::kComeBack);
  address.port = 5000;
  address.ip[3] = std::byte{2};
  EXPECT_EQ(hello(3, good).state, wire::CookieState::kComeBack);
  address.ip[3] = std::byte{1};
  client = 78;
  EXPECT_EQ(hello(4, good).state, wire::CookieState::kComeBack);
  client = 77;
  now += 2s;
  EXPECT_EQ(hello(5, good).state, wire::CookieState::kOpen);
  now += 2s;
  EXPECT_EQ(hello(6, good).state, wire::CookieState::kComeBack);
}

TEST_F(UdpEngine, ARequestInAnyOrderIsComputedOnceAndAnswered) {
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

TEST_F(UdpEngine, DuplicatesWhileComputingGetAckAndAfterwardsTheSameResponse) {
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  EXPECT_TRUE(answers().empty());
  request(10, message);
  const Answer ack = answer();  // fragment 0's; the others are dropped
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

TEST_F(UdpEngine, MissingFragmentsAreAskedForThreeTimesThenWhenTheClientProbes) {
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

TEST_F(UdpEngine, AHalfReceivedRequestIsForgottenAndMayStartAgain) {
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

TEST_F(UdpEngine, TheDeadlineEndsARequestThatDoesNotBecomeWhole) {
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

TEST_F(UdpEngine, AStaleHandleGetsErrGenerationAndRunsOnNothing) {
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

TEST_F(UdpEngine, ATotalThatIsNotTheModelsIsRefusedBeforeMemoryIsTaken) {
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

TEST_F(UdpEngine, IdsBelowTheWindowOrTheHelloAreStale) {
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

TEST_F(UdpEngine, AFullWindowIsBusyAndNothingIsLost) {
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

TEST_F(UdpEngine, AFullQueueIsBusyAndTheSameIdMayComeAgain) {
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

TEST_F(UdpEngine, AFrameThatMadeWayForAnotherIsBusyAndTheSameIdMayComeAgain) {
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  ASSERT_TRUE(
      pipeline.complete_one(Error(ErrorCode::kResourceExhausted, "a more urgent frame took the place")));
  const Answer a = answer();
  ASSERT_EQ(a.header.type, Type::kBusy);
  wire::Busy busy;
  ASSERT_TRUE(wire::decode(a.payload, busy));
  EXPECT_EQ(busy.reason, wire::BusyReason::kQueue);
  request(10, message);
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(message));
}

TEST_F(UdpEngine, FailuresOfThePipelineBecomeTheirCodesAndAreRemembered) {
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

TEST_F(UdpEngine, TooManyHalfReceivedRequestsAreRefused) {
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

TEST_F(UdpEngine, MemoryIsBoundedByGivingUpTheOldestKeptResponse) {
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

TEST_F(UdpEngine, TheNumberOfRequestsIsBoundedLikewise) {
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

TEST_F(UdpEngine, ClientsResendTheFragmentsOfAResponseThatANackNames) {
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

TEST_F(UdpEngine, WithoutASessionOnlyErrNoSessionIsSaid) {
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  EXPECT_EQ(answer().code(), ErrCode::kNoSession);
  wire::Nack nack;
  nack.bits = 1;
  nack.want(0);
  std::array<std::byte, wire::kMaxNackBytes> body;
  send(Type::kNack, 10, std::span(body).first(wire::encode(nack, body)));
  EXPECT_EQ(answer().code(), ErrCode::kNoSession);
  EXPECT_EQ(engine->sessions(), 0U);
}

TEST_F(UdpEngine, AStrangerIsNeverSentMoreThanItSent) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const Type type = static_cast<Type>(1 + random() % 10);
    Bytes payload = pattern(random() % 200, random());
    if (type == Type::kHello && payload.size() >= 24) {  // well-formed ones too
      wire::store<std::uint16_t>(payload, 16, 1200);
      for (const std::size_t at : {18U, 20U, 22U}) wire::store<std::uint16_t>(payload, at, 0);
    }
    wire::Header h;
    h.type = type;
    h.request_id = random();
    h.total_len = static_cast<std::uint32_t>(payload.size());
    h.model = static_cast<std::uint32_t>(random());
    client = random();
    deliver(h, payload);
    std::size_t said = 0;
    for (const Answer& a : answers()) said += a.bytes;
    ASSERT_LE(said, last_bytes) << "type " << static_cast<int>(type) << ", " << payload.size() << " bytes";
  }
  EXPECT_EQ(engine->sessions(), 0U);
  EXPECT_GT(counters.get(Drop::kAmplification), 0U);
}

TEST_F(UdpEngine, PingTellsEpochAndSession) {
  Bytes ping = pattern(50, 3);
  send(Type::kPing, 5, ping);
  Answer a = answer();
  EXPECT_EQ(a.payload.size(), ping.size());
  wire::Pong pong;
  ASSERT_TRUE(wire::decode(a.payload, pong));
  EXPECT_EQ(pong.epoch, engine->epoch());
  EXPECT_FALSE(pong.session);
  EXPECT_TRUE(std::equal(ping.begin() + 16, ping.end(), a.payload.begin() + 16));
  open(10);
  engine->drain();
  send(Type::kPing, 20, ping);
  a = answer();
  ASSERT_TRUE(wire::decode(a.payload, pong));
  EXPECT_TRUE(pong.session);
  EXPECT_TRUE(pong.draining);
  send(Type::kPing, 21, std::span(ping).first(15));
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(Drop::kBody), 1U);
}

TEST_F(UdpEngine, DrainRefusesNewRequestsAndAnswersAcceptedOnes) {
  open();
  request(10, pattern(kIn, 10));
  fragment(11, 0, pattern(kIn, 11));
  engine->drain();
  request(12, pattern(kIn, 12));
  EXPECT_EQ(answer().code(), ErrCode::kUnavailable);
  fragment(11, 1, pattern(kIn, 11));
  fragment(11, 2, pattern(kIn, 11));
  ASSERT_TRUE(pipeline.complete_one());
  EXPECT_EQ(response(), expected(pattern(kIn, 10)));
  engine->cancel_waiting();
  EXPECT_EQ(answer().code(), ErrCode::kUnavailable);
  EXPECT_EQ(engine->in_flight(), 0U);
}

TEST_F(UdpEngine, SessionsAreBoundedAndIdleOnesMakePlace) {
  options.max_sessions = 3;
  make();
  for (client = 1; client <= 3; ++client) open();
  client = 4;
  const wire::CookieReply first = hello(1, {});
  std::array<std::byte, wire::kMaxHelloBytes> body;
  wire::Hello again;
  again.cookie = first.cookie;
  const auto encoded = std::span(body).first(wire::encode(again, body));
  send(Type::kHello, 2, encoded);
  EXPECT_EQ(answer().header.type, Type::kBusy);
  now += 3s;
  client = 1;
  send(Type::kPing, 9, pattern(16, 1));
  (void)answers();
  now += 2s;
  client = 4;
  open(10);
  EXPECT_EQ(engine->sessions(), 3U);
  client = 1;
  send(Type::kPing, 10, pattern(16, 1));
  wire::Pong pong;
  ASSERT_TRUE(wire::decode(answer().payload, pong));
  EXPECT_TRUE(pong.session) << "the one in use stays";
}

TEST_F(UdpEngine, IdleSessionsCloseAndGiveTheirMemoryBackButNotWhileComputing) {
  open();
  request(10, pattern(kIn, 10));
  fragment(11, 0, pattern(kIn, 11));
  pass(301s);
  EXPECT_EQ(engine->sessions(), 1U);
  ASSERT_TRUE(pipeline.complete_one(Status()));
  pass(1s);
  EXPECT_EQ(engine->sessions(), 0U);
  (void)answers();
  fragment(12, 0, pattern(kIn, 12));
  EXPECT_EQ(answer().code(), ErrCode::kNoSession);
}

TEST_F(UdpEngine, WithKeysOnlyRightTagsAreHeard) {
  ASSERT_TRUE(keys.add(1, pattern(32, 1)).ok());
  ASSERT_TRUE(keys.add(2, pattern(32, 2)).ok());
  key = 1;
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message));

  key = 2;
  fragment(10, 0, message);
  EXPECT_EQ(answer().code(), ErrCode::kNoSession) << "a session belongs to its key";
  key = 0;
  fragment(10, 0, message);
  send(Type::kPing, 20, pattern(16, 1));
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(Drop::kTag), 2U);

  wire::Header h;
  h.type = Type::kPing;
  h.client_id = client;
  h.request_id = 21;
  h.total_len = 16;
  Bytes bytes(56 + 16);
  for (const std::uint8_t id : {std::uint8_t{1}, std::uint8_t{3}}) {  // a wrong tag; an unknown key
    h.key_id = id;
    wire::write_header(h, std::span(bytes).first<40>());
    engine->receive(bytes, address, now);
  }
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(Drop::kTag), 4U);

  // A server's datagram sent back to it: the tag is right, the direction is not.
  key = 1;
  fragment(10, 0, message);
  for (const auto& sent : sender.take()) engine->receive(sent.bytes, address, now);
  EXPECT_TRUE(sender.take().empty());
  EXPECT_EQ(counters.get(Drop::kUnexpected), 3U);
}

TEST_F(UdpEngine, WithoutKeysTaggedDatagramsAreDropped) {
  wire::KeyRing others;
  ASSERT_TRUE(others.add(1, pattern(32, 1)).ok());
  wire::Header h;
  h.type = Type::kPing;
  h.key_id = 1;
  h.total_len = 16;
  Bytes bytes(56 + 16);
  wire::write_header(h, std::span(bytes).first<40>());
  engine->receive(bytes, address, now);
  EXPECT_TRUE(sender.take().empty());
  EXPECT_EQ(counters.get(Drop::kTag), 1U);
}

TEST_F(UdpEngine, EveryTruncationOfEveryDatagramIsCountedAndHarmless) {
  open();
  const Bytes message = pattern(1000, 1);
  for (int type = 1; type <= 10; ++type) {
    wire::Header h;
    h.type = static_cast<Type>(type);
    h.client_id = client;
    h.request_id = 10;
    h.total_len = 64;
    Bytes bytes(40);
    wire::write_header(h, std::span(bytes).first<40>());
    bytes.resize(104);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      engine->receive(cut, address, now);
    }
  }
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(wire::Refusal::kTooShort), 400U);
  EXPECT_EQ(counters.get(wire::Refusal::kBadLength), 640U);
}

/// Random but valid-looking traffic of a hostile client in a session: nothing may crash, leak a bound or run
/// twice.
TEST_F(UdpEngine, ChaosWithinASessionKeepsAllBounds) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
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
    Bytes message = pattern(kIn, id);  // one id, one message, so that executions can be counted by content
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

TEST_F(UdpEngineWithLargeTensors, LongMessagesAreAskedForBurstByBurstBothWays) {
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
}  // namespace millrace::server::udp
