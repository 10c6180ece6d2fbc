// Tests runtime/pipeline over emulated cards, through the real XRT library: graphs with forks and joins, card
// processes that die or hang, and resource leaks.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "runtime/base/log.hpp"
#include "runtime/card/card.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/integration/card_process.hpp"
#include "tests/integration/pipeline_status.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline_on_cards {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using pipeline::Clock;
using pipeline::Pipeline;
using pipeline::PipelineOptions;

constexpr std::uint32_t kCards = 4;
// A deadline that frames must miss. It is long enough for the test to submit all these frames before the deadline
// passes.
constexpr auto kDeadline = 1s;

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    const Status selected = emulator::select_backend(emulated_ring(kCards));
    ASSERT_TRUE(selected.ok()) << selected.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

/// Returns the error code of a failed result, or nothing if the result is a success.
template <class T>
std::optional<ErrorCode> code_of(const Result<T>& result) {
  return result.ok() ? std::nullopt : std::optional(result.error().code());
}

class PipelineOnCards : public testing::Test {
 protected:
  void open(Plan plan, PipelineOptions options = {}) {
    deployment_ = load_images(std::move(plan));
    reopen(options);
  }
  void reopen(PipelineOptions options = {}) {
    auto opened = pipeline::Dispatcher::open(deployment_, cluster_, options);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    pipeline_ = std::move(*opened);
  }
  bool works() {
    TestFrame frame(1, outputs(), 100);
    return pipeline_->infer(frame.frame).ok() && right(frame);
  }
  bool comes_back() {
    return eventually([&] { return works(); });
  }
  std::size_t outputs() const { return deployment_->plan.model.outputs.size(); }
  bool right(const TestFrame& frame) const {
    return outputs() == 2 ? frame.holds(0, kDiamondTimes, kDiamondSum) && frame.holds(1, 1, 3)
                          : frame.holds(0, 1, kChainSum);
  }

  plan::Cluster cluster_ = emulated_ring(kCards);
  std::shared_ptr<const plan::LoadedDeployment> deployment_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineOnCards, AFrameCrossesThreeCardsAndTheLinksBetweenThem) {
  open(chain_of_three());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(works()) << i;
  constexpr std::uint64_t kLinkBytes = 50U * PlanBuilder::kElements * 2;
  const auto status = status_when(
      *pipeline_, [](const auto& card) { return card.frames == 50; },
      [](const auto& link) { return link.bytes == kLinkBytes; });
  ASSERT_EQ(status.cards.size(), 3U);
  for (const auto& card : status.cards) EXPECT_EQ(card.frames, 50U) << card.endpoint;
  ASSERT_EQ(status.links.size(), 2U);
  for (const auto& link : status.links) {
    EXPECT_EQ(link.bytes, kLinkBytes) << link.channel;
    EXPECT_TRUE(link.up) << link.channel;
  }
}

TEST_F(PipelineOnCards, FrameReportsItsTimesInQueueTransferAndCompute) {
  open(chain_of_three());
  TestFrame frame(1, 1, 3);
  const auto begin = Clock::now();
  ASSERT_TRUE(pipeline_->infer(frame.frame).ok());
  const auto whole = Clock::now() - begin;
  const pipeline::FrameTimes& times = frame.frame.times;
  EXPECT_GT(times.compute.count(), 0);
  EXPECT_GT(times.input.count(), 0);
  EXPECT_GE(times.queue.count(), 0);
  EXPECT_LE(times.queue + times.input + times.compute + times.output, whole);
}

TEST_F(PipelineOnCards, OpenRefusesOptionsOutOfRangeByName) {
  deployment_ = load_images(chain_of_three());
  const auto refused = [&](PipelineOptions options, const std::string& name) {
    const auto opened = pipeline::Dispatcher::open(deployment_, cluster_, options);
    return !opened.ok() && opened.error().code() == ErrorCode::kInvalidInput &&
           opened.error().message().find(name) != std::string::npos;
  };
  PipelineOptions options;
  options.slots = 0;
  EXPECT_TRUE(refused(options, "slots"));
  options = {};
  options.queue_capacity = 0xffffffffU;
  EXPECT_TRUE(refused(options, "queue_capacity"));
  options = {};
  options.stuck_after = 0ms;
  EXPECT_TRUE(refused(options, "stuck_after"));
  options = {};
  options.stuck_after_deadline = 48h;
  EXPECT_TRUE(refused(options, "stuck_after_deadline"));
  options = {};
  options.restart_backoff_initial = 0ms;
  EXPECT_TRUE(refused(options, "restart_backoff_initial"));
  options.restart_backoff_initial = 10s;
  EXPECT_TRUE(refused(options, "restart_backoff_maximum"));
}

