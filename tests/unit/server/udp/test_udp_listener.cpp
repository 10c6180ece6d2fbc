// Tests the UDP listener with clients: keys, addresses, hostile datagrams, servers that lie, and stopping.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <thread>

#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/messages.hpp"
#include "server/udp/wire/signature.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/udp_clients_fixture.hpp"

namespace millrace::server::udp::test_udp_listener {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

TEST_F(UdpClients, KeysAreReplacedWhileTheListenerRuns) {
  serve(FakePipeline::Mode::kInline, {100}, {100}, true);
  client::Options former = patient();
  former.key_id = 3;
  former.key = secret;
  const auto before = connected(url(listener->port()), former);
  ASSERT_TRUE(before);

  const Bytes fresh = pattern(32, 9);
  wire::KeyRing keys;
  ASSERT_TRUE(keys.add(4, fresh).ok());
  ASSERT_TRUE(listener->replace_keys(std::move(keys)).ok());
  client::Options now = patient();
  now.key_id = 4;
  now.key = fresh;
  now.retry = 20ms;  // retry until the listener's thread uses the new keys
  const auto after = connected(url(listener->port()), now);
  ASSERT_TRUE(after);
  former.timeout = 1s;
  former.retry = 5ms;
  std::unique_ptr<Client> none;
  EXPECT_EQ(client::connect(url(listener->port()), former, none).code, Code::kUnavailable);
}

TEST_F(UdpClients, ListenerRefusesPublicAddressesWithoutKeysAndPortsInUse) {
  serve(FakePipeline::Mode::kInline, {100}, {100});
  ListenerOptions listen;
  listen.host = "0.0.0.0";
  auto refused = tests::start_listener(listen, {}, *directory);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message().find("keys"), std::string::npos);
  listen.allow_unauthenticated = true;
  EXPECT_TRUE(tests::start_listener(listen, {}, *directory).ok());
  listen.allow_unauthenticated = false;
  wire::KeyRing keys;
  ASSERT_TRUE(keys.add(1, secret).ok());
  const auto open = tests::start_listener(listen, std::move(keys), *directory);
  ASSERT_TRUE(open.ok());
  const Status without = (*open)->replace_keys({});
  ASSERT_FALSE(without.ok()) << "its keys may be changed, not taken away";
  EXPECT_NE(without.error().message().find("keys"), std::string::npos);

  listen.host = "127.0.0.1";
  listen.port = listener->port();
  refused = tests::start_listener(listen, {}, *directory);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(refused.error().message().find(listener->address()), std::string::npos)
      << refused.error().message();
  listen.port = 0;
  listen.host = "no such host";
  EXPECT_EQ(tests::start_listener(listen, {}, *directory).error().code(), ErrorCode::kEnvironment);
}

TEST_F(UdpClients, RandomDatagramsAreCountedAndTheListenerKeepsRunning) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kInline, {100}, {100});
  std::mt19937_64 random(seed);
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  const sockaddr_in to = loopback(listener->port());
  std::uint64_t sent = 0;
  const auto send = [&](const Bytes& bytes) {
    ++sent;
    (void)::sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  };
  for (int i = 0; i < 5000; ++i) {
    Bytes bytes(random() % 300);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    if (bytes.size() >= 8 && i % 2 == 0) {
      wire::store<std::uint32_t>(bytes, 0, 0x0001524DU | static_cast<std::uint32_t>(random() % 12) << 24U);
      wire::store<std::uint32_t>(bytes, 4, 40U << 16U);
    }
    send(bytes);
    if (i % 100 == 99) std::this_thread::sleep_for(1ms);  // a pause, so that the kernel drops few datagrams
  }
  // The kernel reports the number of dropped datagrams with the next datagram that it delivers, so send more.
  for (int i = 0; i < 1000 && !eventually([&] { return dropped(listener->counters()) >= sent; }, 50ms); ++i)
    send(pattern(100, seed));
  ::close(fd);
  EXPECT_EQ(dropped(listener->counters()), sent) << "each is counted by its reason";
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  EXPECT_TRUE(one->infer("fake", "", {{pattern(100, 1)}}, 60s, outputs).ok());
}

/// A server that describes every model with the COOKIE `says`, and answers requests with the number of bytes that the
/// COOKIE states.
class LyingServer {
 public:
  explicit LyingServer(wire::CookieReply says) : says_(std::move(says)) {
    fd_ = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    socklen_t length = sizeof at;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length);
    port_ = ntohs(at.sin_port);
    const timeval poll{0, 10000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &poll, sizeof poll);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~LyingServer() {
    thread_.request_stop();
    thread_.join();
    ::close(fd_);
  }
  std::uint16_t port() const { return port_; }

