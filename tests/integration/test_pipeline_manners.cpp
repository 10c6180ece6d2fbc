// Tests the recovery of a pipeline over emulated cards with the option manners=hardware, which makes them
// behave as real cards: cards that are lost, hang, or were left in a bad state.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "runtime/base/log.hpp"
#include "runtime/card/card.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/integration/card_process.hpp"
#include "tests/integration/pipeline_status.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/process.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline_manners {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using card::ResetStep;
using pipeline::Clock;
using pipeline::Pipeline;
using pipeline::PipelineOptions;

constexpr std::uint32_t kCards = 4;
constexpr auto kProgramTime = 20ms, kCableTime = 60ms;

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    setenv("MILLRACE_EMULATION_OPTIONS", "program_time=20 cable_time=60 reset_time=10 call_timeout=2000", 1);
    const Status selected = emulator::select_backend(emulated_ring(kCards), emulator::Fidelity::kFunctional,
                                                     0, emulator::Manners::kHardware);
    ASSERT_TRUE(selected.ok()) << selected.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

class PipelineOnCardsLikeHardware : public testing::Test {
 protected:
  void open(Plan plan, PipelineOptions options = {}) {
    outputs_ = plan.deployment.model.outputs.size();
    options.restart_backoff_maximum = 50ms;
    auto opened = pipeline::Dispatcher::open(load_images(std::move(plan)), cluster_, options);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    pipeline_ = std::move(*opened);
  }
  bool right(const TestFrame& frame) const {
    return outputs_ == 2 ? frame.holds(0, kDiamondTimes, kDiamondSum) && frame.holds(1, 1, 3)
                         : frame.holds(0, 1, kChainSum);
  }
  bool works() {
    TestFrame frame(1, outputs_, 100);
    return pipeline_->infer(frame.frame).ok() && right(frame);
  }
  bool comes_back() {
    return eventually([&] { return works(); });
  }
  std::uint64_t resets(std::uint32_t card, ResetStep step) {
    return pipeline_->status().cards.at(card).resets.at(static_cast<std::size_t>(step));
  }

  plan::Cluster cluster_ = emulated_ring(kCards);
  std::size_t outputs_ = 1;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineOnCardsLikeHardware, AdmitsFramesOnlyWhenItsCablesAreUp) {
  const auto begin = Clock::now();
  open(chain_of_three());
  EXPECT_GE(Clock::now() - begin, kProgramTime + kCableTime);
  TestFrame frame(1, 1, 100);
  ASSERT_TRUE(pipeline_->infer(frame.frame).ok());
  for (const auto& link : pipeline_->status().links) EXPECT_TRUE(link.up) << link.channel;
}

TEST_F(PipelineOnCardsLikeHardware, ALostCardIsResetAndProgrammedAgain) {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    open(chain_of_three());
    ASSERT_TRUE(works());
    const auto programmed = [&] { return pipeline_->status().cards.at(victim).programmed; };
    const std::uint64_t before = programmed();
    ASSERT_TRUE(signal_card("fpga" + std::to_string(victim), SIGKILL));
    // No frame is in flight, so only the run of the card's supervisor (the unit that reports faults) can tell
    // that the card is lost.
    ASSERT_TRUE(eventually([&] { return pipeline_->status().cards.at(victim).restarts == 1; }));
    ASSERT_TRUE(comes_back());
    EXPECT_EQ(resets(victim, ResetStep::kDevice), 1U);
    const auto status = pipeline_->status();
    EXPECT_EQ(programmed(), before + 1);
    for (std::uint32_t card = 0; card < 3; ++card)
      EXPECT_EQ(status.cards.at(card).restarts, card == victim ? 1U : 0U);
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineOnCardsLikeHardware, ACardThatHangsIsReset) {
  PipelineOptions options;
  options.stuck_after = 500ms;
  options.stuck_after_deadline = 500ms;
  open(chain_of_three(), options);
  ASSERT_TRUE(works());
  ASSERT_TRUE(signal_card("fpga1", SIGSTOP));
  TestFrame frame(1, 1, 100);
  ASSERT_TRUE(pipeline_->submit(frame.frame).ok());
  EXPECT_EQ(frame.code(), ErrorCode::kUnavailable);
  ASSERT_TRUE(comes_back());
  EXPECT_EQ(resets(1, ResetStep::kDevice), 1U);
}

