// Tests the pipeline with fake cards that compute immediately: graphs of partitions, order, limits of the queue,
// deadlines and stop. test_pipeline_faults.cpp tests the loss of cards.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_pipeline {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using runtime::pipeline::Clock;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineOptions;

std::unique_ptr<Pipeline> open_or_fail(FakeWorld& world, PipelineOptions options = {}) {
  auto opened = open_on(world, options);
  EXPECT_TRUE(opened.ok()) << opened.error().message();
  return opened.ok() ? std::move(*opened) : nullptr;
}

TEST(Pipeline, AFramePassesThroughHostStagesCardsAndLinks) {
  FakeWorld world(chain_of_three(), chain_cluster(3));
  const auto pipeline = open_or_fail(world);
  ASSERT_TRUE(pipeline);
  for (int i = 0; i < 100; ++i) {
    TestFrame frame(1, 1, static_cast<std::int16_t>(i * 10));
    const Status status = pipeline->infer(frame.frame);
    ASSERT_TRUE(status.ok()) << status.error().message();
    ASSERT_TRUE(frame.holds(0, 1, kChainSum)) << i;
  }
  // The slot (the room for one frame on the cards) of a frame becomes free a moment after the frame has completed, so
  // wait.
  EXPECT_TRUE(eventually([&] { return pipeline->status().in_flight == 0; }));
  const auto status = pipeline->status();
  EXPECT_EQ(status.completed, 100U);
  EXPECT_TRUE(status.ready);
  ASSERT_EQ(status.cards.size(), 3U);
  EXPECT_EQ(status.cards[1].card, "fpga1");
  EXPECT_EQ(status.cards[1].programmed, 1U);
  EXPECT_EQ(status.links.size(), 2U);
}

TEST(Pipeline, RecordsTheTimesOfTheLast1024Frames) {
  FakeWorld world(chain_of_three(), chain_cluster(3));
  const auto pipeline = open_or_fail(world, {.slots = 2});
  ASSERT_TRUE(pipeline);
  EXPECT_TRUE(pipeline->recent_frames().empty());
  const auto begin = Clock::now();
  for (int i = 0; i < 1100; ++i) {
    TestFrame frame(1, 1, 1);
    ASSERT_TRUE(pipeline->infer(frame.frame).ok());
  }
  const auto frames = pipeline->recent_frames();
  ASSERT_EQ(frames.size(), 1024U);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto& frame = frames[i];
    EXPECT_EQ(frame.sequence, frames[0].sequence + i);
    EXPECT_EQ(frame.slot, frame.sequence % 2);
    EXPECT_TRUE(begin <= frame.submitted && frame.submitted <= frame.staged &&
                frame.staged <= frame.started && frame.started <= frame.done &&
                frame.computed <= frame.done && frame.done <= Clock::now());
  }
}

TEST(Pipeline, BranchesThatForkAndJoinNeverMixFramesEvenIfInputsAreLate) {
  FakeWorld world(diamond(), chain_cluster(3));
  const auto pipeline = open_or_fail(world);
  ASSERT_TRUE(pipeline);
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 60; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, 2, static_cast<std::int16_t>(i * 7)));
    const Status taken = pipeline->submit(frames.back()->frame);
    ASSERT_TRUE(taken.ok()) << taken.error().message();
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    ASSERT_TRUE(frames[i]->ok()) << i;
    EXPECT_TRUE(frames[i]->holds(0, kDiamondTimes, kDiamondSum)) << i;
    EXPECT_TRUE(frames[i]->holds(1, 1, 3)) << i;
  }
}

TEST(Pipeline, ComputesFramesWithOnlyOneFrameSlot) {
  FakeWorld world(diamond(), chain_cluster(3));
  PipelineOptions options;
  options.slots = 1;
  const auto pipeline = open_or_fail(world, options);
  ASSERT_TRUE(pipeline);
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (int i = 0; i < 30; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, 2, static_cast<std::int16_t>(i)));
    ASSERT_TRUE(pipeline->submit(frames.back()->frame).ok());
  }
  for (auto& frame : frames) {
    ASSERT_TRUE(frame->ok());
    EXPECT_TRUE(frame->holds(0, kDiamondTimes, kDiamondSum));
  }
}

