// The real clients against the real listener over loopback, with a bad network between them.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "millrace/client.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "server/udp/listener.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/messages.hpp"
#include "server/udp/wire/signature.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/fakes.hpp"
#include "tests/unit/server/udp/lossy_channel.hpp"

namespace millrace::server::udp {
namespace {

using namespace std::chrono_literals;
using client::Client;
using client::Code;
using tests::Badness;
using tests::Bytes;
using tests::FakeDirectory;
using tests::FakePipeline;
using tests::LossyChannel;
using tests::pattern;

/// All datagrams that were dropped without an answer.
std::uint64_t dropped(const Counters& counters) {
  std::uint64_t all = 0;
  for (std::size_t i = 1; i < wire::kRefusalNames.size(); ++i)
    all += counters.get(static_cast<wire::Refusal>(i));
  for (std::size_t i = 0; i < kDropNames.size(); ++i) all += counters.get(static_cast<Drop>(i));
  return all;
}

class UdpClients : public ::testing::Test {
 protected:
  void serve(FakePipeline::Mode mode, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
             bool with_keys = false, std::uint16_t port = 0) {
    pipeline = std::make_unique<FakePipeline>(mode, std::move(inputs), std::move(outputs));
    directory = std::make_unique<FakeDirectory>(*pipeline);
    restart(with_keys, port);
  }
  void restart(bool with_keys, std::uint16_t port) {
    wire::KeyRing keys;
    if (with_keys) {
      ASSERT_TRUE(keys.add(3, secret).ok());
    }
    ListenerOptions listen;
    listen.port = port;
    listen.engine = options;
    listener.reset();
    auto started = tests::start_listener(listen, std::move(keys), *directory);
    ASSERT_TRUE(started.ok()) << started.error().message();
    listener = std::move(started).value();
  }
  static std::string url(std::uint16_t port) { return "udp://127.0.0.1:" + std::to_string(port); }

  /// Options for a lossless channel: the client waits for slow answers and does not ask again.
  static client::Options patient() {
    client::Options options;
    options.timeout = 60s;
    options.retry = 5s;
    return options;
  }

  /// Connects, again and again, because a HELLO may be lost on a bad channel.
  static std::unique_ptr<Client> connected(const std::string& to, const client::Options& with) {
    std::unique_ptr<Client> out;
    client::Status s;
    for (int attempt = 0; attempt < 20; ++attempt)
      if (s = client::connect(to, with, out); s.ok()) return out;
    ADD_FAILURE() << s.message;
    return nullptr;
  }

  template <class Condition>
  static bool eventually(Condition holds, std::chrono::milliseconds bound = 60s) {
    const auto limit = std::chrono::steady_clock::now() + bound;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  struct Tally {
    std::atomic<int> right{0}, wrong{0}, failed{0}, expired{0}, late{0};
  };
  /// Sends `requests` from each of `clients` threads. Each must get the right answer or fail by its deadline.
  void hammer(const std::string& to, const client::Options& with, int clients, int requests, std::uint32_t in,
              std::uint32_t out, std::uint64_t seed, Tally& tally) const {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c)
      threads.emplace_back([&, c] {
        const auto one = connected(to, with);
        if (!one) return;
        std::vector<Bytes> outputs;
        for (int i = 0; i < requests; ++i) {
          Bytes input = pattern(in, seed + static_cast<std::uint64_t>(i * 100 + c));
          wire::store<std::uint64_t>(input, 0, (seed << 32U) + static_cast<std::uint64_t>(i * 100 + c));
          Bytes expected(out);
          tests::compute(input, expected);
          const auto start = std::chrono::steady_clock::now();
          const client::Status s = one->infer("fake", "", {{input}}, kDeadline, outputs);
          if (std::chrono::steady_clock::now() - start > kDeadline + 10s) ++tally.late;
          if (s.code == Code::kDeadline) ++tally.expired;
          if (!s.ok())
            ++tally.failed;
          else if (outputs.size() == 1 && outputs[0] == expected)
            ++tally.right;
          else
            ++tally.wrong;
        }
      });
  }

  /// Options for a bad channel. A client that repeats too early delays its own answer.
  client::Options enduring() {
    client::Options with;
    with.timeout = 60s;
    with.retry = 100ms;
    return with;
  }

