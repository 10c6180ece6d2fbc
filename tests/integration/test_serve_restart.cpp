// Tests how `millrace serve` stops if a service manager keeps its listening socket open. The test acts as the
// service manager: it opens the socket and passes it to one server after another. test_operators_day.cpp
// restarts such servers under load.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/steady_clients.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_serve_restart {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";

class ServeRestart : public testing::Test {
 protected:
  ServeRestart() { deploy(program_, emulated_ring(1), 1, deployment_); }

  /// Starts a server on the listening socket that this test keeps open, as a service manager does.
  std::unique_ptr<BackgroundProgram> serve(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {millrace_binary(),    "serve",  "--deployment",
                                      deployment_.string(), "--http", "systemd:http"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<BackgroundProgram>(with_passed_socket(socket_, "http", words));
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

TEST_F(ServeRestart, AConnectionOpenedDuringTheDrainIsServedByTheNextServer) {
  auto server = serve({"--drain-notice-ms", "600000"});
  await_start(*server);
  HttpConnection before(socket_.port(), 60s);
  ASSERT_EQ(before.request("GET", "/v2/health/live")->status, 200);
  ASSERT_EQ(::kill(server->pid(), SIGTERM), 0);
  ASSERT_TRUE(wait_until([&] { return server->err().find("stopping: ") != std::string::npos; }));
  // The old server, which is draining, answers and closes the connection.
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

/// An idle client cannot delay the server's end. The server closes the idle connection without resetting it.
TEST_F(ServeRestart, AnIdleConnectionIsClosedDuringTheDrain) {
  auto server = serve({"--drain-ms", "60000"});
  await_start(*server);
  HttpConnection idle(socket_.port(), 60s), half(socket_.port(), 60s);
  ASSERT_EQ(idle.request("GET", "/v2/health/live")->status, 200);
  // The client sent the first part of a request before the signal. The server answers once the rest arrives.
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
}  // namespace millrace::tests::test_serve_restart
