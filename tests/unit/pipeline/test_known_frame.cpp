// Tests the deployment's known frame: cards that compute it wrongly, or not at all, get no frames of clients.
#include <gtest/gtest.h>

#include "runtime/base/digest.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plan/known_answer.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_known_frame {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using card::ResetStep;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineOptions;
using Steps = std::vector<ResetStep>;

constexpr int kSumOnCards = 15;  // what chain_of_three() has added when the host reads the result of card c

/// Returns chain_of_three() with a known frame. Its right result is the input, plus the constants up to card c.
Plan plan_with_known_frame() {
  Plan plan = chain_of_three();
  plan::KnownAnswer& known = plan.deployment.known_answer.emplace();
  known.seed = 5;
  known.inputs = {{-100, 100, 1}};
  std::vector<std::byte> bytes = plan::known_inputs(plan.deployment).at(0);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::int16_t)) {
    std::int16_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    value = static_cast<std::int16_t>(value + kSumOnCards);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  known.results = {{{"c", "out0"}, sha256_hex(bytes)}};
  return plan;
}

class KnownFrame : public testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::kOff, false); }

  Status open() {
    PipelineOptions options;
    options.restart_backoff_initial = 1ms;
    options.check_known_answer = true;
    options.stuck_after = stuck_after_;
    MILLRACE_ASSIGN(pipeline_, open_on(world_, options));
    return {};
  }
  bool works() {
    TestFrame frame(1, 1, 100);
    return pipeline_->infer(frame.frame).ok() && frame.holds(0, 1, kChainSum);
  }

  FakeWorld world_{plan_with_known_frame(), chain_cluster(3)};
  std::chrono::milliseconds stuck_after_{10'000};
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(KnownFrame, ClientsAreServedIfTheCardsComputeTheKnownFrameCorrectly) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(pipeline_->status().completed, 0U) << "only frames of clients are counted";
  EXPECT_TRUE(works());
  EXPECT_EQ(pipeline_->status().completed, 1U);
  EXPECT_EQ(pipeline_->recent_frames().size(), 1U);
}

TEST_F(KnownFrame, AWrongResultAtTheStartResetsAllCards) {
  for (std::uint32_t card = 0; card < 3; ++card) world_.support_resets(card, {ResetStep::kDevice});
  world_.set_flaw(1, FakeWorld::Flaw::kWrongResults);
  const Status opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  for (std::uint32_t card = 0; card < 3; ++card)
    EXPECT_EQ(world_.tried_resets(card), Steps{ResetStep::kDevice});
  EXPECT_TRUE(works());
}

TEST_F(KnownFrame, APipelineWhoseResultStaysWrongDoesNotStart) {
  world_.set_flaw(1, FakeWorld::Flaw::kWrongResults);
  const Status opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("a wrong result of the deployment's known frame"),
            std::string::npos)
      << opened.error().message();
  EXPECT_NE(opened.error().message().find("'c.out0'"), std::string::npos) << opened.error().message();
  EXPECT_EQ(opened.error().message().find("fpga0"), std::string::npos)
      << "no card is known to be the wrong one";
}

TEST_F(KnownFrame, WaitingForAMissingResultEndsAfterALimitedTime) {
  stuck_after_ = 50ms;
  world_.set_flaw(1, FakeWorld::Flaw::kNoResults);
  const Status opened = open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("did not come back within 50 ms"), std::string::npos)
      << opened.error().message();
}

TEST_F(KnownFrame, ClientsWaitUntilRecoveredCardsComputeTheKnownFrameCorrectly) {
  for (std::uint32_t card = 0; card < 3; ++card) world_.support_resets(card, {ResetStep::kDevice});
  ASSERT_TRUE(open().ok());
  world_.set_flaw(2, FakeWorld::Flaw::kWrongResults);
  world_.kill(0);
  int wrong = 0;
  EXPECT_TRUE(eventually([&] {
    TestFrame frame(1, 1, 100);
    if (!pipeline_->infer(frame.frame).ok()) return false;
    wrong += frame.holds(0, 1, kChainSum) ? 0 : 1;
    return pipeline_->status().cards.at(0).restarts >= 2;
  }));
  EXPECT_EQ(wrong, 0);
}

TEST_F(KnownFrame, ACardThatIsLostWhileItComputesTheKnownFrameIsRestarted) {
  for (std::uint32_t card = 0; card < 3; ++card) world_.support_resets(card, {ResetStep::kDevice});
  ASSERT_TRUE(open().ok());
  world_.set_flaw(2, FakeWorld::Flaw::kNoResults);
  world_.kill(0);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards.at(0).restarts == 1; }));
  world_.kill(2);  // the pipeline waits for the known frame
  ASSERT_TRUE(eventually([&] { return pipeline_->ready(); }));
  EXPECT_TRUE(works());
}

TEST_F(KnownFrame, StoppingDoesNotWaitForTheKnownFrame) {
  stuck_after_ = 10min;
  ASSERT_TRUE(open().ok());
  world_.set_flaw(2, FakeWorld::Flaw::kNoResults);
  world_.kill(0);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards.at(0).restarts == 1; }));
  pipeline_->stop(0ms);
}

TEST_F(KnownFrame, StoppingDoesNotWaitForCardsThatStayWrong) {
  ASSERT_TRUE(open().ok());
  world_.set_flaw(2, FakeWorld::Flaw::kWrongResults);
  world_.kill(0);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards.at(2).restarts >= 2; }));
  EXPECT_FALSE(pipeline_->ready());
  pipeline_->stop(0ms);
}

}  // namespace
}  // namespace millrace::tests::test_known_frame
