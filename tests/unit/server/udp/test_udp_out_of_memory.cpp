// Every allocation of the UDP engine fails once: a datagram or an answer is lost, as networks lose them, and
// the engine goes on.
#include <gtest/gtest.h>

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/udp/engine.hpp"
#include "server/udp/registry_directory.hpp"
#include "tests/support/failing_allocation.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace {

// Of OpenSSL too, which makes what tags are computed in.
void* openssl_malloc(std::size_t bytes, const char*, int) {
  return millrace::tests::allocation_fails() ? nullptr : std::malloc(bytes);
}
void* openssl_realloc(void* p, std::size_t bytes, const char*, int) {
  return millrace::tests::allocation_fails() ? nullptr : std::realloc(p, bytes);
}
void openssl_free(void* p, const char*, int) {
  std::free(p);
}
const bool hooked = CRYPTO_set_mem_functions(&openssl_malloc, &openssl_realloc, &openssl_free) == 1;

}  // namespace

namespace millrace::server::udp {
namespace {

using namespace std::chrono_literals;
using runtime::pipeline::Frame;
using tests::Bytes;
using tests::Exempt;  // the engine's allocations fail, not those of what stands around it
using tests::pattern;
using wire::Type;

constexpr std::uint32_t kIn = 3000, kOut = 2500;  // three fragments each way
constexpr std::uint8_t kKey = 3;

class HeldPipeline final : public runtime::pipeline::Pipeline {
 public:
  HeldPipeline() {
    plan_.model.inputs = {{"x", "UINT8", {1, kIn}}};
    plan_.model.outputs = {{"y", "UINT8", {1, kOut}}};
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(Frame& frame) override {
    delete new char;  // a pipeline may fail here too
    held = &frame;
    return {};
  }
  /// False where nothing waits.
  bool complete() {
    Frame* const frame = std::exchange(held, nullptr);
    if (frame == nullptr) return false;
    tests::compute(frame->inputs[0], frame->outputs[0]);
    frame->on_complete(*frame, frame->context);
    return true;
  }
  void cancel(Frame&) override {}
  bool ready() const override { return true; }
  runtime::pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

  Frame* held = nullptr;

 private:
  runtime::plan::Deployment plan_;
};

class ExemptSender final : public Sender {
 public:
  void send(const Address& to, std::span<const Piece> pieces) override {
    const Exempt exempt;
    kept.send(to, pieces);
  }
  tests::RecordingSender kept;
};

/// A client and an engine. What is sent and heard is the test's, and does not fail.
struct Bench {
  Bench() {
    EXPECT_TRUE(keys.add(kKey, pattern(32, 1)).ok());
    EXPECT_TRUE(
        registry.publish(std::make_shared<models::Model>("fake", "1", pipeline, metrics->model("fake", "1")))
            .ok());
    address.port = 5000;
  }
  ~Bench() {
    while (pipeline->complete()) {
    }
  }

