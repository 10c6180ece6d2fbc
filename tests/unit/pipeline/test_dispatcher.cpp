// Tests a dispatcher with several replicas: which replica gets which frame, where frames wait, and which frames fail if
// a card is lost.
//
// This source has more than 500 lines because all tests share the same replicas on fake cards.
#include "runtime/pipeline/dispatcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <thread>

#include "runtime/base/log.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_dispatcher {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using runtime::pipeline::CardState;
using runtime::pipeline::Clock;
using runtime::pipeline::Dispatcher;
using runtime::pipeline::PipelineOptions;

constexpr std::uint32_t kSlots = 2, kCards = 3;  // of each replica

class DispatcherTest : public testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::kOff, false); }

  void open(std::uint32_t replicas, std::uint32_t queue = 8) {
    world_ = std::make_unique<FakeWorld>(chain_of_three(), chain_cluster(kCards * replicas));
    for (std::uint32_t i = 0; i < replicas; ++i) {
      auto opened = open_one();
      ASSERT_NE(opened, nullptr);
      if (all_ == nullptr) {
        all_ = std::make_unique<Dispatcher>(std::move(opened), queue);
      } else {
        all_->add(std::move(opened));
      }
    }
  }
  std::unique_ptr<pipeline::Pipeline> open_one() {
    PipelineOptions options;
    options.slots = kSlots;
    options.restart_backoff_initial = 1ms;
    options.restart_backoff_maximum = 8ms;
    auto opened = open_replica_on(*world_, options);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  /// Returns the first card of a replica. While this card is stalled, the replica's frames wait.
  static std::uint32_t first_card(std::uint32_t replica) { return replica * kCards; }

  TestFrame& submit(Clock::time_point deadline = Clock::time_point::max(),
                    std::uint8_t priority = pipeline::kUsualPriority, std::uint64_t client = 0) {
    frames_.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(frames_.size())));
    frames_.back()->frame.deadline = deadline;
    frames_.back()->frame.priority = priority;
    frames_.back()->frame.client = client;
    last_ = all_->submit(frames_.back()->frame);
    return *frames_.back();
  }
  TestFrame& submit_due_in(std::chrono::milliseconds within) {
    frames_.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(frames_.size())));
    last_ = submit_in_time(frames_.back()->frame, within,
                           [&](runtime::pipeline::Frame& frame) { return all_->submit(frame); });
    return *frames_.back();
  }
  static bool right(TestFrame& frame) { return frame.ok() && frame.holds(0, 1, kChainSum); }
  bool works() {
    TestFrame frame(1, 1, 100);
    return all_->infer(frame.frame).ok() && frame.holds(0, 1, kChainSum);
  }
  /// Whether a frame gets the right answer and then frees its slot (the room for one frame on the cards), so that all
  /// replicas are idle again.
  bool works_alone() {
    return works() && eventually([&] { return all_->status().in_flight == 0; });
  }
  std::uint64_t frames_of(std::uint32_t replica) {
    std::uint64_t frames = 0;
    for (const auto& frame : all_->recent_frames()) frames += frame.replica == replica ? 1 : 0;
    return frames;
  }
  bool lost(std::uint32_t card) { return all_->status().cards[card].state != CardState::kUp; }

  std::unique_ptr<FakeWorld> world_;
  std::vector<std::unique_ptr<TestFrame>> frames_;
  std::unique_ptr<Dispatcher> all_;
  Status last_;
};

TEST_F(DispatcherTest, IdleReplicasAreUsedInRotation) {
  open(3);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(works_alone());
  for (std::uint32_t replica = 0; replica < 3; ++replica) EXPECT_EQ(frames_of(replica), 10U);
  const auto status = all_->status();
  EXPECT_EQ(status.replicas, 3U);
  EXPECT_EQ(status.replicas_ready, 3U);
  EXPECT_EQ(status.slots, 3 * kSlots);
  EXPECT_EQ(status.queue_capacity, 8U);
  EXPECT_EQ(status.completed, 30U);
  ASSERT_EQ(status.cards.size(), 3 * kCards);
  for (std::uint32_t card = 0; card < status.cards.size(); ++card)
    EXPECT_EQ(status.cards[card].replica, card / kCards);
  EXPECT_EQ(status.links.size(), 6U);
}

