// Tests that a request allocates nothing once the engine is warm, with one or many fragments, with and without tags.
#include <gtest/gtest.h>

#include <array>

#include "server/udp/engine.hpp"
#include "tests/support/allocations.hpp"

namespace millrace::server::udp::test_udp_allocations {
namespace {

constexpr std::uint32_t kFragment = 1200;

class InstantPipeline final : public runtime::pipeline::Pipeline {
 public:
  explicit InstantPipeline(std::uint32_t bytes) {
    plan_.model.inputs = {{"x", "UINT8", {1, bytes}}};
    plan_.model.outputs = {{"y", "UINT8", {1, bytes}}};
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(runtime::pipeline::Frame& frame) override {
    ++submitted;
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(runtime::pipeline::Frame&) override {}
  bool ready() const override { return true; }
  runtime::pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}
  std::uint64_t submitted = 0;

 private:
  runtime::plan::Deployment plan_;
};

class OneModel final : public ModelDirectory {
 public:
  explicit OneModel(InstantPipeline& p) : model_(*ServedModel::make(1, p)) {}
  Outcome by_handle(std::uint32_t, std::shared_ptr<ServedModel>& out) override {
    out = model_;
    return Outcome::kFound;
  }
  std::shared_ptr<ServedModel> by_name(std::string_view, std::string_view) override { return model_; }

 private:
  std::shared_ptr<ServedModel> model_;
};

/// A sender that stores only the newest cookie and drops all other messages.
class CookieSender final : public Sender {
 public:
  void send(const Address&, std::span<const Piece> pieces) override {
    ++sent;
    wire::CookieReply reply;
    if (pieces[0].payload.size() >= wire::kCookieBytes && wire::decode(pieces[0].payload, reply))
      cookie = reply.cookie;
  }
  std::uint64_t sent = 0;
  wire::Cookie cookie{};
};

class UdpAllocations : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint8_t>> {};

TEST_P(UdpAllocations, ServerAllocatesNothingPerRequestAfterWarmUp) {
  const std::uint32_t bytes = GetParam().first;
  const std::uint8_t key = GetParam().second;
  wire::KeyRing keys;
  if (key != 0) {
    ASSERT_TRUE(keys.add(key, std::vector<std::byte>(32, std::byte{1})).ok());
  }
  InstantPipeline pipeline(bytes);
  OneModel models(pipeline);
  CookieSender sender;
  Counters counters;
  Engine engine({}, {std::shared_ptr<void>(), &keys}, models, sender, counters);
  const Address from;
  Clock::time_point now{std::chrono::hours(1000)};
  std::array<std::byte, 2048> datagram{};

  const auto deliver = [&](wire::Header h, std::span<const std::byte> payload) {
    h.client_id = 5;
    h.key_id = key;
    wire::write_header(h, std::span(datagram).first<wire::kHeaderBytes>());
    if (key != 0)
      keys.sign(key, std::span(datagram).first(40), payload, std::span(datagram).subspan<40, 16>());
    std::copy(payload.begin(), payload.end(), datagram.begin() + static_cast<std::ptrdiff_t>(h.bytes()));
    engine.receive(std::span(datagram).first(h.bytes() + payload.size()), from, now);
    now += std::chrono::microseconds(10);
    if (now >= engine.next_tick()) engine.tick(now);
  };
  std::uint64_t id = 0;
  for (int round = 0; round < 2; ++round) {
    std::array<std::byte, wire::kMaxHelloBytes> body;
    wire::Hello hello;
    hello.cookie = sender.cookie;
    wire::Header h;
    h.type = wire::Type::kHello;
    h.request_id = ++id;
    h.total_len = static_cast<std::uint32_t>(wire::encode(hello, body));
    deliver(h, std::span(body).first(h.total_len));
  }
  ASSERT_EQ(engine.sessions(), 1U);

  const std::vector<std::byte> message(bytes);
  wire::Layout layout;
  ASSERT_TRUE(wire::make_layout(bytes, kFragment, layout));
  const auto request = [&] {
    wire::Header h;
    h.request_id = ++id;
    h.frag_count = layout.count;
    h.total_len = bytes;
    h.model = 1;
    for (std::uint32_t i = 0; i < layout.count; ++i) {
      h.frag_index = static_cast<std::uint16_t>(i);
      deliver(h, std::span(message).subspan(layout.offset(i), layout.length(i)));
    }
  };
  for (int i = 0; i < 1000; ++i) request();
  const std::uint64_t before = tests::allocations();
  for (int i = 0; i < 2000; ++i) request();
  EXPECT_EQ(tests::allocations() - before, 0U);
  EXPECT_EQ(pipeline.submitted, 3000U);
}
INSTANTIATE_TEST_SUITE_P(SizesAndKeys, UdpAllocations,
                         ::testing::Values(std::pair(1000U, std::uint8_t{0}),
                                           std::pair(16384U, std::uint8_t{0}),
                                           std::pair(1000U, std::uint8_t{1}),
                                           std::pair(16384U, std::uint8_t{1})));

}  // namespace
}  // namespace millrace::server::udp::test_udp_allocations
