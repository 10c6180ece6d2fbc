// Tests the loss of cards: frames in flight fail, the pipeline recovers by itself, and no frame completes twice or with
// wrong bytes.
//
// This source has more than 500 lines because all tests share the same cards that can be lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/base/log.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline_faults {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using runtime::pipeline::CardState;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineOptions;

constexpr std::uint32_t kAlways = 1000000;  // the number of loads that fail, larger than in any test

PipelineOptions quick() {
  PipelineOptions options;
  options.slots = 4;
  options.restart_backoff_initial = 1ms;
  options.restart_backoff_maximum = 8ms;
  return options;
}

class PipelineFaults : public testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::kOff, false); }

  void open(Plan plan, PipelineOptions options = quick()) {
    pipeline_.reset();  // the pipeline uses world_, so it must end first
    world_ = std::make_unique<FakeWorld>(std::move(plan), chain_cluster(3));
    auto opened = open_on(*world_, options);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    pipeline_ = std::move(*opened);
  }
  bool works() {
    TestFrame frame(1, outputs(), 100);
    return pipeline_->infer(frame.frame).ok() && right(frame);
  }
  std::size_t outputs() const { return world_->plan().deployment.model.outputs.size(); }
  bool right(const TestFrame& frame) const {
    return outputs() == 2 ? frame.holds(0, kDiamondTimes, kDiamondSum) && frame.holds(1, 1, 3)
                          : frame.holds(0, 1, kChainSum);
  }
  bool comes_back() {
    return eventually([&] { return works(); });
  }
  Status submit_due_in(TestFrame& frame, std::chrono::milliseconds within) {
    return submit_in_time(frame.frame, within,
                          [&](runtime::pipeline::Frame& one) { return pipeline_->submit(one); });
  }

  std::unique_ptr<FakeWorld> world_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineFaults, ParametersAreLoadedBeforeTheFirstFrameAndAfterARecovery) {
  Plan plan = chain_of_three();
  for (auto& [name, record] : plan.records)
    for (auto& partition : record.partitions)
      partition.parameters_unit = "millrace_parameters:{" + partition.name + "}";
  open(std::move(plan));
  EXPECT_TRUE(works());
  world_->kill(1);
  EXPECT_TRUE(comes_back());
  EXPECT_EQ(world_->parameter_loads(0), 1U);
  EXPECT_EQ(world_->parameter_loads(1), 2U);
  const auto status = pipeline_->status();
  EXPECT_EQ(status.cards[1].parameters, 2U);
  EXPECT_EQ(status.cards[2].parameters, 1U);
}

/// Three cards in a chain, joined by UDP cables. The registers of fake cards read 0, so their links over UDP never come
/// up.
std::unique_ptr<FakeWorld> world_over_udp() {
  Plan plan = chain_of_three();
  for (plan::Channel& channel : plan.deployment.channels)
    if (channel.transport == plan::Transport::kAurora) channel.transport = plan::Transport::kUdp;
  plan::Cluster cluster = chain_cluster(3);
  for (plan::Cable& cable : cluster.cables) cable.protocol = plan::CableProtocol::kUdp;
  return std::make_unique<FakeWorld>(std::move(plan), std::move(cluster));
}

TEST_F(PipelineFaults, ErrorNamesAUdpLinkThatDoesNotComeUp) {
  world_ = world_over_udp();
  const auto opened = open_on(*world_, quick());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kEnvironment);
  for (const char* const part : {"fpga0", "fpga1", "does not come up", "check the cable"})
    EXPECT_NE(opened.error().message().find(part), std::string::npos) << opened.error().message();
}

// A link cannot come up if one of its cards is lost. Then the error must name the card, not the cable.
TEST_F(PipelineFaults, ErrorNamesACardThatIsLostWhileItsLinksComeUp) {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    world_ = world_over_udp();
    std::thread killer([&] {
      // To open the pipeline takes fewer than 200 card operations. After them, the pipeline only reads
      // registers until its links are up.
      EXPECT_TRUE(eventually([&] { return world_->operations() > 200; }));
      world_->kill(victim);
    });
    const auto opened = open_on(*world_, quick());
    killer.join();
    ASSERT_FALSE(opened.ok());
    const std::string message = opened.error().message();
    EXPECT_NE(message.find("fpga" + std::to_string(victim)), std::string::npos) << message;
    EXPECT_EQ(message.find("cable"), std::string::npos) << message;
  }
}

