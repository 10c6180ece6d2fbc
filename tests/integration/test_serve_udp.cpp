// Tests `millrace serve --udp` over three emulated cards: answers that equal the reference's, keys, counters,
// and the server's end.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "millrace/client.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_serve_udp {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

class ServeUdp : public testing::Test {
 protected:
  ServeUdp() { deploy(program_, emulated_ring(3), 3, deployment_); }

  void start(std::vector<std::string> more = {}) {
    std::vector<std::string> command = {
        millrace_binary(), "serve",       "--deployment", deployment_.string(),
        "--http",          "127.0.0.1:0", "--udp",        "127.0.0.1:0"};
    command.insert(command.end(), more.begin(), more.end());
    server_.emplace(command);
    const auto http = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(http.has_value()) << server_->err();
    http_port_ = static_cast<std::uint16_t>(std::stoi(http->substr(http->rfind(':') + 1)));
    const auto udp = server_->wait_for_line("listening udp ", 60s);
    ASSERT_TRUE(udp.has_value()) << server_->err();
    url_ = "udp://" + *udp;
  }
  std::unique_ptr<client::Client> connected(const client::Options& options = {}) const {
    std::unique_ptr<client::Client> out;
    const client::Status s = client::connect(url_, options, out);
    EXPECT_TRUE(s.ok()) << s.message;
    return out;
  }

  Bytes frame(std::uint32_t seed) const {
    std::mt19937 random(seed);
    Bytes bytes(program_.tensors[program_.inputs[0]].elements() * sizeof(float));
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      const float value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 16.F;
      std::memcpy(bytes.data() + i, &value, sizeof value);
    }
    return bytes;
  }
  Bytes expected(const Bytes& input) const { return kernels::reference::run(program_, {input}).front(); }

  TemporaryDirectory directory_{"millrace-serve-udp"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  const kernels::Program program_ = chain_program(6);
  std::optional<BackgroundProgram> server_;
  std::uint16_t http_port_ = 0;
  std::string url_;
};

TEST_F(ServeUdp, ConcurrentClientsReceiveOutputsEqualToTheReferenceAndAreCounted) {
  start();
  std::atomic<int> right{0};
  std::vector<std::jthread> clients;
  for (std::uint32_t c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      const auto one = connected();
      if (!one) return;
      std::vector<Bytes> outputs;
      for (std::uint32_t i = 0; i < 50; ++i) {
        const Bytes input = frame(c * 1000 + i);
        const client::Status s = one->infer(program_.name, "", {{input}}, 20s, outputs);
        EXPECT_TRUE(s.ok()) << s.message;
        right += s.ok() && outputs.front() == expected(input);
      }
    });
  clients.clear();
  EXPECT_EQ(right, 200);
  HttpConnection connection(http_port_);
  std::string page;
  // The server counts a response a moment after sending it.
  EXPECT_TRUE(wait_until([&] {
    page = connection.request("GET", "/metrics").value().body;
    return page.find("millrace_udp_responses_total 200\n") != std::string::npos;
  })) << page;
  EXPECT_NE(page.find("millrace_udp_sessions_opened_total 4\n"), std::string::npos) << page;
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

TEST_F(ServeUdp, AServerWithKeysAnswersOnlyClientsThatSignTheirDatagrams) {
  const std::filesystem::path keys = directory_.path() / "keys";
  std::ofstream(keys) << "# one client\n7 00112233445566778899aabbccddeeff\n";
  start({"--udp-keys", keys.string()});
  std::unique_ptr<client::Client> none;
  EXPECT_EQ(client::connect(url_, {}, none).code, client::Code::kUnavailable);
  client::Options with;
  with.key_id = 7;
  for (unsigned i = 0; i < 16; ++i) with.key.push_back(static_cast<std::byte>(i * 17));
  const auto one = connected(with);
  ASSERT_NE(one, nullptr);
  const Bytes input = frame(1);
  std::vector<Bytes> outputs;
  const client::Status s = one->infer(program_.name, "", {{input}}, 20s, outputs);
  ASSERT_TRUE(s.ok()) << s.message;
  EXPECT_EQ(outputs.front(), expected(input));
}

TEST_F(ServeUdp, SighupLoadsNewKeysAndKeepsOldKeysIfTheFileIsBroken) {
  const std::filesystem::path keys = directory_.path() / "keys";
  std::ofstream(keys) << "7 00112233445566778899aabbccddeeff\n";
  start({"--udp-keys", keys.string()});
  const auto reload = [&](const std::string& outcome) {
    ASSERT_EQ(::kill(server_->pid(), SIGHUP), 0);
    EXPECT_TRUE(wait_until([&] { return server_->err().find(outcome) != std::string::npos; }))
        << server_->err();
  };
  const auto options = [](std::uint8_t id, unsigned factor) {
    client::Options with;
    with.key_id = id;
    with.retry = 100ms;
    for (unsigned i = 0; i < 16; ++i) with.key.push_back(static_cast<std::byte>(i * factor));
    return with;
  };
  std::ofstream(keys) << "8 00\n";
  reload("reload refused");
  EXPECT_NE(server_->err().find("keys: line 1"), std::string::npos) << server_->err();
  EXPECT_NE(connected(options(7, 17)), nullptr) << "loaded files stay unchanged";

  std::ofstream(keys) << "8 000102030405060708090a0b0c0d0e0f\n";
  reload("settings read again");
  EXPECT_NE(connected(options(8, 1)), nullptr);
  std::unique_ptr<client::Client> none;
  EXPECT_EQ(client::connect(url_, options(7, 17), none).code, client::Code::kUnavailable);
}

TEST_F(ServeUdp, RefusesBadOptionsByName) {
  const auto refused = [&](const std::vector<std::string>& more, int exit_code, const std::string& words) {
    std::vector<std::string> command = {millrace_binary(),    "serve",  "--deployment",
                                        deployment_.string(), "--http", "127.0.0.1:0"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome run = run_program(command);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
  };
  refused({"--udp", "nowhere"}, 2, "--udp");
  refused({"--udp", "0.0.0.0:0"}, 2, "keys");
  refused({"--udp-keys", "x"}, 2, "--udp");
  refused({"--udp", "127.0.0.1:0", "--udp-keys", (directory_.path() / "none").string()}, 2, "none");
  const std::filesystem::path keys = directory_.path() / "bad";
  std::ofstream(keys) << "7 0011\n";
  refused({"--udp", "127.0.0.1:0", "--udp-keys", keys.string()}, 2, "line 1");
  start();
  refused({"--udp", url_.substr(6)}, 3, url_.substr(6));
}

}  // namespace
}  // namespace millrace::tests::test_serve_udp
