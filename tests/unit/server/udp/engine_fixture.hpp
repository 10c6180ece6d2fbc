// A test fixture for the UDP engine without sockets: the test supplies every datagram and the time.
#pragma once

#include <gtest/gtest.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "server/udp/engine.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/signature.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace millrace::server::udp {

using namespace std::chrono_literals;
using tests::Bytes;
using tests::FakeDirectory;
using tests::FakePipeline;
using tests::pattern;
using tests::RecordingSender;
using wire::ErrCode;
using wire::Type;

inline constexpr std::uint32_t kIn = 3000, kOut = 2500;  // bytes; each message has three fragments

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
    come_from("127.0.0.1", 5000);
    make();
  }
  ~UdpEngine() override {
    while (pipeline.complete_one()) {
    }
  }

  void make() {
    engine.reset();
    options.cookie_period = 2s;
    engine = std::make_unique<Engine>(options, ring(), directory, sender, counters);
  }

  /// Makes later datagrams come from this address.
  void come_from(const char* ip, std::uint16_t port) {
    address = {};
    const bool v6 = std::strchr(ip, ':') != nullptr;
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.system);
    address.system.sin6_family = v6 ? AF_INET6 : AF_INET;
    address.set_port(port);
    ASSERT_EQ(inet_pton(v6 ? AF_INET6 : AF_INET, ip,
                        v6 ? static_cast<void*>(&address.system.sin6_addr) : &v4.sin_addr),
              1);
  }

  /// Returns a pointer to `keys`. Tests may add keys after the engine has the pointer.
  std::shared_ptr<const wire::KeyRing> ring() { return {std::shared_ptr<void>(), &keys}; }

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
  /// Assembles the response from its fragments among the answers. Returns no bytes if a fragment is missing.
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

}  // namespace millrace::server::udp