// The pause between attempts to load a card must not delay the recovery from a lost link: the card works.
TEST_F(PipelineFaults, RecoveryFromALostLinkDoesNotWaitForThePauseBetweenCardReloads) {
  PipelineOptions slow = quick();
  slow.restart_backoff_initial = slow.restart_backoff_maximum = 40s;
  open(chain_of_three(), slow);
  ASSERT_TRUE(works());
  const auto begin = std::chrono::steady_clock::now();
  for (int cut = 0; cut < 3; ++cut) {
    const std::uint32_t epoch = pipeline_->status().epoch;
    runtime::plan::abi::FaultReport report;
    report.code = runtime::plan::abi::FaultCode::kLinkDown;
    world_->report_fault(0, report);
    ASSERT_TRUE(eventually([&] { return pipeline_->status().epoch > epoch; }));
    ASSERT_TRUE(comes_back());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST_F(PipelineFaults, ADeadCardFailsFramesInFlightAndIsReloaded) {
  for (std::uint32_t victim = 0; victim < 3; ++victim) {
    open(chain_of_three());
    ASSERT_TRUE(works());
    world_->stall(0, true);
    std::vector<std::unique_ptr<TestFrame>> frames;
    for (int i = 0; i < 6; ++i) {
      frames.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(i)));
      ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
    }
    const std::uint32_t epoch = pipeline_->status().epoch;
    world_->kill(victim);
    for (auto& frame : frames) {
      EXPECT_EQ(frame->code(), ErrorCode::kUnavailable);
      EXPECT_EQ(frame->completions(), 1);
    }
    world_->stall(0, false);
    ASSERT_TRUE(comes_back());
    const auto status = pipeline_->status();
    EXPECT_GT(status.epoch, epoch);
    for (std::uint32_t card = 0; card < 3; ++card) {
      EXPECT_EQ(status.cards[card].restarts, card == victim ? 1U : 0U);
      EXPECT_EQ(status.cards[card].programmed, card == victim ? 2U : 1U);
      EXPECT_EQ(status.cards[card].state, CardState::kUp);
    }
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works());
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineFaults, SubmitErrorNamesTheLostCard) {
  open(chain_of_three());
  world_->refuse_loads(1, kAlways);
  world_->kill(1);
  ASSERT_TRUE(eventually([&] { return !pipeline_->status().ready; }));
  TestFrame frame(1, 1, 1);
  const Status refused = pipeline_->submit(frame.frame);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message().find("endpoint 'on_b' (card 'fpga1')"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(pipeline_->status().cards[1].state, CardState::kLost);
  world_->refuse_loads(1, 0);
  EXPECT_TRUE(comes_back());
  EXPECT_EQ(pipeline_->status().cards[1].restarts, 1U);
}

TEST_F(PipelineFaults, StatusNamesAHungCardWithoutBlocking) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  world_->hang_registers(1, true);  // the registers hang until the end of the test
  // On a busy machine, the first status request may not notice within its time limit that the card hangs.
  ASSERT_TRUE(eventually([&] { return !pipeline_->status().cards[1].answers; }));
  for (int i = 0; i < 3; ++i) {
    const auto status = pipeline_->status();
    ASSERT_EQ(status.cards.size(), 3U);
    EXPECT_TRUE(status.cards[0].answers);
    EXPECT_FALSE(status.cards[1].answers);
    EXPECT_EQ(status.cards[1].card, "fpga1");
    EXPECT_EQ(status.cards[1].programmed, 1U);
    EXPECT_TRUE(status.ready) << "frames still pass";
    EXPECT_EQ(status.links.size(), 2U);
    EXPECT_TRUE(works());
  }
  EXPECT_TRUE(pipeline_->ready());
  EXPECT_EQ(pipeline_->status().completed, 4U);
  world_->hang_registers(1, false);
  EXPECT_TRUE(eventually([&] { return pipeline_->status().cards[1].answers; }));
}

TEST_F(PipelineFaults, RetryAfterIsTheTimeUntilTheNextReload) {
  PipelineOptions options = quick();
  options.restart_backoff_initial = options.restart_backoff_maximum = 3s;
  open(chain_of_three(), options);
  ASSERT_TRUE(works());
  EXPECT_EQ(pipeline_->retry_after(), 0ms) << "no frame waits";
  world_->refuse_loads(1, kAlways);
  world_->kill(1);
  ASSERT_TRUE(eventually([&] { return pipeline_->retry_after() > 1s; }));
  EXPECT_LE(pipeline_->retry_after(), 3s);
}

