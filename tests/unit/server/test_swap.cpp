// Tests swaps with the policies overlap and drain, and rollbacks. The pipelines are fakes that can fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>

#include "server/models/repository.hpp"
#include "swap_fixture.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::models::test_swap {
namespace {

TEST_F(SwapTest, UnloadedModelIsDestroyedOnAnotherThreadAfterItsLastRequest) {
  Swapper swap = swapper();
  RepositoryOptions options;
  options.mode = RepositoryMode::kExplicit;
  Repository repository(registry, *metrics, swap, options);
  auto deployment = version("1").deployment;
  auto named = std::make_shared<Loaded>(*deployment);
  named->plan.model.name = "m";
  ASSERT_TRUE(repository.serve_deployment(named).ok());
  ASSERT_TRUE(repository.start().ok());
  auto request = serving();
  ASSERT_NE(request, nullptr);
  const auto unload = [&] {
    std::promise<Status> ended;
    EXPECT_TRUE(repository.unload("m", "", [&](const Status& status) { ended.set_value(status); }).ok());
    return ended.get_future().get();
  };
  EXPECT_TRUE(unload().ok());
  const auto ended = [&] {
    const std::lock_guard lock(pool.mutex);
    const auto found = pool.ended.find("1");
    return found == pool.ended.end() ? std::thread::id() : found->second;
  };
  // Run a further job, because each job releases the models that no request uses.
  EXPECT_EQ(unload().error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ended(), std::thread::id()) << "a request still holds the model";
  request.reset();
  EXPECT_NE(ended(), std::this_thread::get_id());
  EXPECT_TRUE(tests::wait_until([&] { return ended() != std::thread::id(); })) << "without another job";
}

TEST_F(SwapTest, ComputesWarmUpFramesBeforeAVersionServes) {
  std::vector<std::string> computed;  // for each frame: the version in service
  bool zeros = true;
  pool.compute = [&](Frame& frame) {
    computed.push_back(serving_version());
    zeros = zeros && std::all_of(frame.inputs[0].begin(), frame.inputs[0].end(),
                                 [](std::byte b) { return b == std::byte{}; });
    test::echo(frame);
  };
  SwapOptions options;
  options.verify.warmup_frames = 3;
  options.drain = 5s;
  Swapper swap(registry, *metrics, pool.source(), options);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  EXPECT_EQ(computed, std::vector<std::string>(3, ""));
  computed.clear();
  pool.capacity = 2;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kOverlap).status.ok());
  EXPECT_EQ(computed, std::vector<std::string>(3, "1")) << "the old version serves until then";
  EXPECT_TRUE(zeros);
}

TEST_F(SwapTest, PolicyOverlapOpensTheNewVersionFirstAndPolicyAutoPrefersOverlap) {
  pool.capacity = 2;
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  EXPECT_EQ(result.used, SwapPolicy::kOverlap);
  EXPECT_EQ(pool.log, (std::vector<std::string>{"open 1", "open 2", "stop 1"}));
  EXPECT_EQ(serving_version(), "2");
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, PolicyDrainStopsTheOldVersionFirstAndPolicyAutoFallsBackToDrain) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  EXPECT_EQ(swap.swap(serving(), version("2"), SwapPolicy::kOverlap).status.error().code(),
            ErrorCode::kDoesNotFit);
  EXPECT_EQ(swap.swap(serving(), version("2"), SwapPolicy::kRolling).status.error().code(),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(pool.log, std::vector<std::string>{"open 1"}) << "nothing was touched";
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.used, SwapPolicy::kDrain);
  EXPECT_EQ(pool.log, (std::vector<std::string>{"open 1", "stop 1", "open 2"}));
  EXPECT_EQ(serving_version(), "2");
}

TEST_F(SwapTest, AVersionThatStartsOnlyAtTheSecondAttemptServes) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  pool.fail["2"] = 1;
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).status.ok());
  EXPECT_EQ(serving_version(), "2");
}

TEST_F(SwapTest, OldVersionServesAgainIfTheNewVersionDoesNotStart) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto before = serving();
  pool.fail["2"] = 2;
  const auto result = swap.swap(before, version("2"), SwapPolicy::kDrain);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.rolled_back);
  EXPECT_EQ(serving_version(), "1");
  EXPECT_NE(serving(), before) << "in another pipeline";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, FramesForAFailedVersionWaitUntilTheVersionRestarts) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  pool.fail["2"] = 2;
  pool.fail["1"] = 3;
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kDrain);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.lost);
  EXPECT_EQ(serving()->state(), ModelState::kUnavailable);
  std::array<std::byte, 16> in{}, out{};
  Frame waiting;
  waiting.inputs.emplace_back(in);
  waiting.outputs.emplace_back(out);
  waiting.deadline = runtime::pipeline::Clock::now() + kPatience;
  std::atomic<int> done{0};
  waiting.context = &done;
  waiting.on_complete = [](Frame&, void* context) {
    static_cast<std::atomic<int>*>(context)->store(1);
    static_cast<std::atomic<int>*>(context)->notify_all();
  };
  ASSERT_TRUE(serving()->pipeline().submit(waiting).ok());
  std::optional<Error> missing;
  EXPECT_TRUE(swap.bring_back(serving(), missing).ok()) << "the fourth try, and the one after it";
  EXPECT_FALSE(missing);
  done.wait(0);
  EXPECT_TRUE(waiting.status.ok());
  EXPECT_EQ(serving()->state(), ModelState::kReady);
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, AnotherVersionCanReplaceAFailedVersion) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  pool.fail["2"] = 2;
  pool.fail["1"] = 2;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).lost);
  const auto result = swap.swap(serving(), version("3"), SwapPolicy::kAuto);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(serving_version(), "3");
  EXPECT_TRUE(answers());
}

}  // namespace
}  // namespace millrace::server::models::test_swap
