// Tests the HTTP load generator with a small server. Each test chooses how the server misbehaves.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/wait.hpp"
#include "tools/load/power.hpp"
#include "tools/load/run.hpp"

namespace millrace::load::test_load_over_http {
namespace {

using namespace std::chrono_literals;

/// A server with one thread per connection. It sends what `answer` returns for the number of the request. If the answer
/// is empty, the server closes the connection.
class TinyServer {
 public:
  explicit TinyServer(std::function<std::string(std::uint64_t)> answer)
      : answer_(std::move(answer)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), bytes) != 0 || ::listen(listener_, 128) != 0)
      throw std::runtime_error("no port");
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = std::to_string(ntohs(address.sin_port));
    acceptor_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!readable(listener_)) continue;
        const int fd = ::accept(listener_, nullptr, nullptr);
        if (fd >= 0)
          sessions_.emplace_back([this, fd](const std::stop_token& stopped) { serve(fd, stopped); });
      }
    });
  }
  ~TinyServer() {
    acceptor_ = {};
    sessions_.clear();
    ::close(listener_);
  }
  Address address() const { return {{clients::Url::Scheme::kHttp, "127.0.0.1", port_}}; }
  std::uint64_t requests() const { return requests_; }

 private:
  static bool readable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 10) > 0;
  }
  void serve(int fd, const std::stop_token& stop) {
    std::string got;
    while (!stop.stop_requested()) {
      if (!readable(fd)) continue;
      char room[4096];
      const ssize_t n = ::recv(fd, room, sizeof room, 0);
      if (n <= 0) break;
      got.append(room, static_cast<std::size_t>(n));
      if (got.find("\r\n\r\n") == std::string::npos) continue;
      got.clear();
      const std::string text = answer_(requests_++);
      if (text.empty()) break;
      (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    }
    ::close(fd);
  }

  std::function<std::string(std::uint64_t)> answer_;
  int listener_;
  std::string port_;
  std::atomic<std::uint64_t> requests_{0};
  std::vector<std::jthread> sessions_;  // used only by the acceptor's thread while that thread runs
  std::jthread acceptor_;
};

const std::string kGood = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const std::vector<std::string> kRequests = {"GET / HTTP/1.1\r\n\r\n"};

Settings settings_of(std::uint32_t connections, std::optional<double> rate = std::nullopt) {
  Settings settings;
  settings.connections = connections;
  settings.rate = rate;
  settings.duration = 200ms;
  return settings;
}

/// Returns the settings of a run with few requests that is long enough to reconnect even on a busy machine.
Settings long_run_of(std::uint32_t connections) {
  Settings settings = settings_of(connections);
  settings.duration = 1500ms;
  return settings;
}
std::string unhurried(std::string answer = kGood) {
  std::this_thread::sleep_for(5ms);  // make the server slow
  return answer;
}

TEST(LoadOverHttp, AClosedLoopCountsEveryRequestOnce) {
  TinyServer server([](std::uint64_t) { return kGood; });
  const auto tally = run_http(server.address(), kRequests, settings_of(4));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_GT(tally->latency.count(), 0U);
  EXPECT_EQ(tally->latency.count(), server.requests());
  EXPECT_TRUE(tally->errors.empty());
}

TEST(PowerMeter, AveragesThePowerThatTheServerReports) {
  TinyServer server([](std::uint64_t i) {
    const std::string body = R"({"models":[{"name":"m","cards":[{"power_watts":)" +
                             std::string(i % 2 == 0 ? "40" : "60") + "}]}]}";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  });
  EXPECT_EQ(PowerMeter::open(server.address(), "other"), nullptr);
  const auto meter = PowerMeter::open(server.address(), "m");
  ASSERT_NE(meter, nullptr);
  EXPECT_TRUE(meter->mean_watts().has_value()) << "the first look is its opening";
  std::optional<double> mean;
  ASSERT_TRUE(tests::wait_until([&] { return (mean = meter->mean_watts()).has_value(); }));
  EXPECT_TRUE(*mean >= 40 && *mean <= 60) << *mean;
}

TEST(PowerMeter, IsAbsentIfTheServerReportsNoPower) {
  TinyServer server([](std::uint64_t) { return kGood; });
  EXPECT_EQ(PowerMeter::open(server.address(), "m"), nullptr);
  EXPECT_EQ(PowerMeter::open({{clients::Url::Scheme::kHttp, "127.0.0.1", "1"}}, "m"), nullptr);
}

TEST(LoadOverHttp, AnOpenLoopSendsAtTheGivenRate) {
  TinyServer server([](std::uint64_t) { return kGood; });
  const auto tally = run_http(server.address(), kRequests, settings_of(8, 250.0));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  const std::uint64_t unsent = tally->errors.contains("unsent") ? tally->errors.at("unsent") : 0;
  EXPECT_EQ(server.requests() + unsent, 50U);
}

TEST(LoadOverHttp, CountsFailuresByStatus) {
  TinyServer server([](std::uint64_t i) {
    return i % 2 == 0 ? kGood : std::string("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
  });
  const auto tally = run_http(server.address(), kRequests, settings_of(2));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_EQ(tally->latency.count() + tally->errors.at("429"), server.requests());
  EXPECT_EQ(tally->errors.size(), 1U);
}

TEST(LoadOverHttp, ReconnectsAfterTheServerDropsAConnection) {
  TinyServer server([](std::uint64_t i) { return i == 1 ? std::string() : unhurried(); });
  const auto tally = run_http(server.address(), kRequests, long_run_of(1));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_EQ(tally->errors.at("connection"), 1U);
  EXPECT_GT(server.requests(), 2U) << "nothing was sent after the loss";
}

TEST(LoadOverHttp, ReconnectsAfterAnAnswerThatClosesTheConnection) {
  TinyServer server([](std::uint64_t) {
    return unhurried("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  const auto tally = run_http(server.address(), kRequests, long_run_of(1));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_GT(tally->latency.count(), 1U);
  EXPECT_TRUE(tally->errors.empty());
}

TEST(LoadOverHttp, SilentServerCausesTimeouts) {
  TinyServer server([](std::uint64_t) { return "HTTP/1.1 200 OK\r\n"; });
  Settings settings = settings_of(2);
  settings.timeout = 50ms;
  const auto tally = run_http(server.address(), kRequests, settings);
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_EQ(tally->latency.count(), 0U);
  EXPECT_GE(tally->errors.at("timeout"), 2U);
}

TEST(LoadOverHttp, AnswersOtherThanHttpAreProtocolErrors) {
  TinyServer server([](std::uint64_t) { return "220 smtp ready\r\n\r\n"; });
  const auto tally = run_http(server.address(), kRequests, settings_of(1));
  ASSERT_TRUE(tally.ok()) << tally.error().message();
  EXPECT_GE(tally->errors.at("protocol"), 1U);
  EXPECT_EQ(tally->latency.count(), 0U);
}

TEST(LoadOverHttp, FailsWithUnavailableIfNoServerListens) {
  std::optional<TinyServer> server;
  server.emplace([](std::uint64_t) { return kGood; });
  const Address address = server->address();
  server.reset();
  const auto tally = run_http(address, kRequests, settings_of(1));
  ASSERT_FALSE(tally.ok());
  EXPECT_EQ(tally.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::load::test_load_over_http
