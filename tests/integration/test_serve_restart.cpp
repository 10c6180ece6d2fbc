// `millrace serve` restarted under load on a socket that a service manager keeps: no request fails.
//
// The test is the service manager: it opens the listening socket, and passes it to one server after another.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";
constexpr int kClients = 20, kRequestsASecond = 500;

/// A listening socket of 127.0.0.1 that lives as long as the test.
class KeptSocket {
 public:
  KeptSocket() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {  // children inherit it
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&at), length) != 0 || ::listen(fd_, SOMAXCONN) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length) != 0)
      ADD_FAILURE() << "cannot listen";
    port_ = ntohs(at.sin_port);
  }
  ~KeptSocket() { ::close(fd_); }
  KeptSocket(const KeptSocket&) = delete;
  KeptSocket& operator=(const KeptSocket&) = delete;

  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

/// Sends requests at a steady rate over connections that it keeps, or (`fresh`) a connection each. Closes a
/// connection when told to, and never sends a request twice.
class Client {
 public:
  Client(std::uint16_t port, std::string target, std::string tensor, bool fresh)
      : port_(port), target_(std::move(target)), tensor_(std::move(tensor)), fresh_(fresh) {}

  /// Until `stop`.
  void run(const std::atomic<bool>& stop) {
    auto next = Clock::now();
    while (!stop) {
      std::this_thread::sleep_until(next);
      next = std::max(next + 1000ms * kClients / kRequestsASecond, Clock::now() - 1s);
      ask();
    }
  }

  std::size_t asked = 0;
  std::multiset<std::string> failures;  // what came in the place of an answer with 200

 private:
  void ask() {
    if (!connection_) connection_ = std::make_unique<HttpConnection>(port_, 60s);
    const auto answer = connection_->request("POST", target_, tensor_, kRaw);
    ++asked;
    if (!answer)
      failures.insert("the connection ended");
    else if (answer->status != 200)
      failures.insert(std::to_string(answer->status) + " " + answer->body);
    if (fresh_ || !answer || answer->headers.contains("connection")) connection_.reset();
  }

  const std::uint16_t port_;
  const std::string target_, tensor_;
  const bool fresh_;
  std::unique_ptr<HttpConnection> connection_;
};

class ServeRestart : public testing::Test {
 protected:
  ServeRestart() { deploy(program_, emulated_ring(1), 1, deployment_); }

  /// A server on the kept socket, as a service manager starts it.
  std::unique_ptr<BackgroundProgram> serve(const std::vector<std::string>& more = {}) const {
    std::string command = "export LISTEN_PID=$$; exec \"$0\" \"$@\" 3<&" + std::to_string(socket_.fd());
    std::vector<std::string> words = {
        "sh",     "-c",          command, millrace_binary(), "serve", "--deployment", deployment_.string(),
        "--http", "systemd:http"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<BackgroundProgram>(
        words, std::vector<std::string>{"LISTEN_FDS=1", "LISTEN_FDNAMES=http"});
  }
  static void await_start(BackgroundProgram& server) {
    ASSERT_TRUE(server.wait_for_line("listening http ", 60s)) << server.err();
  }
  std::string target() const { return "/v2/models/" + program_.name + "/infer"; }
  std::string tensor() const {
    return std::string(program_.tensors[program_.inputs[0]].elements() * sizeof(float), '\0');
  }

  const kernels::Program program_ = chain_program(2);
  TemporaryDirectory directory_{"millrace-restart"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  const KeptSocket socket_;
};

TEST_F(ServeRestart, NoRequestFailsOverTwentyRestartsUnderLoad) {
  auto server = serve();
  await_start(*server);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i)
    clients.push_back(std::make_unique<Client>(socket_.port(), target(), tensor(), i % 5 == 0));
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (const auto& client : clients) threads.emplace_back([&] { client->run(stop); });
  const auto end_clients = [&](const void*) {
    stop = true;
    for (auto& thread : threads) thread.join();
    threads.clear();
  };
  const std::unique_ptr<void, decltype(end_clients)> at_the_end(&threads, end_clients);
  for (int restart = 0; restart < 20; ++restart) {
    std::this_thread::sleep_for(200ms);
    ASSERT_EQ(server->stop(SIGTERM), 0) << server->err();
    server = serve(restart % 2 == 0 ? std::vector<std::string>{"--drain-notice-ms", "300"}
                                    : std::vector<std::string>{});
    ASSERT_NO_FATAL_FAILURE(await_start(*server));
  }
  end_clients(nullptr);
  std::size_t asked = 0;
  std::multiset<std::string> failures;
  for (const auto& client : clients) {
    asked += client->asked;
    failures.merge(client->failures);
  }
  EXPECT_GT(asked, 1'000U);
  EXPECT_EQ(failures.size(), 0U) << "of " << asked << "; the first: " << *failures.begin();
  EXPECT_EQ(server->stop(SIGTERM), 0) << server->err();
}

/// A connection opened while the old server drains is answered by the next one.
TEST_F(ServeRestart, AConnectionThatComesDuringTheDrainWaitsForTheNextServer) {
  auto server = serve({"--drain-notice-ms", "600000"});
  await_start(*server);
  HttpConnection before(socket_.port(), 60s);
  ASSERT_EQ(before.request("GET", "/v2/health/live")->status, 200);
  ASSERT_EQ(::kill(server->pid(), SIGTERM), 0);
  ASSERT_TRUE(wait_until([&] { return server->err().find("stopping: ") != std::string::npos; }));
  // The answer comes from the old server, which gives notice, and its connection closes.
  const auto last = before.request("GET", "/v2/health/ready");
  ASSERT_TRUE(last);
  EXPECT_EQ(last->status, 503);
  EXPECT_EQ(last->headers.at("connection"), "close");
  HttpConnection after(socket_.port(), 60s);
  ASSERT_TRUE(after.send("GET /v2/health/ready HTTP/1.1\r\nHost: t\r\n\r\n"));
  EXPECT_EQ(server->stop(SIGTERM), 0) << "the second signal: " << server->err();
  server = serve();
  await_start(*server);
  const auto first = after.receive();
  ASSERT_TRUE(first) << server->err();
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(server->stop(SIGTERM), 0) << server->err();
}

/// A silent client cannot keep a server that stops, and sees its connection end without a reset.
TEST_F(ServeRestart, AConnectionThatStaysIdleIsClosedAfterASecond) {
  auto server = serve({"--drain-ms", "60000"});
  await_start(*server);
  HttpConnection idle(socket_.port(), 60s), half(socket_.port(), 60s);
  ASSERT_EQ(idle.request("GET", "/v2/health/live")->status, 200);
  // A request that began before the signal is served when its rest comes.
  ASSERT_TRUE(half.send("POST " + target() + " HTTP/1.1\r\nHost: t\r\n" + std::string(kRaw)));
  ASSERT_EQ(idle.request("GET", "/v2/health/live")->status, 200);
  ASSERT_EQ(::kill(server->pid(), SIGTERM), 0);
  EXPECT_TRUE(idle.closed_by_server());
  ASSERT_TRUE(half.send("Content-Length: " + std::to_string(tensor().size()) + "\r\n\r\n" + tensor()));
  const auto answer = half.receive();
  ASSERT_TRUE(answer) << server->err();
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->headers.at("connection"), "close");
  idle.close();
  half.close();
  EXPECT_EQ(server->stop(0), 0) << server->err();
}

}  // namespace
}  // namespace millrace::tests