  static constexpr auto kDeadline = 30s;
  const Bytes secret = pattern(32, 99);
  EngineOptions options;
  std::unique_ptr<FakePipeline> pipeline;
  std::unique_ptr<FakeDirectory> directory;
  std::unique_ptr<Listener> listener;
};

TEST_F(UdpClients, OneFragmentAndManyComeBackRight) {
  for (const std::uint32_t size : {1U, 1200U, 1201U, 16384U, 300U * 1200U}) {
    for (const auto mode : {FakePipeline::Mode::kInline, FakePipeline::Mode::kThread}) {
      listener.reset();
      serve(mode, {size}, {size + 7});
      client::Options with = patient();
      with.retry = 100ms;  // the largest overflows a socket's memory, and what is lost is asked for again
      const auto one = connected(url(listener->port()), with);
      ASSERT_NE(one, nullptr);
      ASSERT_TRUE(one->ready().ok());
      client::ModelInfo info;
      ASSERT_TRUE(one->model("fake", "", info).ok());
      ASSERT_EQ(info.inputs.size(), 1U);
      EXPECT_EQ(info.inputs[0].bytes(), size);
      std::vector<Bytes> outputs;
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Bytes input = pattern(size, i);
        Bytes expected(size + 7);
        tests::compute(input, expected);
        const client::Status s = one->infer("fake", "", {{input}}, 60s, outputs);
        ASSERT_TRUE(s.ok()) << s.message << ", " << size << " bytes";
        ASSERT_EQ(outputs[0], expected);
      }
      EXPECT_EQ(pipeline->submitted(), 20U);
    }
  }
}

TEST_F(UdpClients, SeveralTensorsKeepTheirOrderAndOtherFragmentSizesWork) {
  for (const unsigned fragment : {256U, 1200U, 9000U, 65000U}) {
    listener.reset();
    options.fragment_bytes = fragment;
    serve(FakePipeline::Mode::kInline, {1000, 1, 30000}, {10, 20000});
    client::Options with = patient();
    with.retry = 100ms;
    with.fragment_bytes = static_cast<std::uint16_t>(fragment);
    const auto one = connected(url(listener->port()), with);
    ASSERT_NE(one, nullptr);
    const Bytes a = pattern(1000, 1), b = pattern(1, 2), c = pattern(30000, 3);
    Bytes all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    Bytes first(10), second(20000);
    tests::compute(all, first);
    tests::compute(all, second);
    std::vector<Bytes> outputs;
    const client::Status s = one->infer("fake", "1", {{a}, {b}, {c}}, 60s, outputs);
    ASSERT_TRUE(s.ok()) << s.message;
    EXPECT_EQ(outputs, (std::vector<Bytes>{first, second}));
  }
}

class UdpClientsOnABadChannel : public UdpClients, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(UdpClientsOnABadChannel, EveryRequestIsAnsweredOrFailsByItsDeadlineAndNoneRunsTwice) {
  const std::uint32_t size = GetParam();
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {size}, {size});
  const auto channel = LossyChannel::open(listener->port(), Badness{0.1, 0.1, 0.3, 0, 3000}, seed);
  Tally tally;
  hammer(url(channel->port()), enduring(), 4, 60, size, size, seed, tally);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.late, 0);
  EXPECT_EQ(tally.right + tally.failed, 240);
  EXPECT_GE(tally.right, 220) << "one in ten is lost each way; repetitions should find a way";
  EXPECT_EQ(pipeline->most_executions(), 1U);
  EXPECT_GT(channel->lost(), 0U);
  EXPECT_GT(channel->duplicated(), 0U);
  EXPECT_GT(channel->delayed(), 0U);
}
INSTANTIATE_TEST_SUITE_P(Sizes, UdpClientsOnABadChannel, ::testing::Values(100U, 5000U, 120000U));

// Several NACKs in a row are lost, and the missing fragments are after the first burst, which alone is
// repeated without a NACK.
TEST_F(UdpClients, AsksForMissingFragmentsWhileTheServerAnswers) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {1000}, {120000});
  const auto channel = LossyChannel::open(listener->port(), Badness{0.4, 0.1, 0.3, 0, 3000}, seed);
  client::Options with = enduring();
  with.retry = 30ms;
  Tally tally;
  hammer(url(channel->port()), with, 4, 10, 1000, 120000, seed, tally);
  EXPECT_EQ(tally.expired, 0) << "an answer that had begun was never completed";
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.right, 0);
}