TEST_F(DispatcherTest, AFrameGoesToTheReplicaWithMostFreeSlots) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (int i = 0; i < 3; ++i) submit();
  const std::uint32_t fuller = all_->status().in_flight;
  EXPECT_EQ(fuller, 3U);
  submit();  // this frame must get the only free slot
  EXPECT_TRUE(last_.ok());
  EXPECT_EQ(all_->status().in_flight, 4U);
  EXPECT_EQ(all_->status().queued, 0U);
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  for (auto& frame : frames_) EXPECT_TRUE(right(*frame));
  EXPECT_EQ(frames_of(0), 2U);
  EXPECT_EQ(frames_of(1), 2U);
}

TEST_F(DispatcherTest, PrefersTheReplicaWithMoreFreeSlotsToTheNextInRotation) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  submit();
  TestFrame& second = submit();
  world_->stall(first_card(1), false);
  EXPECT_TRUE(right(second));
  ASSERT_TRUE(eventually([&] { return all_->status().in_flight == 1; }));
  TestFrame& third = submit();  // it is the first replica's turn, but only one of its two slots is free
  EXPECT_TRUE(right(third));
  EXPECT_EQ(frames_of(1), 2U);
  world_->stall(first_card(0), false);
  EXPECT_TRUE(right(*frames_[0]));
}

TEST_F(DispatcherTest, WaitingFramesGoToTheFirstFreeReplicaInOrderOfUrgency) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) submit();
  std::vector<TestFrame*> usual, urgent;
  for (int i = 0; i < 3; ++i) usual.push_back(&submit(Clock::time_point::max(), 5));
  for (int i = 0; i < 2; ++i) urgent.push_back(&submit(Clock::time_point::max(), 1));
  EXPECT_EQ(all_->status().queued, 5U);
  static std::mutex mutex;
  static std::vector<pipeline::Frame*> order;
  order.clear();
  for (const auto& list : {usual, urgent})
    for (TestFrame* frame : list)
      frame->frame.on_complete = [](pipeline::Frame& done, void*) {
        const std::lock_guard lock(mutex);
        order.push_back(&done);
      };
  world_->stall(first_card(1), false);  // the first replica stays stalled
  ASSERT_TRUE(eventually([] {
    const std::lock_guard lock(mutex);
    return order.size() == 5;
  }));
  EXPECT_EQ(order, (std::vector<pipeline::Frame*>{&urgent[0]->frame, &urgent[1]->frame, &usual[0]->frame,
                                                  &usual[1]->frame, &usual[2]->frame}));
  EXPECT_EQ(frames_of(1), kSlots + 5);
  world_->stall(first_card(0), false);
}

TEST_F(DispatcherTest, FullQueueRefusesFramesButDropsLessUrgentFramesForUrgentOnes) {
  open(2, 2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 2; ++i) {
    submit();
    ASSERT_TRUE(last_.ok()) << last_.error().message();
  }
  TestFrame& pushed_out = *frames_.back();
  submit();
  ASSERT_FALSE(last_.ok());
  EXPECT_EQ(last_.error().code(), ErrorCode::kResourceExhausted);
  TestFrame& urgent = submit(Clock::time_point::max(), 1);
  EXPECT_TRUE(last_.ok());
  EXPECT_EQ(pushed_out.code(), ErrorCode::kResourceExhausted);
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  EXPECT_TRUE(right(urgent));
  EXPECT_EQ(all_->status().failed, 1U);
}

TEST_F(DispatcherTest, WaitingFramesExpireAndCanBeCancelled) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) submit();
  TestFrame& cancelled = submit();
  TestFrame& expired = submit_due_in(20ms);
  all_->cancel(cancelled.frame);
  EXPECT_EQ(cancelled.code(), ErrorCode::kCancelled);
  EXPECT_EQ(expired.code(), ErrorCode::kDeadlineExceeded);
  submit(Clock::now() - 1ms);
  ASSERT_FALSE(last_.ok());
  EXPECT_EQ(last_.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(all_->status().queued, 0U);
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) EXPECT_TRUE(right(*frames_[i]));
}