 private:
  void run(const std::stop_token& stop) {
    Bytes room(65536);
    while (!stop.stop_requested()) {
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const auto got =
          recvfrom(fd_, room.data(), room.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
      wire::Datagram d;
      if (got <= 0 ||
          wire::parse(std::span(room).first(static_cast<std::size_t>(got)), d) != wire::Refusal::kNone)
        continue;
      wire::Header h;
      h.from_server = true;
      h.client_id = d.header.client_id;
      h.request_id = d.header.request_id;
      Bytes body;
      if (d.header.type == wire::Type::kHello) {
        h.type = wire::Type::kCookie;
        body.resize(wire::kCookieBytes + says_.signature.size());
        wire::encode(says_, body);
      } else {
        h.type = wire::Type::kRsp;
        h.model = says_.model;
        body.resize(says_.output_bytes);
      }
      h.total_len = static_cast<std::uint32_t>(body.size());
      Bytes bytes(h.bytes());
      wire::write_header(h, std::span(bytes).first<wire::kHeaderBytes>());
      bytes.insert(bytes.end(), body.begin(), body.end());
      (void)::sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&from), length);
    }
  }

  const wire::CookieReply says_;
  int fd_ = -1;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

TEST_F(UdpClients, ClientRefusesAServerWhoseDescriptionContradictsItself) {
  const auto ask = [&](const wire::Signature& signature, std::uint32_t output_bytes, Code expected,
                       const char* python) {
    const auto described = wire::encode(signature);
    wire::CookieReply says;
    says.state = wire::CookieState::kOpen;
    says.model = 0x10001;
    says.input_bytes = 4;
    says.output_bytes = output_bytes;
    says.signature = described;
    const LyingServer server(says);
    const auto one = connected(url(server.port()), patient());
    ASSERT_NE(one, nullptr);
    std::vector<Bytes> outputs;
    const client::Status said = one->infer("fake", "", {{pattern(4, 1)}}, 10s, outputs);
    EXPECT_EQ(said.code, expected) << said.message;
    const tests::Outcome run = tests::run_program(
        {"python3", "-c",
         "import sys; sys.path.insert(0, sys.argv[1]); import millrace_client as m; m.udp_client.RETRY = 5\n"
         "try: m.connect(sys.argv[2]).infer('fake', [b'abcd'], 10); print('ok')\n"
         "except m.MillraceError as e: print(e.code)",
         std::string(tests::source_dir()) + "/tools/clients/python", url(server.port())});
    EXPECT_EQ(run.out, python + std::string("\n")) << run.err;
  };
  const wire::TensorDescription in{"x", "UINT8", {4}}, out{"y", "UINT8", {4}};
  ask({{in}, {out}}, 4, Code::kOk, "ok");
  // The second output has 2^64 - 2 bytes. With the first output's four bytes, the sum overflows to two.
  ask({{in}, {out, {"z", "UINT8", {306184046, 92737, 649657}}}}, 6, Code::kProtocol, "protocol");
  ask({{in}, {{"z", "UINT8", {65536, 65536, 65536, 65536, 4}}}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {out, {"z", "UINT8", {0}}}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {out}}, 5, Code::kProtocol, "protocol");
  ask({{in, in}, {out}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {{"z", "UINT8", {0xFFFFFFFF}}}}, 0xFFFFFFFF, Code::kInvalid, "invalid");
}

/// Sends a PING. Returns whether the listener's PONG says that the listener is draining.
bool is_draining(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  const timeval patience{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_in to = loopback(port);
  std::array<std::byte, wire::kHeaderBytes + wire::kMinPingBytes> bytes{};
  wire::Header ping;
  ping.type = wire::Type::kPing;
  ping.client_id = ping.request_id = 1;
  ping.total_len = wire::kMinPingBytes;
  wire::write_header(ping, std::span(bytes).first<wire::kHeaderBytes>());
  (void)::sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  const bool came = ::recv(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  ::close(fd);
  wire::Pong pong;
  return came && wire::decode(std::span(bytes).subspan(wire::kHeaderBytes), pong) && pong.draining;
}

TEST_F(UdpClients, StoppingTheListenerAnswersAcceptedRequests) {
  serve(FakePipeline::Mode::kManual, {100}, {100});
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::jthread waiting([&] {
    std::vector<Bytes> outputs;
    const client::Status s = one->infer("fake", "", {{pattern(100, 1)}}, 60s, outputs);
    EXPECT_TRUE(s.ok()) << s.message;
  });
  ASSERT_TRUE(eventually([&] { return pipeline->submitted() != 0; }));
  std::jthread completing([&] {
    EXPECT_TRUE(eventually([&] { return is_draining(listener->port()); }));
    pipeline->complete_one();
  });
  EXPECT_TRUE(listener->stop(60s));
  waiting.join();

  serve(FakePipeline::Mode::kManual, {100}, {100});
  const auto two = connected(url(listener->port()), patient());
  ASSERT_NE(two, nullptr);
  std::jthread failing([&] {
    std::vector<Bytes> outputs;
    EXPECT_EQ(two->infer("fake", "", {{pattern(100, 1)}}, 60s, outputs).code, Code::kUnavailable);
  });
  ASSERT_TRUE(eventually([&] { return pipeline->submitted() != 0; }));
  EXPECT_FALSE(listener->stop(10ms)) << "the frame never completes, and is taken back";
}

}  // namespace
}  // namespace millrace::server::udp::test_udp_listener
