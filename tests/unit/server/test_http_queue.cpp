// Tests requests that wait for a free slot (the room for one frame) of the pipeline. The pipeline itself has
// no queue.

#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <utility>

#include "http_server_fixture.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::http::test_http_queue {
namespace {

namespace pipeline = runtime::pipeline;

/// A pipeline with one slot, which is the room for one frame. The frame in the slot completes when the test
/// asks for it. Until then the pipeline accepts no other frame.
class OneSlotPipeline final : public pipeline::Pipeline {
 public:
  OneSlotPipeline() { deployment_.model = test::small_model(); }

  const runtime::plan::Deployment& deployment() const override { return deployment_; }
  Status submit(pipeline::Frame& frame) override {
    if (auto taken = offer(frame, {})) return std::move(*taken);
    return Error(ErrorCode::kResourceExhausted, "the slot is in use");
  }
  std::optional<Status> offer(pipeline::Frame& frame, pipeline::Clock::time_point) override {
    const std::lock_guard lock(mutex_);
    if (stopped_) return Error(ErrorCode::kUnavailable, "the pipeline is stopping");
    if (frame_ != nullptr) return std::nullopt;
    frame_ = &frame;
    return Status();
  }
  std::uint32_t room() const override { return busy() ? 0 : 1; }
  void cancel(pipeline::Frame&) override {}
  bool ready() const override { return true; }
  pipeline::PipelineStatus status() override { return {}; }
  void watch(pipeline::Watcher* watcher) override { watcher_ = watcher; }
  void stop(std::chrono::milliseconds) override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    complete(Error(ErrorCode::kUnavailable, "the pipeline is stopping"));
  }

  bool busy() const {
    const std::lock_guard lock(mutex_);
    return frame_ != nullptr;
  }
  /// Completes the frame in the slot, if there is one.
  void complete(Status status = {}) {
    pipeline::Frame* frame = nullptr;
    {
      const std::lock_guard lock(mutex_);
      frame = std::exchange(frame_, nullptr);
    }
    if (frame == nullptr) return;
    test::echo(*frame);
    frame->status = std::move(status);
    frame->on_complete(*frame, frame->context);
    if (watcher_ != nullptr) watcher_->changed();
  }

 private:
  runtime::plan::Deployment deployment_;
  mutable std::mutex mutex_;
  pipeline::Frame* frame_ = nullptr;
  bool stopped_ = false;
  pipeline::Watcher* watcher_ = nullptr;
};

class HttpQueue : public HttpServer {
 protected:
  void SetUp() override {
    model_ = std::make_shared<models::Model>("small", "1", slot_, metrics->model("small", "1"), 1);
    ASSERT_TRUE(registry.publish(model_).ok());
    ServerOptions options;
    options.linger = 20ms;  // the server often checks whether a client is gone
    auto opened = Server::open(options, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
  }
  /// Returns a client whose request is in the pipeline's only slot.
  RawClient running() {
    RawClient out = client();
    out.send(post(kInferTarget, kJsonInput));
    EXPECT_TRUE(tests::wait_until([&] { return slot_->busy(); }));
    return out;
  }
  bool waiting(std::uint32_t count) {
    return tests::wait_until([&] { return model_->pipeline().status().queued == count; });
  }

  const std::shared_ptr<OneSlotPipeline> slot_ = std::make_shared<OneSlotPipeline>();
  std::shared_ptr<models::Model> model_;
};

TEST_F(HttpQueue, AnswersAWaitingRequestWhenTheSlotIsFreeAndRefusesRequestsIfTheQueueIsFull) {
  RawClient first = running(), second = client();
  second.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(waiting(1));
  const Answer refused = client().exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  slot_->complete();
  EXPECT_EQ(first.receive().status, 200);
  ASSERT_TRUE(tests::wait_until([&] { return slot_->busy(); }));
  slot_->complete();
  EXPECT_EQ(second.receive().status, 200);
}

TEST_F(HttpQueue, RemovesTheWaitingRequestOfAClientThatDisconnects) {
  RawClient first = running();
  RawClient second = client();
  second.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(waiting(1));
  second.close();
  EXPECT_TRUE(waiting(0));
  slot_->complete();
  EXPECT_EQ(first.receive().status, 200);
  EXPECT_FALSE(slot_->busy()) << "nothing is left to compute";
}

TEST_F(HttpQueue, AnswersAWaitingRequestWhenItsTimeoutPasses) {
  RawClient first = running();
  const Answer late =
      client().exchange(post(kInferTarget, R"({"parameters":{"timeout":1000},)" + kJsonInput.substr(1)));
  EXPECT_EQ(late.status, 504) << late.body;
  slot_->complete();
  EXPECT_EQ(first.receive().status, 200);
}

TEST_F(HttpQueue, StopAnswersRequestsInTheSlotAndInTheQueue) {
  RawClient first = running(), second = client();
  second.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(waiting(1));
  server->stop(0ms);
  EXPECT_EQ(first.receive().status, 503);
  EXPECT_EQ(second.receive().status, 503);
}

}  // namespace
}  // namespace millrace::server::http::test_http_queue
