// Tests swaps of models with several replicas: the policy rolling, and replicas that cannot be opened.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>

#include "runtime/pipeline/dispatcher.hpp"
#include "swap_fixture.hpp"

namespace millrace::server::models::test_swap_replicas {
namespace {

TEST_F(SwapTest, RollingSwapReplacesReplicasOneByOneWhileHalfOfThemServe) {
  pool.capacity = 4;
  Swapper swap = swapper(4);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  EXPECT_EQ(result.used, SwapPolicy::kRolling);
  EXPECT_EQ(pool.log, (std::vector<std::string>{"open 1", "open 1", "open 1", "open 1", "stop 1", "open 2",
                                                "stop 1", "open 2", "stop 1", "open 2", "stop 1", "open 2"}));
  EXPECT_EQ(serving()->pipeline().status().slots, 8U) << "of four replicas";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, RollingBackOpensAsManyOldReplicasAsWereStopped) {
  pool.capacity = 3;
  Swapper swap = swapper(3);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  pool.fail["2"] = 1;
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kRolling);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.rolled_back);
  EXPECT_EQ(serving_version(), "1");
  EXPECT_EQ(serving()->pipeline().status().slots, 6U);
  EXPECT_EQ(pool.open, 3U);
}

TEST_F(SwapTest, RepeatedRollbacksKeepAllReplicasAndNoStoppedPipeline) {
  pool.capacity = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  for (int turn = 0; turn < 300; ++turn) {
    pool.fail["2"] = 1;
    const auto result = swap.swap(serving(), version("2"), SwapPolicy::kRolling);
    ASSERT_TRUE(result.rolled_back);
    ASSERT_FALSE(result.missing);
    ASSERT_EQ(Swapper::replica_count(serving()).there, 2U) << "turn " << turn;
  }
  EXPECT_LE(pool.alive, 4) << "two that serve, the very first, and the last that was stopped";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, CountsAReplicaThatDoesNotRestartAsMissing) {
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  const auto count = [&](const std::string& series) {
    const std::string page = metrics->serialise();
    const std::string line = series + "{model=\"m\",version=\"" + serving_version() + "\"} ";
    const auto at = page.find(line);
    return at == std::string::npos ? "none" : page.substr(at + line.size(), 1);
  };
  const auto expect = [&](const std::string& wanted, const std::string& there) {
    EXPECT_EQ(count("millrace_replicas_wanted"), wanted);
    EXPECT_EQ(count("millrace_replicas"), there);
  };
  pool.capacity = 3;
  {
    Swapper alone = swapper(1);
    ASSERT_TRUE(alone.swap(nullptr, version("0"), SwapPolicy::kAuto).status.ok());
    expect("1", "1");
    alone.unload(serving());
  }
  Swapper swap = swapper(3);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  expect("3", "3");
  pool.fail["2"] = 1;
  pool.fail["1"] = 1;
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kRolling).rolled_back);
  expect("3", "2");
  // The next swap stops all replicas. After the rollback one replica opens again, but the second replica does not.
  pool.fail["2"] = 100;
  std::atomic<int> opened{0};
  pool.before_open = [&](const std::string& name) {
    if (name == "1" && ++opened == 2) pool.fail["1"] = 1;
  };
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).rolled_back);
  expect("3", "1");
  EXPECT_TRUE(answers());
  // The first complete() opens one more replica, the second complete() opens the last replica. A third complete() does
  // nothing.
  opened = 0;
  EXPECT_FALSE(swap.complete(serving()).ok());
  expect("3", "2");
  EXPECT_TRUE(swap.complete(serving()).ok());
  expect("3", "3");
  EXPECT_TRUE(swap.complete(serving()).ok());
  EXPECT_EQ(pool.open, 3U);
  EXPECT_TRUE(answers());
  pool.before_open = nullptr;
  pool.fail["2"] = 0;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).status.ok());
  expect("3", "3");
}