TEST(Pipeline, EachOfManyThreadsReceivesItsOwnAnswers) {
  FakeWorld world(diamond(), chain_cluster(3));
  const auto pipeline = open_or_fail(world);
  ASSERT_TRUE(pipeline);
  std::atomic<int> wrong{0}, right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        TestFrame frame(1, 2, static_cast<std::int16_t>(t * 500 + i));
        const bool good = pipeline->infer(frame.frame).ok() && frame.holds(0, kDiamondTimes, kDiamondSum) &&
                          frame.holds(1, 1, 3);
        (good ? right : wrong).fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(right.load(), 480);
}

TEST(Pipeline, FramesCompleteInTheOrderOfSubmission) {
  FakeWorld world(diamond(), chain_cluster(3));
  const auto pipeline = open_or_fail(world);
  ASSERT_TRUE(pipeline);
  static std::mutex mutex;
  static std::vector<pipeline::Frame*> order;
  order.clear();
  std::vector<std::unique_ptr<TestFrame>> frames;
  std::vector<pipeline::Frame*> wanted;
  for (int i = 0; i < 40; ++i) {
    frames.push_back(std::make_unique<TestFrame>(1, 2, static_cast<std::int16_t>(i)));
    pipeline::Frame& frame = frames.back()->frame;
    frame.on_complete = [](pipeline::Frame& done, void*) {
      const std::lock_guard lock(mutex);
      order.push_back(&done);
    };
    wanted.push_back(&frame);
    ASSERT_TRUE(pipeline->submit(frame).ok());
  }
  pipeline->stop(kPatience);
  EXPECT_EQ(order, wanted);
}

TEST(Pipeline, RefusesAFrameOfTheWrongSizeAndNamesTheTensor) {
  FakeWorld world(diamond(), chain_cluster(3));
  const auto pipeline = open_or_fail(world);
  ASSERT_TRUE(pipeline);
  TestFrame few(0, 2, 1), many(1, 3, 1), right(1, 2, 1);
  EXPECT_EQ(pipeline->submit(few.frame).error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(pipeline->submit(many.frame).error().code(), ErrorCode::kInvalidInput);
  right.frame.inputs[0] = right.frame.inputs[0].first(3);
  const Status in = pipeline->submit(right.frame);
  ASSERT_FALSE(in.ok());
  EXPECT_NE(in.error().message().find("'x' has 3 bytes"), std::string::npos) << in.error().message();
  TestFrame out(1, 2, 1);
  out.frame.outputs[1] = out.frame.outputs[1].first(1);
  EXPECT_NE(pipeline->submit(out.frame).error().message().find("'z'"), std::string::npos);
  EXPECT_EQ(few.completions() + many.completions() + right.completions() + out.completions(), 0);
}

class StalledPipeline : public testing::Test {
 protected:
  void open(std::uint32_t slots, std::uint32_t queue) {
    PipelineOptions options;
    options.slots = slots;
    options.queue_capacity = queue;
    options.stuck_after = options.stuck_after_deadline = 10min;  // a stalled card must not count as stuck
    pipeline_ = open_or_fail(world_, options);
    ASSERT_TRUE(pipeline_);
    world_.stall(0, true);
  }
  TestFrame& submit(Clock::time_point deadline = Clock::time_point::max(), std::uint64_t client = 0,
                    std::uint8_t priority = runtime::pipeline::kUsualPriority) {
    frames_.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(frames_.size())));
    frames_.back()->frame.deadline = deadline;
    frames_.back()->frame.client = client;
    frames_.back()->frame.priority = priority;
    last_ = pipeline_->submit(frames_.back()->frame);
    return *frames_.back();
  }
  TestFrame& submit_due_in(std::chrono::milliseconds within) {
    frames_.push_back(std::make_unique<TestFrame>(1, 1, static_cast<std::int16_t>(frames_.size())));
    last_ = submit_in_time(frames_.back()->frame, within,
                           [&](runtime::pipeline::Frame& frame) { return pipeline_->submit(frame); });
    return *frames_.back();
  }

  FakeWorld world_{chain_of_three(), chain_cluster(3)};
  std::vector<std::unique_ptr<TestFrame>> frames_;
  std::unique_ptr<Pipeline> pipeline_;
  Status last_;
};