TEST_F(DispatcherTest, RefusesAFrameOfTheWrongSizeEvenIfItWouldHaveToWait) {
  open(2);
  TestFrame few(0, 1, 1);
  const auto expect_refused = [&] {
    const Status status = all_->submit(few.frame);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
  };
  expect_refused();
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 1; ++i) submit();
  expect_refused();
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  for (auto& frame : frames_) EXPECT_TRUE(right(*frame));
}

TEST_F(DispatcherTest, ADeadCardFailsOnlyTheFramesOfItsReplica) {
  for (std::uint32_t victim = 0; victim < kCards; ++victim) {
    all_.reset();
    frames_.clear();
    open(2);
    world_->stall(first_card(0), true);
    world_->stall(first_card(1), true);
    for (std::uint32_t i = 0; i < 2 * kSlots + 3; ++i) submit();  // replica 0 gets the first frame
    world_->refuse_loads(victim, 1000000);
    world_->kill(victim);
    EXPECT_EQ(frames_[0]->code(), ErrorCode::kUnavailable);
    EXPECT_EQ(frames_[2]->code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(all_->ready());
    world_->stall(first_card(1), false);
    for (const std::size_t i : {1U, 3U, 4U, 5U, 6U}) EXPECT_TRUE(right(*frames_[i])) << i;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works());
    EXPECT_EQ(frames_of(0), 0U);
    world_->refuse_loads(victim, 0);
    world_->stall(first_card(0), false);
    ASSERT_TRUE(eventually([&] {
      const auto status = all_->status();
      return status.replicas_ready == 2 && status.in_flight == 0;
    }));
    EXPECT_EQ(all_->status().cards[victim].restarts, 1U);
    EXPECT_EQ(all_->status().cards[first_card(1)].restarts, 0U);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(works_alone());
    EXPECT_EQ(frames_of(0), 5U) << "the reloaded replica takes part again";
  }
}

TEST_F(DispatcherTest, WaitingFramesFailOnlyIfAllReplicasAreLost) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 2; ++i) submit();
  for (const std::uint32_t card : {1U, 4U}) {
    world_->refuse_loads(card, 1000000);
    world_->kill(card);
  }
  for (auto& frame : frames_) {
    EXPECT_EQ(frame->code(), ErrorCode::kUnavailable);
    EXPECT_EQ(frame->completions(), 1);
  }
  EXPECT_FALSE(all_->ready());
  submit();
  ASSERT_FALSE(last_.ok());
  EXPECT_EQ(last_.error().code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(lost(1) && lost(4));
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  for (const std::uint32_t card : {1U, 4U}) world_->refuse_loads(card, 0);
  EXPECT_TRUE(eventually([&] { return works(); }));
}

TEST_F(DispatcherTest, FramesCompleteOnceWithTheRightResultOrUnavailableWhileCardsDie) {
  open(3, 64);
  std::atomic<bool> stop{false};
  std::atomic<int> served{0}, lost_frames{0}, wrong{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 6; ++t)
    clients.emplace_back([&, t] {
      for (int i = 0; !stop.load(); ++i) {
        TestFrame frame(1, 1, static_cast<std::int16_t>(t * 1000 + i % 1000));
        frame.frame.client = static_cast<std::uint64_t>(t);
        const Status done = all_->infer(frame.frame);
        if (done.ok() && frame.holds(0, 1, kChainSum))
          served.fetch_add(1);
        else if (!done.ok() && done.error().code() == ErrorCode::kUnavailable)
          lost_frames.fetch_add(1);
        else
          wrong.fetch_add(1);
      }
    });
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  int not_ready = 0;
  for (int death = 0; death < 40; ++death) {
    world_->kill(static_cast<std::uint32_t>(random() % (3 * kCards)));
    not_ready += all_->ready() ? 0 : 1;
    ASSERT_TRUE(eventually([&] { return all_->ready(); }));
  }
  EXPECT_TRUE(eventually([&] { return all_->status().replicas_ready == 3; }));
  EXPECT_TRUE(eventually([&] { return served.load() > 0; })) << "MILLRACE_SEED=" << seed;
  stop.store(true);
  for (auto& client : clients) client.join();
  EXPECT_EQ(wrong.load(), 0) << "MILLRACE_SEED=" << seed;
  std::printf("MILLRACE_SEED=%u: %d served, %d lost, all replicas away at %d of 40 looks\n", seed,
              served.load(), lost_frames.load(), not_ready);
}

