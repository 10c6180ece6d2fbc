// Tests that swaps of versions fail no request of UDP clients, and that every answer comes entirely from one version.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "millrace/client.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository_udp {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kFrames = 8;

struct Expected {
  Bytes input;
  std::map<std::string, Bytes> outputs;  // the expected output bytes, by version
};

class RepositoryUdp : public testing::Test {
 protected:
  void start(std::uint32_t cards, std::vector<std::string> more = {}) {
    const std::map<std::string, kernels::Program> programs = {{"1", chain_program(6)},
                                                              {"2", trained_again(chain_program(6))}};
    host_.emplace(cards);
    for (const auto& [version, program] : programs) host_->add(version, program);
    more.insert(more.end(), {"--udp", "127.0.0.1:0"});
    host_->start(more);
    const auto address = host_->server().wait_for_line("listening udp ", 60s);
    ASSERT_TRUE(address.has_value()) << host_->server().err();
    url_ = "udp://" + *address;
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      const std::string text = host_->frame(i);
      const auto bytes = std::as_bytes(std::span(text));
      Expected& frame = frames_.emplace_back();
      frame.input.assign(bytes.begin(), bytes.end());
      for (const auto& [version, program] : programs)
        frame.outputs[version] = kernels::reference::run(program, {frame.input}).front();
    }
  }

  /// Swaps between the two versions while clients send one request after the other.
  void swap_under_load(const std::string& policy, int swaps) {
    for (const std::string version : {"1", "2", "1"}) ASSERT_EQ(host_->load(version, policy).status, 200);
    std::atomic<int> right{0}, failed{0};
    std::array<std::atomic<int>, 2> from{};
    std::vector<std::jthread> clients;
    for (std::uint32_t c = 0; c < 3; ++c)
      clients.emplace_back([&](const std::stop_token& stop) {
        std::unique_ptr<client::Client> client;
        const client::Status connected = client::connect(url_, {}, client);
        if (!connected.ok()) return static_cast<void>(++failed);
        std::vector<Bytes> outputs;
        for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
          const Expected& frame = frames_[i % kFrames];
          const client::Status s = client->infer("m", "", {{frame.input}}, 20s, outputs);
          const bool one = s.ok() && outputs.front() == frame.outputs.at("1");
          const bool other = s.ok() && outputs.front() == frame.outputs.at("2");
          ++(one || other ? right : failed);
          if (one) ++from[0];
          if (other) ++from[1];
          EXPECT_TRUE(one || other) << (s.ok() ? "an answer of neither version" : s.message);
        }
      });
    const auto wait_for = [&](int more) {
      const int until = right + more;
      EXPECT_TRUE(wait_until([&] { return right >= until || failed > 0; }));
    };
    wait_for(20);
    for (int swap = 0; swap < swaps; ++swap) {
      const auto answer = host_->load(swap % 2 == 0 ? "2" : "1", policy);
      EXPECT_EQ(answer.status, 200) << answer.body;
      wait_for(5);
    }
    clients.clear();
    EXPECT_EQ(failed, 0);
    EXPECT_GT(from[0], 0);
    EXPECT_GT(from[1], 0);
    // The server updates the counts of requests, finished and in flight, a moment after the answer arrives.
    EXPECT_TRUE(wait_until([&] { return host_->metric("millrace_requests_in_flight") == 0; }));
    const std::string labels = "outcome=\"success\",reason=\"none\",transport=\"udp\"";
    double counted = 0;
    EXPECT_TRUE(
        wait_until([&] { return (counted = host_->metric("millrace_requests_total", labels)) >= right; }));
    EXPECT_EQ(counted, right) << "each counted once, on the version that computed it";
    EXPECT_EQ(host_->server().stop(SIGTERM), 0) << host_->server().err();
  }

  std::optional<RepositoryHost> host_;
  std::string url_;
  std::vector<Expected> frames_;
};

TEST_F(RepositoryUdp, VersionSwapsByDrainUnderLoadFailNoRequest) {
  start(3);
  swap_under_load("drain", 12);
}

TEST_F(RepositoryUdp, VersionSwapsByOverlapUnderLoadFailNoRequest) {
  start(6);
  swap_under_load("overlap", 12);
}

TEST_F(RepositoryUdp, AClientThatNamesAReplacedVersionGetsNotFound) {
  start(3);
  ASSERT_EQ(host_->load("1").status, 200);
  std::unique_ptr<client::Client> client;
  ASSERT_TRUE(client::connect(url_, {}, client).ok());
  std::vector<Bytes> outputs;
  ASSERT_TRUE(client->infer("m", "1", {{frames_[0].input}}, 20s, outputs).ok());
  EXPECT_EQ(outputs.front(), frames_[0].outputs.at("1"));
  ASSERT_EQ(host_->load("2").status, 200);
  EXPECT_EQ(client->infer("m", "1", {{frames_[0].input}}, 20s, outputs).code, client::Code::kNotFound);
  ASSERT_TRUE(client->infer("m", "", {{frames_[0].input}}, 20s, outputs).ok());
  EXPECT_EQ(outputs.front(), frames_[0].outputs.at("2"));
}

}  // namespace
}  // namespace millrace::tests::test_repository_udp