TEST_F(PipelineOnCards, ComputesBranchesThatForkAndJoinAcrossCardsAndHost) {
  open(diamond());
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 64; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, 2, static_cast<std::int16_t>(i * 3)));
    ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
  }
  for (auto& frame : frames) {
    ASSERT_TRUE(frame->ok());
    EXPECT_TRUE(right(*frame));
  }
}

TEST_F(PipelineOnCards, EachOfManyThreadsReceivesItsOwnAnswers) {
  for (const bool graph : {false, true}) {
    open(graph ? diamond() : chain_of_three());
    std::atomic<int> wrong{0}, good{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 75; ++i) {
          TestFrame frame(1, outputs(), static_cast<std::int16_t>(t * 400 + i));
          (pipeline_->infer(frame.frame).ok() && right(frame) ? good : wrong).fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    EXPECT_EQ(good.load(), 600);
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineOnCards, AKilledCardFailsItsFramesInFlightAndIsReloaded) {
  // The test stops the card before it submits the frames, so frames are in flight when the card is killed.
  for (const char* victim : {"fpga0", "fpga1", "fpga2"}) {
    PipelineOptions options;
    options.queue_capacity = 256;
    open(chain_of_three(), options);
    ASSERT_TRUE(works());
    const pid_t process = card_process(victim);
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGSTOP), 0);  // so that frames stay in flight on the card
    std::vector<std::unique_ptr<TestFrame>> frames;
    for (int i = 0; i < 12; ++i) {
      frames.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(i)));
      ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
    }
    const auto killed = Clock::now();
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    int unavailable = 0;
    for (auto& frame : frames) {
      ASSERT_TRUE(frame->wait());
      if (!frame->frame.status.ok()) {
        EXPECT_EQ(frame->frame.status.error().code(), ErrorCode::kUnavailable);
        ++unavailable;
      }
    }
    const auto noticed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - killed);
    RecordProperty(std::string("microseconds_to_unavailable_") + victim, static_cast<int>(noticed.count()));
    std::cout << victim << " killed: " << unavailable << " frames in flight told after " << noticed.count()
              << " us\n";
    EXPECT_GT(unavailable, 0);
    EXPECT_LT(noticed, 4s) << "the driver gives up after 5 s: nobody noticed before";
    ASSERT_TRUE(comes_back());
    std::cout << victim << " back after "
              << std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - killed).count()
              << " us\n";
    const auto status = pipeline_->status();
    for (const auto& card : status.cards) EXPECT_EQ(card.restarts, card.card == victim ? 1U : 0U);
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works());
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineOnCards, SubmitReturnsUnavailableWhileACardIsDown) {
  PipelineOptions options;
  options.restart_backoff_initial = 2s;  // long enough for the test to submit while the card is down
  open(chain_of_three(), options);
  ASSERT_TRUE(works());
  ASSERT_TRUE(signal_card("fpga2", SIGKILL));
  ASSERT_TRUE(eventually([&] { return !pipeline_->status().ready; }));
  TestFrame frame(1, 1, 1);
  const Status refused = pipeline_->submit(frame.frame);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message().find("fpga2"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(comes_back());
}

TEST_F(PipelineOnCards, AnIdleCardThatDiesIsReloaded) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  ASSERT_TRUE(signal_card("fpga1", SIGKILL));
  EXPECT_TRUE(
      eventually([&] { return pipeline_->status().ready && pipeline_->status().cards[1].restarts == 1; }));
  EXPECT_TRUE(comes_back());
}