// The waiting times before the loads are 20, 40, 80 and 80 ms, even if the card is lost soon after the start.
TEST_F(PipelineFaults, ReloadsBackOffExponentiallyUpToTheMaximum) {
  PipelineOptions options = quick();
  options.restart_backoff_initial = 20ms;
  options.restart_backoff_maximum = 80ms;
  open(chain_of_three(), options);
  world_->refuse_loads(1, 3);
  const auto killed = pipeline::Clock::now();
  world_->kill(1);
  ASSERT_TRUE(comes_back());
  EXPECT_GE(pipeline::Clock::now() - killed, 220ms);
  EXPECT_EQ(world_->loads(1), 2U);
}

TEST_F(PipelineFaults, ACardThatStaysDownIsReloadedAtTheMaximumBackoff) {
  PipelineOptions options = quick();
  options.restart_backoff_initial = 50ms;
  options.restart_backoff_maximum = 100ms;
  open(chain_of_three(), options);
  world_->refuse_loads(1, kAlways);
  log::configure(log::Level::kInfo, false);
  testing::internal::CaptureStderr();
  const auto killed = pipeline::Clock::now();
  world_->kill(1);
  std::uint32_t tries = 0;
  EXPECT_TRUE(eventually([&] { return (tries = kAlways - world_->refusals_left(1)) >= 5; }));
  const auto passed = pipeline::Clock::now() - killed;
  pipeline_->stop(0ms);
  log::configure(log::Level::kOff, false);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_GE(passed, 50ms + (tries - 1) * 100ms) << tries << " tries";
  // One log line reports the loss. Another line reports the failed load and the time until the next try.
  EXPECT_LE(std::count(logged.begin(), logged.end(), '\n'), 3) << logged;
  EXPECT_NE(logged.find("next attempt in 100 ms"), std::string::npos) << logged;
}

TEST_F(PipelineFaults, EveryLogLineOfALossAndItsRecoveryNamesTheModel) {
  open(chain_of_three(), quick());
  world_->refuse_loads(1, 1);
  log::configure(log::Level::kInfo, false);
  testing::internal::CaptureStderr();
  world_->kill(1);
  EXPECT_TRUE(comes_back());
  pipeline_->stop(0ms);
  log::configure(log::Level::kOff, false);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("running again"), std::string::npos) << logged;
  std::istringstream lines(logged);
  for (std::string line; std::getline(lines, line);)
    EXPECT_NE(line.find(" pipeline: model '" + pipeline_->deployment().model.name + "': "), std::string::npos)
        << line;
}

// The pipeline must detect the hang with and without deadlines, although the card still answers register accesses.
TEST_F(PipelineFaults, ACardThatHangsIsDetectedAndReloaded) {
  for (const bool with_deadline : {true, false}) {
    for (std::uint32_t victim = 0; victim < 3; ++victim) {
      SCOPED_TRACE("card " + std::to_string(victim) + (with_deadline ? ", deadline" : ""));
      PipelineOptions options = quick();
      options.stuck_after = with_deadline ? 1500ms : 600ms;
      options.stuck_after_deadline = with_deadline ? 600ms : 60s;
      open(chain_of_three(), options);
      ASSERT_TRUE(works());
      world_->hang(victim);
      TestFrame frame(1, 1, 1);
      ASSERT_TRUE((with_deadline ? submit_due_in(frame, 250ms) : pipeline_->submit(frame.frame)).ok());
      EXPECT_EQ(frame.code(), with_deadline ? ErrorCode::kDeadlineExceeded : ErrorCode::kUnavailable);
      ASSERT_TRUE(comes_back());
      EXPECT_EQ(frame.completions(), 1);
      // If the last card hangs, its unfinished egress run identifies the card. If another card hangs, the pipeline
      // cannot tell which, so it reloads all cards.
      for (std::uint32_t card = 0; card < 3; ++card)
        EXPECT_EQ(world_->loads(card), card == victim || victim != 2 ? 2U : 1U) << card;
      pipeline_->stop(1s);
    }
  }
}

TEST_F(PipelineFaults, BusyPipelineIsNotReportedAsHung) {
  PipelineOptions options = quick();
  options.stuck_after = options.stuck_after_deadline = 500ms;
  // If the machine itself stalls, a frame looks stuck although no card hangs. The test repeats such an attempt.
  for (int attempt = 0; attempt < 10; ++attempt) {
    open(chain_of_three(), options);
    const std::uint32_t epoch = pipeline_->status().epoch;
    bool all = true;
    auto last = pipeline::Clock::now();
    auto longest = last - last;
    const auto until = last + 1200ms;
    while (last < until) {
      all = works() && all;
      std::this_thread::sleep_for(1ms);  // leaves the pipeline idle between two frames
      const auto now = pipeline::Clock::now();
      longest = std::max(longest, now - last);
      last = now;
    }
    if (longest > options.stuck_after / 2) continue;
    EXPECT_TRUE(all);
    EXPECT_EQ(pipeline_->status().epoch, epoch);
    return;
  }
  FAIL() << "no frame comes through in time";
}