TEST_F(UdpClients, TagsRevealCorruptedDatagrams) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {4000}, {4000}, true);
  const auto channel = LossyChannel::open(listener->port(), Badness{0.03, 0.1, 0.2, 0.05, 2000}, seed);
  client::Options with = enduring();
  with.key_id = 3;
  with.key = secret;
  Tally tally;
  hammer(url(channel->port()), with, 4, 60, 4000, 4000, seed, tally);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.late, 0);
  EXPECT_GE(tally.right, 220);
  EXPECT_EQ(pipeline->most_executions(), 1U);
  EXPECT_GT(channel->corrupted(), 0U);
  EXPECT_GT(dropped(listener->counters()), 0U);
}

TEST_F(UdpClients, PythonGetsTheSameOverABadChannel) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {5000}, {90000}, true);
  const auto channel = LossyChannel::open(listener->port(), Badness{0.05, 0.1, 0.2, 0.03, 2000}, seed);
  const tests::Outcome run = tests::run_program(
      {"python3", std::string(tests::source_dir()) + "/tests/unit/server/udp/drive_client.py",
       url(channel->port()), std::to_string(seed), "60", "30", "5000", "90000", "3", to_hex(secret)},
      {}, 300s);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("\"wrong\": 0"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("[\"in0\", \"UINT8\", [1, 5000]]"), std::string::npos) << run.out;
  const std::size_t at = run.out.find("\"right\": ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stoi(run.out.substr(at + 9)), 50) << run.out;
  EXPECT_EQ(pipeline->most_executions(), 1U);
}

TEST_F(UdpClients, PythonWorksAsAProgram) {
  serve(FakePipeline::Mode::kInline, {300}, {10});
  const TemporaryDirectory scratch("udp-python");
  const Bytes input = pattern(600, 1);
  ASSERT_TRUE(write_npy(scratch.path() / "x.npy", {"|u1", {2, 300}, input}).ok());
  const std::string out = scratch.path() / "y.npy";
  const tests::Outcome run = tests::run_python_client({"--url", url(listener->port()), "--model", "fake",
                                                       "--input", scratch.path() / "x.npy", "--output", out});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto read = read_npy(out);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->shape, (std::vector<std::uint64_t>{2, 10}));
  Bytes expected(20);
  tests::compute(std::span(input).first(300), std::span(expected).first(10));
  tests::compute(std::span(input).subspan(300), std::span(expected).subspan(10));
  EXPECT_EQ(read->data, expected);
  const tests::Outcome bad =
      tests::run_python_client({"--url", url(listener->port()), "--model", "other", "--input", out});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("no model 'other'"), std::string::npos) << bad.err;
}

TEST_F(UdpClients, PythonUsesArraysIfNumpyIsInstalled) {
  serve(FakePipeline::Mode::kInline, {300, 20}, {10, 40});
  tests::expect_arrays_over(url(listener->port()));
}

TEST_F(UdpClients, ErrorsNameWhatIsWrong) {
  serve(FakePipeline::Mode::kManual, {100}, {100});
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  const Bytes right = pattern(100, 1), wrong = pattern(99, 1);
  EXPECT_EQ(one->infer("other", "", {{right}}, 60s, outputs).code, Code::kNotFound);
  EXPECT_EQ(one->infer("fake", "2", {{right}}, 60s, outputs).code, Code::kNotFound);
  EXPECT_EQ(one->infer("fake", "", {{wrong}}, 60s, outputs).code, Code::kInvalid);
  EXPECT_EQ(one->infer("fake", "", {{right}, {right}}, 60s, outputs).code, Code::kInvalid);
  // The pipeline never answers. On a busy machine the deadline may pass before the request is sent.
  for (auto within = 60ms; pipeline->submitted() == 0 && within < 60s; within *= 2)
    EXPECT_EQ(one->infer("fake", "", {{right}}, within, outputs).code, Code::kDeadline);
  EXPECT_TRUE(pipeline->complete_one());
  pipeline->capacity = 0;
  EXPECT_EQ(one->infer("fake", "", {{right}}, 500ms, outputs).code, Code::kBusy);
  pipeline->refusal = Error(ErrorCode::kUnavailable, "card lost");
  EXPECT_EQ(one->infer("fake", "", {{right}}, 60s, outputs).code, Code::kUnavailable);

  const std::uint16_t port = listener->port();
  const auto other = connected(url(port), {});
  ASSERT_NE(other, nullptr);
  client::ModelInfo known;
  ASSERT_TRUE(other->model("fake", "", known).ok());
  listener.reset();
  const client::Status gone = other->infer("fake", "", {{right}}, 60s, outputs);
  EXPECT_EQ(gone.code, Code::kUnavailable) << gone.message;
  std::unique_ptr<Client> none;
  const client::Status refused = client::connect(url(port), {}, none);
  EXPECT_EQ(refused.code, Code::kUnavailable);
  EXPECT_NE(refused.message.find("nothing listens"), std::string::npos) << refused.message;
  for (const char* bad : {"", "udp://", "udp://127.0.0.1", "udp://127.0.0.1:0", "udp://127.0.0.1:65536",
                          "udp://::1:8000", "ftp://x:1", "https://x:0", "unix:"})
    EXPECT_EQ(client::connect(bad, {}, none).code, Code::kInvalid) << bad;
}