TEST_F(StalledPipeline, AFullQueueRefusesFrames) {
  open(2, 3);
  for (int i = 0; i < 5; ++i) {
    submit();
    ASSERT_TRUE(last_.ok()) << i << last_.error().message();
  }
  TestFrame& refused = submit();
  ASSERT_FALSE(last_.ok());
  EXPECT_EQ(last_.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(pipeline_->status().in_flight, 2U);
  EXPECT_EQ(pipeline_->status().queued, 3U);
  world_.stall(0, false);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(frames_[static_cast<std::size_t>(i)]->ok());
    EXPECT_TRUE(frames_[static_cast<std::size_t>(i)]->holds(0, 1, kChainSum));
  }
  EXPECT_EQ(refused.completions(), 0);
}

TEST_F(StalledPipeline, FullQueueDropsFramesInFavourOfOtherClientsAndUrgentFrames) {
  open(1, 2);
  const auto never = Clock::time_point::max();
  submit();  // this frame uses the slot
  TestFrame& first = submit();
  TestFrame& second = submit();
  TestFrame& other = submit(never, 1);
  ASSERT_TRUE(last_.ok()) << last_.error().message();
  EXPECT_EQ(second.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(second.completions(), 1);
  TestFrame& urgent = submit(never, 0, runtime::pipeline::kFirstPriority);
  ASSERT_TRUE(last_.ok());
  const bool first_went = first.completions() > 0;
  EXPECT_EQ((first_went ? first : other).code(), ErrorCode::kResourceExhausted);
  world_.stall(0, false);
  EXPECT_TRUE(urgent.ok());
  EXPECT_TRUE((first_went ? other : first).ok());
}

TEST_F(StalledPipeline, WithoutAQueueAcceptsOnlyAsManyFramesAsSlots) {
  open(1, 0);
  submit();
  EXPECT_TRUE(last_.ok());
  submit();
  EXPECT_EQ(last_.error().code(), ErrorCode::kResourceExhausted);
  world_.stall(0, false);
}

TEST_F(StalledPipeline, RefusesADeadlineInThePast) {
  open(1, 1);
  submit(Clock::now() - 1ms);
  EXPECT_EQ(last_.error().code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(StalledPipeline, FramesExpireInTheQueueAndOnTheCards) {
  open(1, 4);
  TestFrame& on_card = submit_due_in(500ms);
  TestFrame& queued = submit_due_in(300ms);
  TestFrame& patient = submit();
  EXPECT_EQ(queued.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(on_card.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(pipeline_->status().in_flight, 1U);  // the frame on the card still uses the slot
  EXPECT_EQ(patient.completions(), 0);
  world_.stall(0, false);
  EXPECT_TRUE(patient.ok());
  EXPECT_TRUE(patient.holds(0, 1, kChainSum));
  EXPECT_EQ(on_card.completions(), 1);
  EXPECT_TRUE(on_card.holds(0, 0, -1));  // the outputs are not written after the completion
}

TEST_F(StalledPipeline, ExpiredFrameInTheQueueUsesNoSlot) {
  open(1, 4);
  TestFrame& on_card = submit();
  // The completion of the first expired frame blocks the thread that removes expired frames. The second expired frame
  // is therefore still in the queue when a slot becomes free.
  struct Held {
    std::promise<void> entered, released;
  } held;
  TestFrame first(1, 1, 7);
  first.frame.context = &held;
  first.frame.on_complete = [](runtime::pipeline::Frame&, void* context) {
    auto& self = *static_cast<Held*>(context);
    self.entered.set_value();
    self.released.get_future().wait();
  };
  const auto take = [&](runtime::pipeline::Frame& frame) { return pipeline_->submit(frame); };
  ASSERT_TRUE(submit_in_time(first.frame, 20ms, take).ok());
  held.entered.get_future().wait();
  TestFrame second(1, 1, 8);
  EXPECT_TRUE(submit_in_time(second.frame, 20ms, take).ok());
  std::this_thread::sleep_until(second.frame.deadline + 1ms);
  EXPECT_EQ(second.completions(), 0);
  world_.stall(0, false);
  EXPECT_TRUE(on_card.ok());
  EXPECT_EQ(second.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(second.holds(0, 0, -1)) << "nothing was computed";
  held.released.set_value();
  pipeline_->stop(kPatience);
}

TEST_F(StalledPipeline, ALaterFrameWithAnEarlierDeadlineExpiresFirst) {
  open(1, 4);
  submit(Clock::now() + 10min);
  TestFrame& hasty = submit_due_in(250ms);
  EXPECT_EQ(hasty.code(), ErrorCode::kDeadlineExceeded);
  world_.stall(0, false);
}

TEST_F(StalledPipeline, CancelAffectsOnlyQueuedFrames) {
  open(1, 4);
  TestFrame& on_card = submit();
  TestFrame& first = submit();
  TestFrame& second = submit();
  pipeline_->cancel(on_card.frame);
  pipeline_->cancel(first.frame);
  EXPECT_EQ(first.code(), ErrorCode::kCancelled);
  EXPECT_EQ(on_card.completions(), 0);
  world_.stall(0, false);
  EXPECT_TRUE(on_card.ok());
  EXPECT_TRUE(second.ok());
  pipeline_->cancel(second.frame);
  EXPECT_EQ(second.completions(), 1);
}

TEST_F(StalledPipeline, RetryAfterGrowsWithTheQueueAndTheTimePerFrame) {
  open(2, 4);
  world_.stall(0, false);
  for (int i = 0; i < 3; ++i) {
    submit();
    ASSERT_TRUE(frames_.back()->ok());
  }
  // The slot (the room for one frame on the cards) of a frame becomes free a moment after the frame has completed, so
  // wait.
  ASSERT_TRUE(eventually([&] { return pipeline_->status().in_flight == 0; }));
  world_.stall(0, true);
  for (int i = 0; i < 6; ++i) submit();
  ASSERT_TRUE(last_.ok());
  submit();
  ASSERT_EQ(last_.error().code(), ErrorCode::kResourceExhausted);
  // Four frames wait. No frame has completed since the stall began, so the pipeline expects that each frame takes at
  // least as long as the stall so far.
  EXPECT_TRUE(eventually([&] { return pipeline_->retry_after() >= 4 * 50ms; }));
}

TEST(Pipeline, TimePerFrameIsTheMeanIntervalOfRecentFrames) {
  const auto begin = pipeline::Clock::now();
  pipeline::FrameLog frames;
  const auto done = [&](std::chrono::milliseconds at) {
    pipeline::FrameRecord record;
    record.done = begin + at;
    frames.note(record);
    return record.done;
  };
  EXPECT_EQ(frames.pace(begin), 0ns);
  done(0ms);
  EXPECT_EQ(frames.pace(begin), 0ns) << "one frame gives no pace";
  auto last = done(10'000ms);
  EXPECT_EQ(frames.pace(last), 10'000ms) << "two frames give one, however far apart";
  for (int i = 1; i <= 2000; ++i) last = done(10'000ms + i * 20ms);
  EXPECT_EQ(frames.pace(last), 20ms);
  EXPECT_EQ(frames.pace(last + 5s), 5s) << "no frame completed since";
}

TEST_F(StalledPipeline, StopWaitsUntilItsTimeLimitAndFailsTheRemainingFrames) {
  open(2, 4);
  for (int i = 0; i < 5; ++i) submit();
  const auto begin = Clock::now();
  pipeline_->stop(50ms);
  EXPECT_GE(Clock::now() - begin, 50ms);
  for (auto& frame : frames_) {
    EXPECT_EQ(frame->code(), ErrorCode::kUnavailable);
    EXPECT_EQ(frame->completions(), 1);
  }
  submit();
  EXPECT_EQ(last_.error().code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(pipeline_->status().ready);
  pipeline_->stop(10s);  // a second stop() does nothing
}

TEST_F(StalledPipeline, StopCompletesFramesThatFinishWithinItsTimeLimit) {
  open(2, 8);
  for (int i = 0; i < 10; ++i) submit();
  std::thread release([&] {
    EXPECT_TRUE(eventually([&] { return !pipeline_->ready(); }));
    world_.stall(0, false);
  });
  pipeline_->stop(kPatience);
  release.join();
  for (auto& frame : frames_) EXPECT_TRUE(frame->ok());
}

TEST(Pipeline, KeepsItsCardsReservedUntilStop) {
  FakeWorld world(chain_of_three(), chain_cluster(3));
  auto first = open_or_fail(world);
  ASSERT_TRUE(first);
  const auto second = open_on(world);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  first->stop(1s);
  auto third = open_or_fail(world);
  ASSERT_TRUE(third);
  TestFrame frame(1, 1, 5);
  EXPECT_TRUE(third->infer(frame.frame).ok());
  EXPECT_TRUE(frame.holds(0, 1, kChainSum));
}

TEST(Pipeline, OpenNamesTheEndpointOfACardThatFailsToLoad) {
  FakeWorld world(chain_of_three(), chain_cluster(3));
  world.refuse_loads(1, 1);
  const auto refused = open_on(world);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(refused.error().message().find("endpoint 'on_b' (card 'fpga1')"), std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(open_or_fail(world));
}

TEST(Pipeline, ACompletionCallbackCanSubmitTheNextFrame) {
  FakeWorld world(chain_of_three(), chain_cluster(3));
  PipelineOptions options;
  options.slots = 2;
  const auto pipeline = open_or_fail(world, options);
  ASSERT_TRUE(pipeline);
  struct Relay {
    Pipeline* pipeline;
    TestFrame* frame;
    std::atomic<int> left{200};
    std::atomic<bool> failed{false};
  } relay{pipeline.get(), nullptr};
  TestFrame frame(1, 1, 9);
  relay.frame = &frame;
  frame.frame.context = &relay;
  frame.frame.on_complete = [](pipeline::Frame& done, void* context) {
    auto& self = *static_cast<Relay*>(context);
    if (!done.status.ok() || !self.frame->holds(0, 1, kChainSum)) self.failed.store(true);
    if (self.left.fetch_sub(1) > 1 && !self.pipeline->submit(done).ok()) self.failed.store(true);
  };
  ASSERT_TRUE(pipeline->submit(frame.frame).ok());
  EXPECT_TRUE(eventually([&] { return relay.left.load() == 0; }));
  EXPECT_FALSE(relay.failed.load());
}

TEST(Pipeline, StopWhileManyThreadsSubmitCompletesEachAcceptedFrameOnce) {
  for (int round = 0; round < 10; ++round) {
    FakeWorld world(diamond(), chain_cluster(3));
    PipelineOptions options;
    options.slots = 2;
    options.queue_capacity = 4;
    const auto pipeline = open_or_fail(world, options);
    ASSERT_TRUE(pipeline);
    std::atomic<bool> go{true};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        while (go.load()) {
          TestFrame frame(1, 2, 3);
          if (!pipeline->submit(frame.frame).ok()) continue;
          if (!frame.wait() || frame.completions() != 1) wrong.fetch_add(1);
          if (frame.ok() && !frame.holds(0, kDiamondTimes, kDiamondSum)) wrong.fetch_add(1);
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return pipeline->status().completed > 0; }));
    pipeline->stop(std::chrono::milliseconds(round % 3));
    go.store(false);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

}  // namespace
}  // namespace millrace::tests::test_pipeline