TEST_F(PipelineFaults, ASlotIsReusedOnlyAfterItsInputTransfersHaveEnded) {
  PipelineOptions options = quick();
  options.slots = 1;
  open(chain_of_three(), options);
  world_->hold_ingress(0, true);
  ASSERT_TRUE(works());
  TestFrame frame(1, 1, 5);
  ASSERT_TRUE(pipeline_->submit(frame.frame).ok());
  std::this_thread::sleep_for(400ms);  // meanwhile a faulty pipeline would start the frame
  EXPECT_EQ(frame.completions(), 0);
  EXPECT_EQ(pipeline_->status().queued, 1U);
  world_->hold_ingress(0, false);
  EXPECT_TRUE(frame.ok());
  EXPECT_TRUE(right(frame));
  EXPECT_EQ(world_->loads(0), 1U);
}

TEST_F(PipelineFaults, RecoversFromTheLossOfAllCardsAtOnce) {
  open(diamond());
  ASSERT_TRUE(works());
  for (std::uint32_t card = 0; card < 3; ++card) world_->kill(card);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards[2].restarts == 1; }));
  EXPECT_TRUE(comes_back());
}

TEST_F(PipelineFaults, ADroppedFrameStartsANewEpochWithoutReloading) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  const std::uint32_t epoch = pipeline_->status().epoch;
  world_->drop_next(2);
  TestFrame frame(1, 1, 1);
  ASSERT_TRUE(pipeline_->submit(frame.frame).ok());
  EXPECT_EQ(frame.code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(comes_back());
  EXPECT_GT(pipeline_->status().epoch, epoch);
  for (std::uint32_t card = 0; card < 3; ++card) EXPECT_EQ(world_->loads(card), 1U);
}

TEST_F(PipelineFaults, AResultWithAWrongTrailerIsNeverDelivered) {
  using Trailer = plan::abi::StatusTrailer;
  open(chain_of_three());
  ASSERT_TRUE(works());
  const std::vector<std::pair<const char*, FakeWorld::Change>> wrong = {
      {"magic", [](Trailer& t) { t.magic ^= 1U; }},
      {"epoch", [](Trailer& t) { --t.epoch; }},
      {"sequence", [](Trailer& t) { --t.sequence; }},
      {"status", [](Trailer& t) { t.status = plan::abi::FrameStatus::kDropped; }},
      {"failed memory", [](Trailer& t) { t.status = plan::abi::FrameStatus::kFailed; }},
      {"payload_bytes", [](Trailer& t) { --t.payload_bytes; }}};
  for (const auto& [field, change] : wrong) {
    SCOPED_TRACE(field);
    const std::uint32_t epoch = pipeline_->status().epoch;
    world_->change_next_trailer(2, change);
    TestFrame frame(1, 1, 1);
    ASSERT_TRUE(pipeline_->submit(frame.frame).ok());
    EXPECT_EQ(frame.code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(comes_back());
    EXPECT_GT(pipeline_->status().epoch, epoch);
    EXPECT_EQ(frame.completions(), 1);
  }
}

TEST_F(PipelineFaults, LinkFaultIsCountedOnlyAtItsOwnLink) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  for (const auto& link : pipeline_->status().links) EXPECT_EQ(link.errors, 0U);
  plan::abi::FaultReport fault;
  fault.code = plan::abi::FaultCode::kProtocol;
  fault.link_index = 0;
  world_->report_fault(0, fault);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards[0].restarts == 1; }));
  fault.code = plan::abi::FaultCode::kInternal;
  world_->report_fault(1, fault);
  ASSERT_TRUE(eventually([&] { return pipeline_->status().cards[1].restarts == 1; }));
  EXPECT_TRUE(comes_back());
  // Ask several times, because a status request that does not finish in time returns older counters.
  ASSERT_TRUE(eventually([&] {
    const auto links = pipeline_->status().links;
    return std::any_of(links.begin(), links.end(), [](const auto& link) { return link.errors > 0; });
  }));
  for (const auto& link : pipeline_->status().links)
    EXPECT_EQ(link.errors, link.producer_card == "fpga0" ? 1U : 0U)
        << link.producer_card << ": card 0 has one link";
}

