// Tests how long the UDP clients in C++ and Python repeat messages to a silent server, and what they forget when the
// server restarts.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>

#include "millrace/client.hpp"
#include "runtime/base/file.hpp"
#include "server/udp/listener.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/udp/fakes.hpp"
#include "tests/unit/server/udp/lossy_channel.hpp"

namespace millrace::server::udp::test_udp_client_retries {
namespace {

using namespace std::chrono_literals;
using client::Client;
using client::Code;
using tests::Bytes;
using tests::FakeDirectory;
using tests::FakePipeline;
using tests::pattern;

constexpr std::uint32_t kBytes = 100;

std::string url(std::uint16_t port) {
  return "udp://127.0.0.1:" + std::to_string(port);
}

std::unique_ptr<Listener> listen_to(ModelDirectory& directory, std::uint16_t port = 0) {
  ListenerOptions options;
  options.port = port;
  auto started = tests::start_listener(options, {}, directory);
  if (!started) throw std::runtime_error(started.error().message());
  return std::move(started).value();
}

/// Runs the Python program `text`, where `m` is the client library, `url` the server's URL and `data` the input
/// pattern(kBytes, 1).
tests::Outcome run_python(const std::string& to, const std::string& text,
                          const std::vector<std::string>& arguments = {}) {
  std::string data;
  for (const std::byte b : pattern(kBytes, 1)) data += std::to_string(std::to_integer<int>(b)) + ",";
  std::vector<std::string> command{"python3",
                                   "-B",
                                   "-c",
                                   "import os, sys, time\n"
                                   "sys.path.insert(0, sys.argv[1])\n"
                                   "import millrace_client as m\n"
                                   "url, data = sys.argv[2], bytes([" +
                                       data + "])\n" + text,
                                   std::string(tests::source_dir()) + "/tools/clients/python",
                                   to};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return tests::run_program(command, {}, 120s);
}

Bytes expected_output() {
  Bytes out(kBytes);
  tests::compute(pattern(kBytes, 1), out);
  return out;
}

/// A socket that receives datagrams and never answers.
class SilentServer {
 public:
  SilentServer() : fd_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&at), length), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length), 0);
    port_ = ntohs(at.sin_port);
  }
  ~SilentServer() { ::close(fd_); }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  std::uint16_t port() const { return port_; }

  /// Returns how many datagrams have arrived since the last call.
  int received() {
    std::array<char, 2048> room;
    int count = 0;
    while (::recv(fd_, room.data(), room.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  }

 private:
  const int fd_;
  std::uint16_t port_ = 0;
};

// A client's first four tries take 150 ms, because the waits double. A server that is paused for longer misses more
// than four datagrams.
constexpr std::uint32_t kMoreThanFourTries = 7;

TEST(UdpClientRetries, ConnectsToAServerThatMissedTheFirstSevenDatagrams) {
  FakePipeline pipeline(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  FakeDirectory directory(pipeline);
  const auto listener = listen_to(directory);
  tests::Badness deaf;
  deaf.lose_count = kMoreThanFourTries;
  client::Options options;
  options.timeout = 60s;
  std::unique_ptr<Client> one;
  const auto first = tests::LossyChannel::open(listener->port(), deaf, 1);
  const client::Status s = client::connect(url(first->port()), options, one);
  EXPECT_TRUE(s.ok()) << s.message;

  const auto second = tests::LossyChannel::open(listener->port(), deaf, 1);
  const auto run = run_python(url(second->port()), "m.connect(url, timeout=60)");
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(UdpClientRetries, RequestIsAnsweredAlthoughTheServerMissedItsFirstSevenDatagrams) {
  FakePipeline pipeline(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  FakeDirectory directory(pipeline);
  const auto listener = listen_to(directory);
  tests::Badness deaf;
  deaf.lose_from = 3;  // two HELLOs open the session, a third one looks up the model
  deaf.lose_count = kMoreThanFourTries;
  client::Options options;
  options.timeout = 60s;
  std::unique_ptr<Client> one;
  const auto first = tests::LossyChannel::open(listener->port(), deaf, 1);
  ASSERT_TRUE(client::connect(url(first->port()), options, one).ok());
  std::vector<Bytes> outputs;
  const client::Status s = one->infer("fake", "", {{pattern(kBytes, 1)}}, 60s, outputs);
  ASSERT_TRUE(s.ok()) << s.message;
  EXPECT_EQ(outputs, std::vector<Bytes>{expected_output()});
  EXPECT_EQ(first->lost(), kMoreThanFourTries);

  const auto second = tests::LossyChannel::open(listener->port(), deaf, 1);
  const auto run =
      run_python(url(second->port()),
                 "out = m.connect(url, timeout=60, arrays=False).infer('fake', [data], timeout=60)\n"
                 "print(bytes(out[0]).hex())");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(second->lost(), kMoreThanFourTries);
  EXPECT_EQ(pipeline.most_executions(), 2U) << "once for each client";
}

TEST(UdpClientRetries, ErrorMentionsAWrongKeyOnlyIfTheClientHasAKey) {
  SilentServer server;
  constexpr auto kTimeout = 2s;  // long enough for 26 tries that are at most 80 ms apart
  constexpr int kAtLeast = 13;   // the fewest tries on a busy machine
  client::Options options;
  options.timeout = kTimeout;
  std::unique_ptr<Client> none;
  const auto begin = std::chrono::steady_clock::now();
  const client::Status without = client::connect(url(server.port()), options, none);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kTimeout);
  EXPECT_EQ(without.code, Code::kUnavailable);
  EXPECT_EQ(without.message.find("do not match"), std::string::npos) << without.message;
  EXPECT_GE(server.received(), kAtLeast);

  options.key_id = 3;
  options.key = pattern(32, 9);
  const client::Status with = client::connect(url(server.port()), options, none);
  EXPECT_EQ(with.code, Code::kUnavailable);
  EXPECT_NE(with.message.find("its keys do not match key 3"), std::string::npos) << with.message;
  server.received();

  const auto run = run_python(url(server.port()),
                              "def ask(**more):\n"
                              "  begin = time.monotonic()\n"
                              "  try: m.connect(url, timeout=2, **more)\n"
                              "  except m.MillraceError as e: assert e.code == 'unavailable'; text = str(e)\n"
                              "  assert time.monotonic() - begin >= 2\n"
                              "  return text\n"
                              "assert 'do not match' not in ask()\n"
                              "text = ask(key_id=3, key=bytes(32))\n"
                              "assert 'its keys do not match key 3' in text, text\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GE(server.received(), 2 * kAtLeast);
}

TEST(UdpClientRetries, ErrorOfALateRequestDoesNotMentionKeys) {
  FakePipeline pipeline(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  FakeDirectory directory(pipeline);
  const auto listener = listen_to(directory);
  tests::Badness deaf;
  deaf.lose_from = 3;
  deaf.lose_count = 1000;
  client::Options patient;
  patient.retry = 5s;  // no HELLO is repeated, because the channel would lose a fourth HELLO
  std::unique_ptr<Client> one;
  const auto first = tests::LossyChannel::open(listener->port(), deaf, 1);
  ASSERT_TRUE(client::connect(url(first->port()), patient, one).ok());
  std::vector<Bytes> outputs;
  const client::Status s = one->infer("fake", "", {{pattern(kBytes, 1)}}, 500ms, outputs);
  EXPECT_EQ(s.code, Code::kDeadline) << s.message;
  EXPECT_EQ(s.message.find("key"), std::string::npos) << s.message;

  const auto second = tests::LossyChannel::open(listener->port(), deaf, 1);
  const auto run = run_python(url(second->port()),
                              "try: m.connect(url).infer('fake', [data], timeout=0.5)\n"
                              "except m.MillraceError as e: print(e.code, e)");
  EXPECT_TRUE(run.out.starts_with("deadline ")) << run.out << run.err;
  EXPECT_EQ(run.out.find("key"), std::string::npos) << run.out;
}

/// A directory with the models "first" and "second", which have equal sizes. The test chooses their handles (numbers in
/// the protocol).
class TwoModels final : public ModelDirectory {
 public:
  TwoModels(FakePipeline& first, std::uint32_t first_handle, FakePipeline& second,
            std::uint32_t second_handle)
      : models_{{"first", *ServedModel::make(first_handle, first)},
                {"second", *ServedModel::make(second_handle, second)}} {}

  Outcome by_handle(std::uint32_t handle, std::shared_ptr<ServedModel>& out) override {
    for (const auto& [name, model] : models_)
      if (model->handle == handle) {
        out = model;
        return Outcome::kFound;
      }
    return Outcome::kUnknown;
  }
  std::shared_ptr<ServedModel> by_name(std::string_view name, std::string_view) override {
    const auto found = models_.find(name);
    return found == models_.end() ? nullptr : found->second;
  }

 private:
  const std::map<std::string, std::shared_ptr<ServedModel>, std::less<>> models_;
};

// A HELLO for one model opens a session with the restarted server. The client must then forget the handles (numbers) of
// all models, although no request has failed.
TEST(UdpClientRetries, ForgetsAllModelHandlesWhenTheServerRestarted) {
  FakePipeline first(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  FakePipeline second(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  TwoModels before(first, 0x10001, second, 0x10002), after(first, 0x10002, second, 0x10001);
  auto listener = listen_to(before);
  const std::uint16_t port = listener->port();
  client::Options options;
  options.timeout = 60s;
  std::unique_ptr<Client> one;
  ASSERT_TRUE(client::connect(url(port), options, one).ok());
  std::vector<Bytes> outputs;
  const Bytes input = pattern(kBytes, 1);
  ASSERT_TRUE(one->infer("first", "", {{input}}, 60s, outputs).ok());
  ASSERT_EQ(first.submitted(), 1U);
  listener.reset();
  listener = listen_to(after, port);
  client::ModelInfo info;
  ASSERT_TRUE(one->model("second", "", info).ok());
  ASSERT_TRUE(one->infer("first", "", {{input}}, 60s, outputs).ok());
  EXPECT_EQ(first.submitted(), 2U);
  EXPECT_EQ(second.submitted(), 0U) << "the frame ran on the other model";
}

TEST(UdpClientRetries, PythonForgetsAllModelHandlesWhenTheServerRestarted) {
  FakePipeline first(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  FakePipeline second(FakePipeline::Mode::kInline, {kBytes}, {kBytes});
  TwoModels before(first, 0x10001, second, 0x10002), after(first, 0x10002, second, 0x10001);
  auto listener = listen_to(before);
  const std::uint16_t port = listener->port();
  const TemporaryDirectory scratch("udp-epoch");
  const std::string restarted = scratch.path() / "restarted";
  std::jthread python([&] {
    const auto run = run_python(url(port),
                                "one = m.connect(url, timeout=60)\n"
                                "one.infer('first', [data])\n"
                                "while not os.path.exists(sys.argv[3]): time.sleep(0.01)\n"
                                "one.model('second')\n"
                                "one.infer('first', [data])\n",
                                {restarted});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  });
  EXPECT_TRUE(tests::wait_until([&] { return first.submitted() != 0; }));
  EXPECT_EQ(first.submitted(), 1U);
  listener->stop(60s);
  listener.reset();
  listener = listen_to(after, port);
  std::ofstream(restarted) << "yes";
  python.join();
  EXPECT_EQ(first.submitted(), 2U);
  EXPECT_EQ(second.submitted(), 0U) << "the frame ran on the other model";
}

}  // namespace
}  // namespace millrace::server::udp::test_udp_client_retries
