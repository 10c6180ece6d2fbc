// Tests runtime/pipeline over emulated cards that are joined by UDP cables: faulty networks, and cables that are cut.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline_over_udp {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using pipeline::Pipeline;

constexpr std::uint32_t kCards = 3;

plan::Cluster udp_ring() {
  plan::Cluster cluster = emulated_ring(kCards);
  for (plan::Cable& cable : cluster.cables) cable.protocol = plan::CableProtocol::kUdp;
  return cluster;
}

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    const Status selected = emulator::select_backend(udp_ring());
    ASSERT_TRUE(selected.ok()) << selected.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

/// A pipeline of three cards in a chain. Its cables have no faults at first.
class PipelineOverUdp : public testing::Test {
 protected:
  PipelineOverUdp() {
    Plan plan = chain_of_three();
    for (plan::Channel& channel : plan.deployment.channels)
      if (channel.transport == plan::Transport::kAurora) channel.transport = plan::Transport::kUdp;
    deployment_ = load_images(std::move(plan));
    auto opened = pipeline::Dispatcher::open(deployment_, cluster_, {});
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    pipeline_ = std::move(*opened);
  }
  ~PipelineOverUdp() override { impair({}); }

  void impair(const plan::CableFaults& faults) {
    for (const plan::Cable& cable : cluster_.cables) {
      const Status done = emulator::set_faults(cluster_, cable.name, faults);
      EXPECT_TRUE(done.ok()) << done.error().message();
    }
  }
  /// Computes a frame. Returns its error, or nothing if the frame is right.
  Status infer() {
    TestFrame frame(1, 1, 100);
    MILLRACE_TRY(pipeline_->infer(frame.frame));
    EXPECT_TRUE(frame.holds(0, 1, kChainSum));
    return {};
  }
  std::uint64_t repeats() {
    std::uint64_t sum = 0;
    for (const auto& link : pipeline_->status().links) sum += link.repeats;
    return sum;
  }

  const plan::Cluster cluster_ = udp_ring();
  std::shared_ptr<const plan::LoadedDeployment> deployment_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineOverUdp, AFrameCrossesThreeCardsAndTheLinksBetweenThem) {
  for (int i = 0; i < 50; ++i) {
    const Status done = infer();
    ASSERT_TRUE(done.ok()) << done.error().message();
  }
  const auto status = pipeline_->status();
  ASSERT_EQ(status.links.size(), 2U);
  for (const auto& link : status.links) {
    EXPECT_TRUE(link.up) << link.channel;
    EXPECT_TRUE(link.state == "up" || link.state == "degraded") << link.state;
    EXPECT_EQ(link.bytes, 50U * PlanBuilder::kElements * 2) << link.channel;
  }
}

TEST_F(PipelineOverUdp, NoFrameFailsOnAFaultyNetwork) {
  plan::CableFaults faults;
  faults.loss = faults.duplicate = faults.reorder = 0.01;
  faults.bit_errors = 1e-5;
  impair(faults);
  int frames = 0;
  while (frames < 200 || (repeats() == 0 && frames < 5'000)) {
    const Status done = infer();
    ASSERT_TRUE(done.ok()) << done.error().message() << " after " << frames << " frames";
    ++frames;
  }
  EXPECT_GT(repeats(), 0U);
}

TEST_F(PipelineOverUdp, ACutCableFailsFramesWithAnErrorAndThePipelineComesBack) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(eventually([&] { return infer().ok(); }));
    plan::CableFaults cut;
    cut.outage = true;
    impair(cut);
    Status failed;
    ASSERT_TRUE(eventually([&] {
      failed = infer();
      return !failed.ok();
    }));
    EXPECT_EQ(failed.error().code(), ErrorCode::kUnavailable) << failed.error().message();
    EXPECT_FALSE(pipeline_->ready());
    impair({});
    ASSERT_TRUE(eventually([&] { return infer().ok(); }));
  }
}

}  // namespace
}  // namespace millrace::tests::test_pipeline_over_udp