TEST_F(PipelineOnCards, CardsKilledRepeatedlyUnderLoadCauseNoWrongAnswer) {
  PipelineOptions options;
  options.restart_backoff_maximum = 20ms;
  open(diamond(), options);
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
  EXPECT_TRUE(eventually([&] { return good.load() > 0; }));
  for (int i = 0; i < 12; ++i) {
    const int seen = good.load();
    EXPECT_TRUE(eventually([&] { return good.load() > seen; }));
    static_cast<void>(signal_card("fpga" + std::to_string(i % 3), SIGKILL));  // it may be dead already
  }
  EXPECT_TRUE(comes_back());
  const int before = good.load();
  EXPECT_TRUE(eventually([&] { return good.load() > before; }));
  go.store(false);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  std::cout << good.load() << " right, " << failed.load() << " refused or failed\n";
}

// All three cards hang forever. The pipeline gives them up in parallel, which takes 5 s. Giving them up one
// after the other would take 15 s.
TEST_F(PipelineOnCards, DeadlinesAndTheTimeLimitOfStopHoldWhileCardsHang) {
  for (const auto bound : {0ms, 200ms}) {
    PipelineOptions options;
    options.slots = 2;
    open(chain_of_three(), options);
    ASSERT_TRUE(works());
    std::vector<std::unique_ptr<TestFrame>> frames;
    for (const char* card : {"fpga0", "fpga1", "fpga2"}) ASSERT_TRUE(signal_card(card, SIGSTOP));
    for (int i = 0; i < 4; ++i) {
      frames.push_back(std::make_unique<TestFrame>(1, 1, 1));
      if (i < 3) frames.back()->frame.deadline = Clock::now() + kDeadline;
      ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
    }
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(frames[static_cast<std::size_t>(i)]->code(), ErrorCode::kDeadlineExceeded);
    const auto begin = Clock::now();
    pipeline_->stop(bound);
    EXPECT_LT(Clock::now() - begin, 14s);
    EXPECT_EQ(frames[3]->code(), ErrorCode::kUnavailable);
    for (auto& frame : frames) EXPECT_EQ(frame->completions(), 1);
  }
}

TEST_F(PipelineOnCards, StopReturnsInBoundedTimeWhileIdleCardsHang) {
  open(chain_of_three());
  ASSERT_TRUE(works());
  for (const char* card : {"fpga0", "fpga1", "fpga2"}) ASSERT_TRUE(signal_card(card, SIGSTOP));
  const auto begin = Clock::now();
  pipeline_->stop(0ms);
  EXPECT_LT(Clock::now() - begin, 14s);
}

TEST_F(PipelineOnCards, CardThatHangsOnlyBrieflyIsNotReloaded) {
  PipelineOptions options;
  options.slots = 2;
  options.stuck_after = options.stuck_after_deadline = 60s;
  open(chain_of_three(), options);
  ASSERT_TRUE(works());
  const pid_t process = card_process("fpga1");
  ASSERT_GT(process, 0);
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 4; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, 1, 1));
    frames.back()->frame.deadline = Clock::now() + kDeadline;
    ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
  }
  for (auto& frame : frames) EXPECT_EQ(frame->code(), ErrorCode::kDeadlineExceeded);
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  EXPECT_TRUE(comes_back());
  EXPECT_EQ(pipeline_->status().cards[1].restarts, 0U);
}

// Only frames reveal that the card hangs. The test does not ask for the status, because a status request reads a
// register of the card and would also notice the hang.
TEST_F(PipelineOnCards, AHungCardIsReloadedWhetherOrNotFramesHaveDeadlines) {
  for (const bool with_deadline : {true, false}) {
    PipelineOptions options;
    options.slots = 2;
    options.stuck_after_deadline = 300ms;
    options.stuck_after = with_deadline ? 60s : 3s;
    open(chain_of_three(), options);
    ASSERT_TRUE(works());
    const pid_t process = card_process("fpga1");
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGSTOP), 0);
    std::vector<std::unique_ptr<TestFrame>> frames;
    for (int i = 0; i < 4; ++i) {
      frames.push_back(std::make_unique<TestFrame>(1, 1, 1));
      if (with_deadline) frames.back()->frame.deadline = Clock::now() + kDeadline;
      ASSERT_TRUE(pipeline_->submit(frames.back()->frame).ok());
    }
    for (auto& frame : frames)
      EXPECT_EQ(frame->code(), with_deadline ? ErrorCode::kDeadlineExceeded : ErrorCode::kUnavailable);
    ASSERT_TRUE(wait_until([&] { return pipeline_->ready() && works(); }));
    EXPECT_NE(card_process("fpga1"), process);
    const auto status = pipeline_->status();
    for (const auto& card : status.cards) EXPECT_EQ(card.restarts, card.card == "fpga1" ? 1U : 0U);
    for (auto& frame : frames) EXPECT_EQ(frame->completions(), 1);
    pipeline_->stop(1s);
  }
}