  void deliver(wire::Header h, std::span<const std::byte> payload) {
    Bytes bytes;
    {
      const Exempt exempt;
      h.client_id = 77;
      h.key_id = kKey;
      bytes.resize(h.bytes());
      wire::write_header(h, std::span(bytes).first<wire::kHeaderBytes>());
      keys.sign(kKey, std::span(bytes).first(40), payload, std::span(bytes).subspan<40, 16>());
      bytes.insert(bytes.end(), payload.begin(), payload.end());
    }
    engine.receive(bytes, address, now);
    const Exempt exempt;
    for (const auto& sent : sender.kept.take()) {
      wire::Datagram d;
      ASSERT_EQ(wire::parse(sent.bytes, d), wire::Refusal::kNone);
      hear(d);
    }
  }
  void hear(const wire::Datagram& d) {
    wire::CookieReply reply;
    if (d.header.type == Type::kCookie && wire::decode(d.payload, reply)) {
      cookie = reply.cookie;
      handle = reply.model;
    }
    if (d.header.type != Type::kRsp || d.header.request_id != id) return;
    wire::Layout layout;
    ASSERT_TRUE(wire::layout_of(d.header, d.payload.size(), layout));
    response.resize(kOut);
    std::copy(d.payload.begin(), d.payload.end(),
              response.begin() + static_cast<std::ptrdiff_t>(layout.offset(d.header.frag_index)));
    ++fragments;
  }
  void hello() {
    std::array<std::byte, wire::kMaxHelloBytes> body;
    wire::Hello h;
    h.cookie = cookie;
    h.name = "fake";
    wire::Header head;
    head.type = Type::kHello;
    head.request_id = ++id;
    const auto encoded = std::span<const std::byte>(body).first(wire::encode(h, body));
    head.total_len = static_cast<std::uint32_t>(encoded.size());
    deliver(head, encoded);
  }
  void fragment(std::uint32_t index, const Bytes& message) {
    wire::Layout layout;
    ASSERT_TRUE(wire::make_layout(kIn, 1200, layout));
    wire::Header h;
    h.request_id = id;
    h.frag_index = static_cast<std::uint16_t>(index);
    h.frag_count = layout.count;
    h.total_len = layout.total;
    h.model = handle;
    deliver(h, std::span(message).subspan(layout.offset(index), layout.length(index)));
  }
  /// A session, a request, its answer, and that answer again.
  void ask(const Bytes& message) {
    hello();
    hello();
    ++id;
    {
      const Exempt exempt;
      response.clear();
    }
    fragments = 0;
    for (const std::uint32_t i : {0U, 2U, 1U}) fragment(i, message);
    now += 1ms;
    engine.tick(now);
    pipeline->complete();
    const Exempt exempt;
    for (const auto& sent : sender.kept.take()) {
      wire::Datagram d;
      ASSERT_EQ(wire::parse(sent.bytes, d), wire::Refusal::kNone);
      hear(d);
    }
  }

  std::shared_ptr<HeldPipeline> pipeline = std::make_shared<HeldPipeline>();
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create(
      "test", metrics::Compatibility::kNone, {metrics::Transport::kHttp, metrics::Transport::kUdp});
  models::Registry registry;
  RegistryDirectory directory{registry};
  wire::KeyRing keys;
  Counters counters;
  ExemptSender sender;
  EngineOptions options = [] {
    EngineOptions o;
    o.max_requests = 4;
    o.max_buffer_bytes = 4 * (kIn + kOut);
    return o;
  }();
  Engine engine{options, {std::shared_ptr<void>(), &keys}, directory, sender, counters};
  Address address;
  Clock::time_point now{1000h};
  wire::Cookie cookie{};
  std::uint32_t handle = 0;
  std::uint64_t id = 0;
  Bytes response;
  int fragments = 0;
};

TEST(UdpOutOfMemory, ALostAllocationIsALostDatagramAndTheEngineGoesOn) {
  ASSERT_TRUE(hooked);
  const Bytes message = pattern(kIn, 5);
  Bytes expected(kOut);
  tests::compute(message, expected);
  std::uint64_t dropped = 0, busy = 0;
  bool reached = true;
  for (long n = 0; reached; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    ASSERT_LT(n, 5000);
    Bench bench;
    tests::fail_allocation(n);
    bench.ask(message);
    reached = tests::stop_failing();
    EXPECT_EQ(bench.engine.in_flight(), 0U);
    dropped += bench.counters.get(Drop::kMemory);
    busy += bench.counters.get(wire::BusyReason::kMemory);

    for (int again = 0; again < 6; ++again) {  // more than the engine has room for
      bench.ask(message);
      ASSERT_EQ(bench.fragments, 3) << "the engine does not go on";
      ASSERT_EQ(bench.response, expected);
    }
    bench.now += 1s;
    bench.engine.tick(bench.now);
    EXPECT_EQ(bench.engine.receiving(), 0U);
    EXPECT_LE(bench.engine.buffer_bytes(), bench.options.max_buffer_bytes);
  }
  EXPECT_GT(dropped, 3U);
  EXPECT_GT(busy, 1U);
}

}  // namespace
}  // namespace millrace::server::udp