TEST_F(SwapTest, AReplicaWithWrongOutputsIsRefusedAtEveryRetry) {
  pool.capacity = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  NextVersion next = version("2");
  next.stored = {1, {std::vector<std::byte>(16, std::byte{1})}, {std::vector<std::byte>(16, std::byte{1})}};
  // Pipelines echo their input. From the second pipeline of version 2 on, the output is wrong.
  int opened = 0;
  pool.before_open = [&](const std::string& name) {
    if (name == "2" && ++opened == 2)
      pool.compute = [](Frame& frame) {
        test::echo(frame);
        frame.outputs[0][0] ^= std::byte{1};
      };
  };
  const auto result = swap.swap(serving(), next, SwapPolicy::kRolling);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  ASSERT_TRUE(result.missing);
  EXPECT_NE(result.missing->message().find("verification: frame 0"), std::string::npos)
      << result.missing->message();
  const Status again = swap.complete(serving());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message().find("verification: frame 0"), std::string::npos)
      << again.error().message();
  EXPECT_EQ(Swapper::replica_count(serving()).there, 1U);
  EXPECT_EQ(pool.open, 1U);
  pool.compute = test::echo;
  EXPECT_TRUE(swap.complete(serving()).ok());
  EXPECT_EQ(Swapper::replica_count(serving()).there, 2U);
}

TEST_F(SwapTest, RollingSwapIsRefusedWhileAReplicaIsMissing) {
  pool.capacity = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  pool.fail["2"] = 1;
  pool.fail["1"] = 1;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kRolling).rolled_back);
  ASSERT_EQ(Swapper::replica_count(serving()).there, 1U);
  const auto refused = swap.swap(serving(), version("3"), SwapPolicy::kRolling);
  EXPECT_EQ(refused.status.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.status.error().message().find("1 of 2 are up"), std::string::npos)
      << refused.status.error().message();
  EXPECT_FALSE(refused.attempted);
  ASSERT_TRUE(swap.complete(serving()).ok());
  EXPECT_TRUE(swap.swap(serving(), version("3"), SwapPolicy::kRolling).status.ok());
  EXPECT_EQ(serving_version(), "3");
  // The following swaps are refused with another code, kInvalidInput, because they would be impossible even if every
  // replica were up.
  const auto never = [&](std::uint32_t replicas, const std::string& says) {
    const Status status = swapper(replicas).swap(serving(), version("4"), SwapPolicy::kRolling).status;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message().find(says), std::string::npos) << status.error().message();
  };
  never(3, "the new version has 3 and the serving version has 2");
  ASSERT_TRUE(swapper(1).swap(serving(), version("4"), SwapPolicy::kDrain).status.ok());
  never(1, "needs a model with several replicas");
}

/// A test that starts with version 2 in service with one of two replicas. The other replica failed its verification.
struct UnverifiedReplica : SwapTest {
  void SetUp() override {
    pool.capacity = 2;
    ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
    NextVersion next = version("2");
    next.stored = {1, {std::vector<std::byte>(16, std::byte{1})}, {std::vector<std::byte>(16, std::byte{1})}};
    pool.before_open = [&](const std::string& name) {
      taken = pool.open;
      pool.compute = test::echo;
      if (name != "2" || !wrong.contains(++opened)) return;
      pool.compute = [](Frame& frame) {
        test::echo(frame);
        frame.outputs[0][0] ^= std::byte{1};
      };
    };
    ASSERT_TRUE(swap.swap(serving(), next, SwapPolicy::kRolling).status.ok());
    ASSERT_EQ(Swapper::replica_count(serving()).there, 1U);
    opened = 0;
  }
  void expect(std::uint32_t there, const std::string& why_missing = "") {
    EXPECT_EQ(Swapper::replica_count(serving()).there, there);
    EXPECT_EQ(Swapper::replica_count(serving()).wanted, 2U);
    EXPECT_EQ(pool.open, there);
    EXPECT_EQ(why_missing.find("verification: frame 0") != std::string::npos, there < 2) << why_missing;
    std::array<std::byte, 16> in{}, out{};
    for (int i = 0; i < 4; ++i) {
      Frame frame;
      frame.inputs.emplace_back(in);
      frame.outputs.emplace_back(out);
      ASSERT_TRUE(serving()->pipeline().infer(frame).ok());
      EXPECT_EQ(in, out);
    }
  }