TEST_F(PipelineOnCards, RepeatedOpenAndStopLeaksNothing) {
  open(diamond());
  ASSERT_TRUE(works());
  pipeline_->stop(1s);
  pipeline_.reset();
  ASSERT_TRUE(await_rest());
  const Belongings before = count_belongings();
  for (int i = 0; i < 10; ++i) {
    reopen();
    ASSERT_TRUE(works());
    pipeline_->stop(std::chrono::milliseconds(i % 2 * 100));
    pipeline_.reset();
  }
  ASSERT_TRUE(await_rest());
  const Belongings after = count_belongings();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.children, before.children);
}

TEST_F(PipelineOnCards, TwoPipelinesShareTheClusterAndAThirdDoesNotFit) {
  PlanBuilder one;
  one.input("x").card("solo", {"x"}, 31).output("y", "solo");
  open(chain_of_three());
  const auto small = load_images(one.build());
  const auto second = pipeline::Dispatcher::open(small, cluster_, {});
  ASSERT_TRUE(second.ok()) << second.error().message();
  EXPECT_EQ((*second)->status().cards.at(0).card, "fpga3");
  for (int i = 0; i < 20; ++i) {
    TestFrame frame(1, 1, static_cast<std::int16_t>(i));
    EXPECT_TRUE((*second)->infer(frame.frame).ok());
    EXPECT_TRUE(frame.holds(0, 1, 31));
    EXPECT_TRUE(works());
  }
  const auto third = pipeline::Dispatcher::open(small, cluster_, {});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(third.error().message().find("4 in use"), std::string::npos) << third.error().message();
}

TEST_F(PipelineOnCards, OpenRefusesAClusterWithTooFewCards) {
  deployment_ = load_images(chain_of_three());
  plan::Cluster small = cluster_;
  small.cards.resize(2);
  small.cables.resize(1);
  const auto refused = pipeline::Dispatcher::open(deployment_, small, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message().find("has 2"), std::string::npos) << refused.error().message();
}

TEST_F(PipelineOnCards, CardFunctionsReturnTheDocumentedErrorForEachMisuse) {
  const auto found = card::enumerate();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), kCards);
  EXPECT_EQ((*found)[1].bdf, "0000:00:01.0");
  EXPECT_EQ(code_of(card::open({99, ""})), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(card::open({0, "nonsense"})), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(card::open({0, "0000:77:00.0"})), ErrorCode::kNotFound);
  auto held = card::open({0, ""});
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(card::is_open({0, ""}));
  EXPECT_EQ(code_of(card::open({0, ""})), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of((*held)->read(plan::abi::kRegEpoch)), ErrorCode::kUnavailable);
  const std::vector<std::byte> nonsense(100);
  EXPECT_EQ(code_of((*held)->load(nonsense)), ErrorCode::kCorrupt);
  deployment_ = load_images(chain_of_three());
  ASSERT_TRUE((*held)->load(deployment_->images.at(deployment_->plan.images[0].name)).ok());
  EXPECT_EQ(code_of((*held)->make_ingress("millrace_ingress:{other}", 16, 1)), ErrorCode::kEnvironment);
  EXPECT_EQ(code_of((*held)->make_ingress("millrace_ingress:{a_in0}", 0, 1)), ErrorCode::kInvalidInput);
  held->reset();
  EXPECT_FALSE(card::is_open({0, ""}));
}

}  // namespace
}  // namespace millrace::tests::test_pipeline_on_cards