TEST_F(DispatcherTest, RefusesToRetireTheLastReplicaAndFinishCompletesWaitingFrames) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 4; ++i) submit();
  const auto one = all_->retire();
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(all_->retire(), nullptr);
  EXPECT_EQ(all_->status().queued, 4U);
  all_->refuse(Error(ErrorCode::kUnavailable, "its version ends"));
  std::thread release([&] {
    world_->stall(first_card(0), false);
    world_->stall(first_card(1), false);
  });
  std::atomic<bool> finished{false};
  std::atomic<int> taken{0};
  std::thread load([&] {  // new frames must not prevent that the queue empties
    do {
      TestFrame frame(1, 1, 1);
      taken.fetch_add(all_->infer(frame.frame).ok() ? 1 : 0);
    } while (!finished.load());
  });
  all_->finish(kPatience);
  finished.store(true);
  load.join();
  release.join();
  one->stop(kPatience);
  for (auto& frame : frames_) EXPECT_TRUE(right(*frame));
  EXPECT_EQ(taken.load(), 0);
}

TEST_F(DispatcherTest, AddedReplicaComputesTheWaitingFrames) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 2; ++i) submit();
  const auto retired = all_->retire();
  std::thread drain([&] { retired->stop(kPatience); });
  ASSERT_TRUE(eventually([&] { return !retired->ready(); }));
  world_->stall(first_card(0), false);
  drain.join();
  auto fresh = open_one();
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(all_->status().queued, 2U);
  all_->add(std::move(fresh));
  EXPECT_EQ(all_->status().queued, 0U);
  for (const std::size_t i : {4U, 5U}) EXPECT_TRUE(right(*frames_[i])) << i;
  world_->stall(first_card(1), false);
}

TEST_F(DispatcherTest, EveryRetiredReplicaIsDestroyed) {
  open(2);
  std::atomic<bool> stop{false};
  std::atomic<int> served{0}, failed{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 3; ++t)
    clients.emplace_back([&, t] {
      while (!stop.load()) {
        TestFrame frame(1, 1, static_cast<std::int16_t>(t));
        const bool right = all_->infer(frame.frame).ok() && frame.holds(0, 1, kChainSum);
        (right ? served : failed).fetch_add(1);
        static_cast<void>(all_->retry_after());
      }
    });
  std::vector<std::weak_ptr<pipeline::Pipeline>> before;
  const auto replace_one = [&] {
    auto retired = all_->retire();
    ASSERT_NE(retired, nullptr);
    retired->stop(kPatience);
    before.push_back(std::exchange(retired, nullptr));
    auto fresh = open_one();
    ASSERT_NE(fresh, nullptr);
    all_->add(std::move(fresh));
    ASSERT_EQ(all_->size(), 2U);
  };
  for (int turn = 0; turn < 40; ++turn) replace_one();
  stop.store(true);
  for (auto& client : clients) client.join();
  replace_one();  // now no thread uses a replica
  EXPECT_TRUE(std::all_of(before.begin(), before.end(), [](const auto& one) { return one.expired(); }));
  EXPECT_GT(served.load(), 0);
  EXPECT_EQ(failed.load(), 0);
}

TEST_F(DispatcherTest, ARetiredReplicaIsNotDestroyedDuringACall) {
  open(2);
  class Slow final : public pipeline::Pipeline {
   public:
    const plan::Deployment& deployment() const override { return nothing_; }
    Status submit(pipeline::Frame&) override { return {}; }
    void cancel(pipeline::Frame&) override {}
    bool ready() const override {
      if (!asked.load()) return true;
      inside.store(true);
      leave.wait(false);
      return true;
    }
    pipeline::PipelineStatus status() override { return {}; }
    void stop(std::chrono::milliseconds) override {}
    std::atomic<bool> asked{false};
    mutable std::atomic<bool> inside{false}, leave{false};

   private:
    plan::Deployment nothing_;
  };
  auto made = std::make_shared<Slow>();
  Slow& slow = *made;
  const std::weak_ptr<Slow> there = made;
  all_->add(std::move(made));
  for (int i = 0; i < 2; ++i) all_->retire()->stop(kPatience);
  all_->add(open_one());
  slow.asked.store(true);
  std::thread visitor([&] { EXPECT_TRUE(all_->ready()); });
  ASSERT_TRUE(eventually([&] { return slow.inside.load(); }));
  slow.asked.store(false);
  EXPECT_EQ(all_->retire().get(), &slow);
  all_->add(open_one());
  EXPECT_FALSE(there.expired()) << "the visitor has not left";
  slow.leave.store(true);
  slow.leave.notify_all();
  visitor.join();
  all_->retire()->stop(kPatience);
  EXPECT_TRUE(there.expired());
}