  Swapper swap = swapper(2);
  std::set<int> wrong{2};  // which of the next pipelines of version 2 have wrong outputs
  int opened = 0;
  std::size_t taken = 0;  // how many pipelines had cards when the last one was opened
};

TEST_F(UnverifiedReplica, IsRefusedAfterAFailedLoad) {
  for (const int bad : {1, 2}) {
    opened = 0;
    wrong = {bad};
    pool.fail["3"] = 2;
    const auto result = swap.swap(serving(), version("3"), SwapPolicy::kDrain);
    EXPECT_TRUE(result.rolled_back);
    ASSERT_TRUE(result.missing);
    expect(1, result.missing->message());
  }
  // A failed load does not cancel the verification: every replica that is opened again must pass it.
  wrong = {3};
  EXPECT_FALSE(swap.complete(serving()).ok());
  expect(1, "verification: frame 0");
  EXPECT_TRUE(swap.complete(serving()).ok());
  expect(2);
}

TEST_F(UnverifiedReplica, IsRefusedWhenAFailedVersionRestarts) {
  pool.fail["3"] = 2;
  pool.fail["2"] = 2;
  ASSERT_TRUE(swap.swap(serving(), version("3"), SwapPolicy::kDrain).lost);
  opened = 0;
  wrong = {1, 2, 3, 4};
  std::optional<Error> missing;
  EXPECT_FALSE(swap.bring_back(serving(), missing).ok()) << "none is better than wrong ones";
  EXPECT_EQ(pool.open, 0U);
  opened = 0;
  wrong = {1};
  ASSERT_TRUE(swap.bring_back(serving(), missing).ok());
  ASSERT_TRUE(missing);
  expect(1, missing->message());
  EXPECT_EQ(taken, 1U) << "the one that was refused kept its cards, or the next had got them";
}

TEST_F(UnverifiedReplica, IsVerifiedOnlyOnce) {
  ASSERT_TRUE(swap.complete(serving()).ok());
  expect(2);
  EXPECT_EQ(serving()->pending_verification(), nullptr);
}

TEST_F(SwapTest, LoadFailsAndLeavesNoPipelineOpenIfNotAllReplicasFit) {
  pool.capacity = 2;
  Swapper swap = swapper(3);
  const auto result = swap.swap(nullptr, version("1"), SwapPolicy::kAuto);
  ASSERT_FALSE(result.status.ok());
  EXPECT_NE(result.status.error().message().find("replica 3 of 3"), std::string::npos);
  EXPECT_EQ(pool.open, 0U);
  EXPECT_EQ(serving(), nullptr);
}

TEST_F(SwapTest, OtherReplicasComputeTheFramesOfAFailedReplica) {
  auto one = std::make_shared<FakePipeline>(), two = std::make_shared<FakePipeline>();
  one->on_submit = [] { return Error(ErrorCode::kUnavailable, "a card is lost"); };
  runtime::pipeline::Dispatcher both(one, 4);
  both.add(two);
  std::array<std::byte, 16> in{}, out{};
  for (int i = 0; i < 6; ++i) {
    Frame frame;
    frame.inputs.emplace_back(in);
    frame.outputs.emplace_back(out);
    EXPECT_TRUE(both.infer(frame).ok());
  }
  EXPECT_TRUE(both.ready());
  EXPECT_EQ(both.retire(), one);
  EXPECT_EQ(both.size(), 1U);
}

}  // namespace
}  // namespace millrace::server::models::test_swap_replicas