TEST_F(PipelineOnCardsLikeHardware, StartsOnACardThatWasLeftInABadState) {
  {
    auto opened = card::open({0, ""});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    Plan plan = chain_of_three();
    const auto deployment = load_images(std::move(plan));
    ASSERT_TRUE((*opened)->load(deployment->images.begin()->second).ok());
    ASSERT_TRUE(signal_card("fpga0", SIGKILL));
    ASSERT_TRUE(eventually([&] { return !(*opened)->read(plan::abi::kRegEpoch).ok(); }));
  }
  open(chain_of_three());
  EXPECT_TRUE(works());
}

TEST_F(PipelineOnCardsLikeHardware, LostCardsUnderLoadCauseNoWrongAnswerAndNoLeak) {
  open(diamond());
  ASSERT_TRUE(works());
  std::atomic<bool> go{true};
  std::atomic<int> wrong{0}, good{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; go.load(); ++i) {
        TestFrame frame(1, 2, static_cast<std::int16_t>(t * 1000 + i % 1000));
        if (!pipeline_->infer(frame.frame).ok()) {
          failed.fetch_add(1);
          std::this_thread::sleep_for(1ms);  // refused clients wait a little before they try again
        } else {
          (right(frame) ? good : wrong).fetch_add(1);
        }
      }
    });
  }
  std::size_t descriptors = 0;
  Clock::duration longest{0};
  const int losses = repetitions(10);
  for (int i = 0; i < losses; ++i) {
    const int seen = good.load();
    ASSERT_TRUE(eventually([&] { return good.load() > seen; })) << "before kill " << i;
    ASSERT_TRUE(eventually([&] { return signal_card("fpga" + std::to_string(i % 3), SIGKILL); }));
    const auto killed = Clock::now();
    const auto lost = [&] { return pipeline_->status().cards.at(static_cast<std::size_t>(i % 3)).restarts; };
    EXPECT_TRUE(
        eventually([&] { return lost() == static_cast<std::uint64_t>(i / 3 + 1) && pipeline_->ready(); }));
    longest = std::max(longest, Clock::now() - killed);
    if (i == 1) descriptors = open_descriptors(getpid());
  }
  EXPECT_TRUE(comes_back());
  go.store(false);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_TRUE(eventually([&] { return open_descriptors(getpid()) <= descriptors; }))
      << open_descriptors(getpid()) << " descriptors, " << descriptors << " after the second kill";
  std::uint64_t device_resets = 0;
  for (std::uint32_t card = 0; card < 3; ++card) device_resets += resets(card, ResetStep::kDevice);
  EXPECT_EQ(device_resets, static_cast<std::uint64_t>(losses));
  std::cout << good.load() << " right, " << failed.load()
            << " refused or failed; longest time to serve again "
            << std::chrono::duration_cast<std::chrono::milliseconds>(longest).count() << " ms\n";
}

TEST_F(PipelineOnCardsLikeHardware, ReloadingACardDisturbsNoFrameOfItsNeighbours) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  std::atomic<int> good{0}, bad{0};
  std::jthread client([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) ++(works() ? good : bad);
  });
  for (int reload = 0; reload < repetitions(10); ++reload) {
    const int seen = good.load();
    const int constant = 1 + reload % 2;
    PlanBuilder other;
    other.input("x").card("other" + std::to_string(constant), {"x"}, constant);
    other.output("y", "other" + std::to_string(constant));
    auto neighbour = Pipeline::open(load_images(other.build()), cluster_, {});
    ASSERT_TRUE(neighbour.ok()) << neighbour.error().message();
    EXPECT_EQ((*neighbour)->status().cards.at(0).programmed, 1U);
    TestFrame frame(1, 1, 100);
    ASSERT_TRUE((*neighbour)->infer(frame.frame).ok());
    EXPECT_TRUE(frame.holds(0, 1, constant));
    ASSERT_TRUE(eventually([&] { return good.load() > seen; }));
  }
  client.request_stop();
  client.join();
  EXPECT_EQ(bad.load(), 0);
}

}  // namespace
}  // namespace millrace::tests::test_pipeline_manners
