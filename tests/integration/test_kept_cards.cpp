// Tests emulated cards that outlive their server: a keeper keeps them, as a machine keeps its real cards. A server that is
// killed leaves them in a bad state, and the next server serves without an operator.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_kept_cards {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";

class KeptCards : public testing::Test {
 protected:
  KeptCards() { deploy(program_, emulated_ring(3), 3, deployment_); }

  std::string socket() const { return (directory_.path() / "cards").string(); }
  std::vector<std::string> keeper_command() const {
    return {std::string(binary_dir()) + "/bin/millrace-card", "--keep", socket()};
  }
  void start_keeper() {
    keeper_ = std::make_unique<BackgroundProgram>(keeper_command());
    ASSERT_TRUE(keeper_->wait_for_line("millrace-card: keeps cards at ", 60s)) << keeper_->err();
  }
  std::vector<std::string> serve_command(const std::string& manners = "hardware") const {
    return {millrace_binary(), "serve",       "--deployment", deployment_.string(),
            "--http",          "127.0.0.1:0", "--manners",    manners};
  }
  std::vector<std::string> environment() const {
    return {"MILLRACE_CARDS=" + socket(),
            "MILLRACE_EMULATION_OPTIONS=program_time=20 cable_time=30 reset_time=10"};
  }
  void start_server() {
    server_ = std::make_unique<BackgroundProgram>(serve_command(), environment());
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  }
  std::optional<std::string> infer(HttpConnection& connection) const {
    const std::string input(program_.tensors[program_.inputs[0]].elements() * sizeof(float), '\0');
    const auto answer = connection.request("POST", "/v2/models/" + program_.name + "/infer", input, kRaw);
    if (!answer || answer->status != 200) return std::nullopt;
    return answer->body;
  }
  std::string card_processes() const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream environ(entry.path() / "environ"), command(entry.path() / "cmdline");
      std::string program, all((std::istreambuf_iterator<char>(environ)), {});
      std::getline(command, program, '\0');
      if (program == "millrace-card" && all.find(socket()) != std::string::npos)
        text += entry.path().string() + " ";
    }
    return text;
  }

  const kernels::Program program_ = chain_program(3);
  TemporaryDirectory directory_{"millrace-kept"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  std::unique_ptr<BackgroundProgram> keeper_, server_;
  std::uint16_t port_ = 0;
};

TEST_F(KeptCards, AServerThatIsKilledUnderLoadServesAgainAfterARestart) {
  start_keeper();
  ASSERT_NO_FATAL_FAILURE(start_server());
  HttpConnection first(port_);
  const auto expected = infer(first);
  ASSERT_TRUE(expected.has_value()) << server_->err();
  const std::string cards = card_processes();
  int wrong = 0;
  std::chrono::steady_clock::duration longest{0};
  for (int kill = 0; kill < repetitions(10); ++kill) {
    std::atomic<bool> go{true};
    std::atomic<int> good{0}, bad{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 3; ++i)
      clients.emplace_back([&] {
        HttpConnection connection("127.0.0.1:" + std::to_string(port_));
        while (go.load()) {
          const auto answer = infer(connection);
          if (!answer) return;  // the server was killed
          (*answer == *expected ? good : bad).fetch_add(1);
        }
      });
    EXPECT_TRUE(wait_until([&] { return good.load() > 20; })) << server_->err();
    EXPECT_EQ(server_->stop(SIGKILL), 128 + SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    go.store(false);
    for (std::thread& client : clients) client.join();
    wrong += bad.load();
    ASSERT_NO_FATAL_FAILURE(start_server()) << "after kill " << kill;
    HttpConnection again(port_);
    EXPECT_EQ(infer(again), expected) << "after kill " << kill << ": " << server_->err();
    longest = std::max(longest, std::chrono::steady_clock::now() - killed);
  }
  std::printf("longest time from a kill to the first answer of the next server: %.0f ms\n",
              std::chrono::duration<double, std::milli>(longest).count());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
  EXPECT_NE(card_processes(), "") << "the cards outlive the server";
  EXPECT_EQ(keeper_->stop(SIGTERM), 0) << keeper_->err();
  EXPECT_TRUE(wait_until([&] { return card_processes().empty(); })) << "the cards end with their keeper";
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(KeptCards, ANewServerDoesNotProgramCardsThatHaveTheImage) {
  start_keeper();
  ASSERT_NO_FATAL_FAILURE(start_server());
  const std::string cards = card_processes();
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
  ASSERT_NO_FATAL_FAILURE(start_server());
  EXPECT_EQ(card_processes(), cards) << "the same processes";
  HttpConnection connection(port_);
  EXPECT_TRUE(infer(connection).has_value());
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

TEST_F(KeptCards, KeeperNeitherUsesNorRemovesAFileThatIsNotASocket) {
  std::ofstream(socket()) << "precious";
  const auto outcome = run_program(keeper_command());
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.err.find("neither a file nor another keeper"), std::string::npos) << outcome.err;
  std::string content;
  std::ifstream(socket()) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(KeptCards, KeeperReplacesTheSocketOfAKilledKeeper) {
  start_keeper();
  EXPECT_EQ(keeper_->stop(SIGKILL), 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(socket()));
  ASSERT_NO_FATAL_FAILURE(start_keeper());
  EXPECT_EQ(keeper_->stop(SIGTERM), 0) << keeper_->err();
}

TEST_F(KeptCards, RefusesASecondServerAMissingKeeperProcessAndTheOptionMannersKind) {
  const auto refused = [&](const std::string& manners, const std::string& reason) {
    const auto outcome = run_program(serve_command(manners), environment());
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
  };
  refused("hardware", "millrace-card --keep " + socket());
  start_keeper();
  refused("kind", "--manners hardware");
  ASSERT_NO_FATAL_FAILURE(start_server());
  refused("hardware", "process " + std::to_string(server_->pid()) + " uses the cards");
  const auto second = run_program(keeper_command());
  EXPECT_EQ(second.exit_code, 3);
  EXPECT_NE(second.err.find("another keeper"), std::string::npos) << second.err;
}

}  // namespace
}  // namespace millrace::tests::test_kept_cards
