// Tests HELLO and COOKIE messages, sessions and their limits, keys, and clients with an unproved address.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/engine_fixture.hpp"

namespace millrace::server::udp::test_udp_sessions {
namespace {

TEST_F(UdpEngine, HelloDescribesTheModelsInputsAndOutputs) {
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

TEST_F(UdpEngine, HelloForAnUnknownModelOpensTheSessionAndReportsTheError) {
  const wire::CookieReply first = hello(1, {});
  const wire::CookieReply second = hello(2, first.cookie, "nothing");
  EXPECT_EQ(second.state, wire::CookieState::kOpen);
  EXPECT_EQ(second.model_error, static_cast<std::uint16_t>(ErrCode::kUnknownModel));
  EXPECT_EQ(hello(3, first.cookie, "fake", "2").model_error,
            static_cast<std::uint16_t>(ErrCode::kUnknownModel));
  EXPECT_EQ(hello(4, first.cookie, "").model_error, 0);
  EXPECT_EQ(counters.get(Event::kSessionsOpened), 1U);
}

TEST_F(UdpEngine, HelloForALoadingModelGetsUnavailable) {
  const wire::CookieReply first = hello(1, {});
  EXPECT_EQ(hello(2, first.cookie, "coming").model_error, static_cast<std::uint16_t>(ErrCode::kUnavailable));
}

TEST_F(UdpEngine, AllClientsOfOneMachineShareOneTurnInTheQueue) {
  std::uint64_t next = 10;  // a new id each time, because a repeated id gets the stored answer
  const auto share = [&](const char* ip, std::uint64_t id) {
    come_from(ip, 5000);
    client = id;
    open();
    request(next++, pattern(kIn, id));
    EXPECT_TRUE(pipeline.complete_one());
    sender.take();
    return pipeline.last_client;
  };
  EXPECT_EQ(share("10.0.0.7", 1), share("10.0.0.7", 2));
  EXPECT_EQ(share("10.0.0.7", 3), 0x0A000007U) << "as over HTTP";
  EXPECT_NE(share("10.0.0.8", 1), share("10.0.0.7", 1));
  EXPECT_NE(share("127.0.0.1", 1), share("127.0.0.1", 2)) << "clients on this machine";
  EXPECT_EQ(share("fd00:0:0:1:100::", 1), share("fd00:0:0:1:200::", 2));
  EXPECT_NE(share("fd00:0:0:1::", 1), share("fd00:0:0:2::", 1));
  EXPECT_NE(share("::1", 1), share("::1", 2));
}

TEST_F(UdpEngine, CookiesAreValidOnlyForTheirAddressClientIdAndTime) {
  const wire::Cookie good = hello(1, {}).cookie;
  come_from("127.0.0.1", 5001);
  EXPECT_EQ(hello(2, good).state, wire::CookieState::kComeBack);
  come_from("127.0.0.2", 5000);
  EXPECT_EQ(hello(3, good).state, wire::CookieState::kComeBack);
  come_from("127.0.0.1", 5000);
  client = 78;
  EXPECT_EQ(hello(4, good).state, wire::CookieState::kComeBack);
  client = 77;
  now += 2s;
  EXPECT_EQ(hello(5, good).state, wire::CookieState::kOpen);
  now += 2s;
  EXPECT_EQ(hello(6, good).state, wire::CookieState::kComeBack);
}

TEST_F(UdpEngine, RequestWithoutASessionGetsErrNoSession) {
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

TEST_F(UdpEngine, UnverifiedAddressNeverReceivesMoreBytesThanItSent) {
  const unsigned seed = tests::chosen_seed();
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const Type type = static_cast<Type>(1 + random() % 10);
    Bytes payload = pattern(random() % 200, random());
    if (type == Type::kHello && payload.size() >= 24) {  // make some messages well-formed
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

TEST_F(UdpEngine, PongNamesEpochAndSession) {
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

TEST_F(UdpEngine, DrainRefusesNewRequestsAndAnswersAcceptedRequests) {
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

TEST_F(UdpEngine, NumberOfSessionsIsBoundedAndIdleSessionsAreClosed) {
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

TEST_F(UdpEngine, IdleSessionsCloseAndReleaseMemoryUnlessComputing) {
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

TEST_F(UdpEngine, WithKeysOnlyDatagramsWithCorrectTagsAreAccepted) {
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
  for (const std::uint8_t id : {std::uint8_t{1}, std::uint8_t{3}}) {  // a wrong tag, then an unknown key
    h.key_id = id;
    wire::write_header(h, std::span(bytes).first<40>());
    engine->receive(bytes, address, now);
  }
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(Drop::kTag), 4U);

  // Send the server its own datagrams. Their tags are right, but their direction is wrong.
  key = 1;
  fragment(10, 0, message);
  for (const auto& sent : sender.take()) engine->receive(sent.bytes, address, now);
  EXPECT_TRUE(sender.take().empty());
  EXPECT_EQ(counters.get(Drop::kUnexpected), 3U);
}

TEST_F(UdpEngine, NewKeysApplyToLaterRequestsOnly) {
  const auto ring_of = [](std::uint8_t id, std::uint8_t seed) {
    auto ring = std::make_shared<wire::KeyRing>();
    EXPECT_TRUE(ring->add(id, pattern(32, seed)).ok());
    return ring;
  };
  ASSERT_TRUE(keys.add(1, pattern(32, 1)).ok());
  key = 1;
  open();
  const Bytes message = pattern(kIn, 1);
  request(10, message);
  engine->use_keys(ring_of(1, 2));
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message)) << "signed with the key it was asked with";
  request(11, message);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counters.get(Drop::kTag), 3U) << "the former secret";

  // Key 1 now has a new secret. The session continues, and repeated answers are signed with the new secret.
  keys = std::move(*ring_of(1, 2));
  fragment(10, 0, message);
  EXPECT_EQ(response(), expected(message));
  EXPECT_EQ(counters.get(Event::kRepeated), 1U);

  // Sign a part of the request with one secret and the rest with the next secret.
  fragment(12, 0, message);
  engine->use_keys(ring_of(1, 3));
  keys = std::move(*ring_of(1, 3));
  for (std::uint16_t i = 1; i < 3; ++i) fragment(12, i, message);
  pipeline.complete_one();
  EXPECT_EQ(response(), expected(message));

  // Sign with a key that was removed.
  engine->use_keys(ring_of(2, 4));
  fragment(13, 0, message);
  EXPECT_TRUE(answers().empty());
  pass(options.session_idle + 1s);
  EXPECT_EQ(engine->sessions(), 0U);
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

TEST_F(UdpEngine, EveryTruncatedDatagramIsCountedAndHarmless) {
  open();
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

}  // namespace
}  // namespace millrace::server::udp::test_udp_sessions