TEST_F(DispatcherTest, SubmitFindsAReplicaThatReplacedAllOthersDuringTheCall) {
  open(1);
  class Replaced final : public pipeline::Pipeline {
   public:
    explicit Replaced(std::function<void()> replace) : replace_(std::move(replace)) {}
    const plan::Deployment& deployment() const override { return nothing_; }
    Status submit(pipeline::Frame&) override { return refusal(); }
    std::optional<Status> offer(pipeline::Frame&, Clock::time_point) override {
      replace_();
      return refusal();
    }
    void cancel(pipeline::Frame&) override {}
    bool ready() const override { return true; }
    std::uint32_t room() const override { return 1; }
    pipeline::PipelineStatus status() override { return {}; }
    void stop(std::chrono::milliseconds) override {}

   private:
    static Error refusal() { return Error(ErrorCode::kUnavailable, "the pipeline is stopping"); }
    const std::function<void()> replace_;
    plan::Deployment nothing_;
  };
  std::shared_ptr<pipeline::Pipeline> retired;
  all_->add(std::make_shared<Replaced>([&] {
    all_->add(open_one());
    retired = all_->retire();
  }));
  all_->retire()->stop(kPatience);
  EXPECT_TRUE(works());
  EXPECT_NE(retired, nullptr);
}

TEST_F(DispatcherTest, RetiresTheOldestReplicaFirst) {
  open(3);
  all_->retire()->stop(kPatience);
  all_->retire()->stop(kPatience);
  all_->add(open_one());
  const auto third = all_->retire();
  EXPECT_TRUE(third->ready());
  EXPECT_EQ(third->status().cards.front().card, "fpga" + std::to_string(first_card(2)));
  third->stop(kPatience);
  EXPECT_TRUE(works());
}

TEST_F(DispatcherTest, StopFailsFramesThatDoNotFinishWithinItsTimeLimit) {
  open(2);
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  for (std::uint32_t i = 0; i < 2 * kSlots + 2; ++i) submit();
  all_->stop(20ms);
  for (auto& frame : frames_) {
    EXPECT_EQ(frame->completions(), 1) << "every frame completed before stop() returned";
    EXPECT_EQ(frame->code(), ErrorCode::kUnavailable);
  }
  submit();
  EXPECT_FALSE(last_.ok());
  EXPECT_FALSE(all_->ready());
}

TEST_F(DispatcherTest, SubmitAllocatesNothing) {
  open(2, 64);
  // Wait until all slots (each is the room for one frame on the cards) are free. Otherwise this thread might start a
  // waiting frame when a slot becomes free.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(works_alone());
  frames_.reserve(256);
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 40; ++i)
    frames.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(i)));
  world_->stall(first_card(0), true);
  world_->stall(first_card(1), true);
  // The first frames reach the fake cards, which allocate memory. All later frames wait in the queue.
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) ASSERT_TRUE(all_->submit(frames[i]->frame).ok());
  const std::uint64_t before = allocations_of_this_thread();
  bool taken = true;
  for (std::size_t i = 2 * kSlots; i < frames.size(); ++i) {
    frames[i]->frame.priority = static_cast<std::uint8_t>(1 + i % 10);
    frames[i]->frame.client = i % 3;
    taken = taken && all_->submit(frames[i]->frame).ok();
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(taken);
  world_->stall(first_card(0), false);
  world_->stall(first_card(1), false);
  for (auto& frame : frames) EXPECT_TRUE(right(*frame));
}

}  // namespace
}  // namespace millrace::tests::test_dispatcher