TEST_F(UdpClients, FindsAReplacedModelAndARestartedServerAgain) {
  serve(FakePipeline::Mode::kInline, {100}, {100});
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  const Bytes input = pattern(100, 1);
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  directory->replace();
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  EXPECT_EQ(listener->counters().get(wire::ErrCode::kGeneration), 1U);
  restart(false, listener->port());
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  EXPECT_EQ(listener->counters().get(wire::ErrCode::kNoSession), 1U);
}

TEST_F(UdpClients, AWrongKeyIsNotAnswered) {
  serve(FakePipeline::Mode::kInline, {100}, {100}, true);
  client::Options with;
  with.timeout = 1s;  // time for a dozen tries, or for four on a machine with other work
  std::unique_ptr<Client> none;
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kUnavailable);
  with.key_id = 3;
  with.key = pattern(32, 1);
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kUnavailable);
  EXPECT_TRUE(eventually([&] { return listener->counters().get(Drop::kTag) >= 8U; }));
  EXPECT_EQ(listener->counters().get(Event::kDatagramsSent), 0U);
  with.key.resize(15);
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kInvalid);
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
  now.retry = 20ms;  // until the thread has taken them
  const auto after = connected(url(listener->port()), now);
  ASSERT_TRUE(after);
  former.timeout = 1s;
  former.retry = 5ms;
  std::unique_ptr<Client> none;
  EXPECT_EQ(client::connect(url(listener->port()), former, none).code, Code::kUnavailable);
}

TEST_F(UdpClients, TheListenerRefusesOpenAddressesWithoutKeysAndPortsInUse) {
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

TEST_F(UdpClients, RandomDatagramsAreCountedAndTheListenerGoesOn) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kInline, {100}, {100});
  std::mt19937_64 random(seed);
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(listener->port());
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
    if (i % 100 == 99) std::this_thread::sleep_for(1ms);
  }
  // The kernel reports dropped datagrams with the next one that it delivers, so send more.
  for (int i = 0; i < 1000 && !eventually([&] { return dropped(listener->counters()) >= sent; }, 50ms); ++i)
    send(pattern(100, seed));
  ::close(fd);
  EXPECT_EQ(dropped(listener->counters()), sent) << "each is counted by its reason";
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  EXPECT_TRUE(one->infer("fake", "", {{pattern(100, 1)}}, 60s, outputs).ok());
}

/// Describes every model by the given COOKIE and answers requests with as many bytes as it names.
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

TEST_F(UdpClients, RefusesAServerThatContradictsItself) {
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
  // 2^64 - 2 bytes. With the four bytes of the first output the sum wraps to two.
  ask({{in}, {out, {"z", "UINT8", {306184046, 92737, 649657}}}}, 6, Code::kProtocol, "protocol");
  ask({{in}, {{"z", "UINT8", {65536, 65536, 65536, 65536, 4}}}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {out, {"z", "UINT8", {0}}}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {out}}, 5, Code::kProtocol, "protocol");
  ask({{in, in}, {out}}, 4, Code::kProtocol, "protocol");
  ask({{in}, {{"z", "UINT8", {0xFFFFFFFF}}}}, 0xFFFFFFFF, Code::kInvalid, "invalid");
}

TEST_F(UdpClients, StopAnswersAcceptedRequests) {
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
    std::this_thread::sleep_for(20ms);
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
}  // namespace millrace::server::udp