TEST_F(PipelineFaults, StopReturnsWhileACardIsDown) {
  open(chain_of_three());
  world_->refuse_loads(2, kAlways);
  world_->kill(2);
  ASSERT_TRUE(eventually([&] { return !pipeline_->status().ready; }));
  pipeline_->stop(10s);
  EXPECT_FALSE(pipeline_->status().ready);
}

TEST_F(PipelineFaults, AnExpiredFrameDoesNotCompleteAgainWhenACardDies) {
  open(chain_of_three());
  world_->stall(0, true);
  TestFrame frame(1, 1, 1);
  ASSERT_TRUE(submit_due_in(frame, 250ms).ok());
  EXPECT_EQ(frame.code(), ErrorCode::kDeadlineExceeded);
  world_->kill(1);
  world_->stall(0, false);
  EXPECT_TRUE(comes_back());
  EXPECT_EQ(frame.completions(), 1);
}

// Runs frames and kills a card at operation number `operation`, which may be a submission, a register access during
// recovery, or the load of another card.
void survive_death_at(std::uint64_t operation, Plan plan) {
  FakeWorld world(std::move(plan), chain_cluster(3));
  auto opened = open_on(world, quick());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  Pipeline& pipeline = **opened;
  const std::size_t outputs = world.plan().deployment.model.outputs.size();
  const auto right = [&](const TestFrame& frame) {
    return outputs == 2 ? frame.holds(0, kDiamondTimes, kDiamondSum) : frame.holds(0, 1, kChainSum);
  };
  world.die_at(operation);
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 12; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, outputs, static_cast<std::int16_t>(i)));
    if (!pipeline.submit(frames.back()->frame).ok()) frames.pop_back();
    if (i % 4 == 3 && !frames.empty()) frames.back()->wait();
  }
  for (auto& frame : frames) {
    ASSERT_TRUE(frame->wait());
    EXPECT_EQ(frame->completions(), 1);
    if (frame->frame.status.ok()) {
      EXPECT_TRUE(right(*frame));
    } else {
      EXPECT_EQ(frame->frame.status.error().code(), ErrorCode::kUnavailable);
    }
  }
  ASSERT_TRUE(eventually([&] {
    TestFrame frame(1, outputs, 50);
    return pipeline.infer(frame.frame).ok() && right(frame);
  }));
}

TEST_F(PipelineFaults, SurvivesACardsDeathAtEveryOperationOfAChain) {
  for (std::uint64_t n = 1; n <= 70; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    survive_death_at(n, chain_of_three());
    if (HasFailure()) return;
  }
}

TEST_F(PipelineFaults, SurvivesACardsDeathAtEveryOperationOfADiamondShapedPipeline) {
  for (std::uint64_t n = 1; n <= 120; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    survive_death_at(n, diamond());
    if (HasFailure()) return;
  }
}

TEST_F(PipelineFaults, SurvivesACardsDeathAtEveryOperationOfARecovery) {
  for (std::uint64_t n = 1; n <= 60; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    open(diamond());
    ASSERT_TRUE(works());
    world_->kill(1);
    world_->die_at(n);
    ASSERT_TRUE(comes_back());
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineFaults, OpenFailsCleanlyIfACardDiesAtAnyOperation) {
  std::uint64_t operations = 0;
  {
    FakeWorld world(diamond(), chain_cluster(3));
    ASSERT_TRUE(open_on(world, quick()).ok());
    operations = world.operations();
  }
  for (std::uint64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    FakeWorld world(diamond(), chain_cluster(3));
    world.die_at(n);
    // If open() succeeds, the card died after the last check of open(), and the pipeline recovers from the loss.
    if (auto opened = open_on(world, quick()); opened.ok()) continue;
    ASSERT_TRUE(open_on(world, quick()).ok());
  }
}

TEST_F(PipelineFaults, CardsThatDieRepeatedlyUnderLoadLoseNoFrame) {
  open(diamond());
  std::atomic<bool> go{true};
  std::atomic<int> wrong{0}, good{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (go.load()) {
        TestFrame frame(1, 2, 7);
        if (!pipeline_->submit(frame.frame).ok()) {
          std::this_thread::yield();
          continue;
        }
        if (!frame.wait() || frame.completions() != 1) wrong.fetch_add(1);
        if (!frame.frame.status.ok()) {
          failed.fetch_add(1);
        } else {
          (right(frame) ? good : wrong).fetch_add(1);
        }
      }
    });
  }
  for (std::uint32_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(eventually([&] { return pipeline_->ready(); }));
    world_->kill(i % 3);
  }
  EXPECT_TRUE(comes_back());
  EXPECT_TRUE(eventually([&] { return good.load() > 0; }));
  go.store(false);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace millrace::tests::test_pipeline_faults
