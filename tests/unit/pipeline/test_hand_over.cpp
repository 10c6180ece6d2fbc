// Tests how a dispatcher hands its waiting frames over to the dispatcher of the next version, also when frames are
// cancelled meanwhile.
#include "runtime/pipeline/dispatcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/log.hpp"
#include "tests/support/allocations.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_hand_over {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using runtime::pipeline::Clock;
using runtime::pipeline::Dispatcher;

/// A replica that accepts the number of frames that the test chose with free_slots(), and never completes them.
class CountingReplica final : public pipeline::Pipeline {
 public:
  const plan::Deployment& deployment() const override { return nothing_; }
  Status submit(pipeline::Frame&) override { return Error(ErrorCode::kInternal, "only offered frames"); }
  std::optional<Status> offer(pipeline::Frame& frame, Clock::time_point) override {
    if (!ready_) return Error(ErrorCode::kUnavailable, "lost");
    if (room_ == 0) return {};
    --room_;
    taken.push_back(&frame);
    return Status();
  }
  void cancel(pipeline::Frame&) override {}
  void watch(pipeline::Watcher* watcher) override { watcher_ = watcher; }
  bool ready() const override { return ready_; }
  std::uint32_t room() const override { return ready_ ? room_ : 0; }
  pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

  void lose() {
    ready_ = false;
    watcher_->changed();
  }
  void come_back() { ready_ = true; }
  void free_slots(std::uint32_t count) {
    room_ = count;
    watcher_->changed();
  }

  std::vector<pipeline::Frame*> taken;

 private:
  plan::Deployment nothing_;
  pipeline::Watcher* watcher_ = nullptr;
  bool ready_ = true;
  std::uint32_t room_ = 0;
};

/// A test with two versions of a model. The dispatcher of the first version hands its frames over to the second.
class HandOverTest : public testing::Test {
 protected:
  class Gate final : public pipeline::Successor {
   public:
    explicit Gate(HandOverTest& test) : test_(test) {}
    Status submit(pipeline::Frame& frame) override {
      test_.on_hand_over();
      return test_.next_.submit(frame);
    }
    void cancel(pipeline::Frame& frame) override { test_.next_.cancel(frame); }

   private:
    HandOverTest& test_;
  };

  std::function<void()> on_hand_over = [] {};
  std::shared_ptr<CountingReplica> old_cards_ = std::make_shared<CountingReplica>(),
                                   next_cards_ = std::make_shared<CountingReplica>();
  Dispatcher old_{old_cards_, 3}, next_{next_cards_, 1};
};

TEST_F(HandOverTest, AFrameSubmittedWhileWaitingFramesFailIsNotFailedWithThem) {
  TestFrame first(1, 1, 0), second(1, 1, 0), late(1, 1, 0);
  const auto submit_late = [&] {
    old_cards_->come_back();
    EXPECT_TRUE(old_.submit(late.frame).ok());
  };
  std::function<void()> on_failure = submit_late;
  first.frame.context = &on_failure;
  first.frame.on_complete = [](pipeline::Frame&, void* context) {
    (*static_cast<std::function<void()>*>(context))();
  };
  ASSERT_TRUE(old_.submit(first.frame).ok());
  ASSERT_TRUE(old_.submit(second.frame).ok());
  old_cards_->lose();
  EXPECT_EQ(second.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(late.completions(), 0);
  old_cards_->free_slots(1);
  EXPECT_EQ(old_cards_->taken, std::vector{&late.frame});
}

TEST_F(HandOverTest, ANewVersionWithAFullQueueAcceptsHandedOverFramesAndRefusesNewFrames) {
  TestFrame waits(1, 1, 0), fresh(1, 1, 0);
  ASSERT_TRUE(next_.submit(waits.frame).ok());
  const std::uint64_t before = allocations_of_this_thread();
  old_.hold();
  EXPECT_EQ(allocations_of_this_thread(), before) << "while it holds the lock of the data path";
  std::vector<std::unique_ptr<TestFrame>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::make_unique<TestFrame>(1, 1, 0));
    ASSERT_TRUE(old_.submit(held.back()->frame).ok());
  }
  old_.hand_over(std::make_shared<Gate>(*this));
  EXPECT_EQ(next_.status().queued, 4U);
  for (int i = 0; i < 2; ++i) {
    const Status refused = old_.submit(fresh.frame);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
    next_cards_->free_slots(1);
  }
  next_cards_->free_slots(2);
  EXPECT_EQ(next_cards_->taken,
            (std::vector{&waits.frame, &held[0]->frame, &held[1]->frame, &held[2]->frame}));
}

TEST_F(HandOverTest, CancelDuringHandOverCompletesTheFrameOnlyOnce) {
  TestFrame frame(1, 1, 0);
  old_.hold();
  ASSERT_TRUE(old_.submit(frame.frame).ok());
  std::atomic<bool> cancelling{false};
  std::thread client;
  on_hand_over = [&] {
    client = std::thread([&] {
      cancelling.store(true);
      cancelling.notify_one();
      old_.cancel(frame.frame);
    });
    cancelling.wait(false);
  };
  old_.hand_over(std::make_shared<Gate>(*this));
  client.join();
  EXPECT_EQ(frame.completions(), 1);
  EXPECT_EQ(frame.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace millrace::tests::test_hand_over
