// Tests how recovery resets lost cards: the order of the steps, when a step is left out, and that frames wait for cables.
#include <gtest/gtest.h>

#include "runtime/base/log.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline_resets {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
namespace abi = plan::abi;
using card::ResetStep;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineOptions;
using Steps = std::vector<ResetStep>;

class PipelineResets : public testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::kOff, false); }

  /// Opens a pipeline for which two losses within `calm` follow soon after each other.
  void open(std::chrono::milliseconds calm) {
    world_ = std::make_unique<FakeWorld>(chain_of_three(), chain_cluster(3));
    PipelineOptions options;
    options.slots = 4;
    options.restart_backoff_initial = 1ms;
    options.restart_backoff_maximum = calm;
    auto opened = open_on(*world_, options);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    pipeline_ = std::move(*opened);
  }
  void lose(std::uint32_t card, std::uint64_t restarts) {
    abi::FaultReport fault;
    fault.code = abi::FaultCode::kInternal;
    world_->report_fault(card, fault);
    ASSERT_TRUE(eventually([&] {
      const auto status = pipeline_->status();
      return status.ready && status.cards.at(card).restarts == restarts;
    }));
  }
  bool works() {
    TestFrame frame(1, 1, 100);
    return pipeline_->infer(frame.frame).ok() && frame.holds(0, 1, kChainSum);
  }

  std::unique_ptr<FakeWorld> world_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineResets, ResetsComputeUnitsThenTheShellThenTheDevice) {
  open(10s);
  world_->support_resets(1, {ResetStep::kDevice});
  ASSERT_NO_FATAL_FAILURE(lose(1, 1));
  EXPECT_EQ(world_->tried_resets(1), (Steps{ResetStep::kUnit, ResetStep::kShell, ResetStep::kDevice}));
  EXPECT_EQ(world_->tried_resets(0), Steps()) << "only the lost card is reset";
  const auto card = pipeline_->status().cards.at(1);
  EXPECT_EQ(card.resets, (std::array<std::uint64_t, 3>{0, 0, 1}));
  EXPECT_EQ(card.programmed, 2U);
  EXPECT_TRUE(works());
}

TEST_F(PipelineResets, SkipsTheLaterResetsOnceTheCardWorks) {
  open(10s);
  world_->support_resets(1, {ResetStep::kUnit, ResetStep::kShell, ResetStep::kDevice});
  ASSERT_NO_FATAL_FAILURE(lose(1, 1));
  EXPECT_EQ(world_->tried_resets(1), Steps{ResetStep::kUnit});
  const auto card = pipeline_->status().cards.at(1);
  EXPECT_EQ(card.resets, (std::array<std::uint64_t, 3>{1, 0, 0}));
  EXPECT_EQ(card.programmed, 1U) << "the image stayed on the card";
  EXPECT_TRUE(works());
}

TEST_F(PipelineResets, BeginsWithTheNextStrongerResetIfTheCardIsSoonLostAgain) {
  open(10s);
  world_->support_resets(1, {ResetStep::kUnit, ResetStep::kShell, ResetStep::kDevice});
  for (std::uint64_t loss = 1; loss <= 4; ++loss) ASSERT_NO_FATAL_FAILURE(lose(1, loss));
  EXPECT_EQ(world_->tried_resets(1),
            (Steps{ResetStep::kUnit, ResetStep::kShell, ResetStep::kDevice, ResetStep::kDevice}));
  EXPECT_EQ(pipeline_->status().cards.at(1).programmed, 3U);
}

TEST_F(PipelineResets, BeginsWithTheComputeUnitsAgainAfterATimeWithoutLosses) {
  open(1ms);
  world_->support_resets(1, {ResetStep::kUnit, ResetStep::kShell, ResetStep::kDevice});
  ASSERT_NO_FATAL_FAILURE(lose(1, 1));
  const auto up = runtime::pipeline::Clock::now();
  ASSERT_TRUE(eventually([&] { return runtime::pipeline::Clock::now() - up > 2ms; }));
  ASSERT_NO_FATAL_FAILURE(lose(1, 2));
  EXPECT_EQ(world_->tried_resets(1), (Steps{ResetStep::kUnit, ResetStep::kUnit}));
}

TEST_F(PipelineResets, TriesTheNextStrongerResetIfTheImageDoesNotLoadAfterOne) {
  open(10s);
  world_->support_resets(1, {ResetStep::kUnit, ResetStep::kDevice});
  world_->refuse_loads(1, 1);
  ASSERT_NO_FATAL_FAILURE(lose(1, 1));
  EXPECT_EQ(pipeline_->status().cards.at(1).resets, (std::array<std::uint64_t, 3>{1, 0, 1}));
}

TEST_F(PipelineResets, AdmitsNoFrameWhileACableIsDown) {
  open(10s);
  world_->take_cables_down(true);
  world_->kill(1);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards.at(1).restarts == 1; }));
  TestFrame frame(1, 1, 100);
  EXPECT_FALSE(pipeline_->submit(frame.frame).ok());
  EXPECT_FALSE(pipeline_->ready());
  world_->take_cables_down(false);
  EXPECT_TRUE(eventually([&] { return works(); }));
}

TEST_F(PipelineResets, CountsARecoveryAndItsTimeOnlyWhenItSucceeds) {
  open(10s);
  EXPECT_GT(pipeline_->status().bring_up_seconds, 0);
  EXPECT_EQ(pipeline_->status().recoveries, 0U);
  world_->refuse_loads(1, 3);
  world_->kill(1);
  ASSERT_TRUE(eventually([&] { return world_->refusals_left(1) < 3; }));
  EXPECT_EQ(pipeline_->status().recoveries, 0U) << "the first attempts failed";
  ASSERT_TRUE(eventually([&] { return pipeline_->ready(); }));
  const auto status = pipeline_->status();
  EXPECT_EQ(status.recoveries, 1U);
  EXPECT_GT(status.recovery_seconds, 0.001) << "the first pause alone takes a millisecond";
}

TEST_F(PipelineResets, CardsThatReportOnlyLostLinksAreNeitherResetNorLoaded) {
  open(10s);
  abi::FaultReport fault;
  fault.code = abi::FaultCode::kLinkDown;
  const std::uint32_t loads = world_->loads(0) + world_->loads(1);
  world_->report_fault(0, fault);
  world_->report_fault(1, fault, 3);  // three of its links are down
  ASSERT_TRUE(eventually([&] { return pipeline_->status().epoch > 1 && pipeline_->ready(); }));
  EXPECT_TRUE(eventually([&] { return works(); }));
  for (const std::uint32_t card : {0U, 1U}) {
    EXPECT_EQ(world_->tried_resets(card), Steps());
    EXPECT_EQ(pipeline_->status().cards.at(card).restarts, 0U);
  }
  EXPECT_EQ(world_->loads(0) + world_->loads(1), loads);
}

}  // namespace
}  // namespace millrace::tests::test_pipeline_resets
