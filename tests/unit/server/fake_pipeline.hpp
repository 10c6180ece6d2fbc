// A pipeline without cards. The test chooses what the pipeline computes and can decide when.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::server::test {

namespace pipeline = runtime::pipeline;
namespace plan = runtime::plan;

/// Copies the frame's first input to every output. If the input is shorter than an output, it is repeated.
inline void echo(pipeline::Frame& frame) {
  const auto in = frame.inputs.front();
  for (auto out : frame.outputs)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i % in.size()];
}

inline plan::ModelInfo small_model() {
  plan::ModelInfo model;
  model.name = "small";
  model.inputs = {{"x", "FP32", {1, 2, 2}}};
  model.outputs = {{"y", "FP32", {1, 4}}};
  model.labels = {"zero", "one", "two", "three"};
  model.preprocessing = {"NCHW", {0.5F}, {1.0F}};
  return model;
}

class FakePipeline final : public pipeline::Pipeline {
 public:
  explicit FakePipeline(plan::ModelInfo model = small_model()) : FakePipeline(of(std::move(model))) {}
  explicit FakePipeline(plan::Deployment deployment) : deployment_(std::move(deployment)) {
    status_.ready = true;
    status_.slots = 2;
    status_.queue_capacity = 4;
    status_.cards = {{"card0", "fpga0", "image0", pipeline::CardState::kUp, 0, 1, {}, 0, 0, 0.5}};
    status_.links = {{"channel0", "fpga0", "fpga1", 1, 2, 3, true}};
    worker_ = std::jthread([this](std::stop_token token) { work(token); });
  }
  ~FakePipeline() override { stop(std::chrono::milliseconds(0)); }

  // Tests set the functions and options below before the first request or while no request is running.
  std::function<void(pipeline::Frame&)> compute = echo;
  std::function<Status()> on_submit = [] { return Status(); };  // an error refuses the frame
  bool lets_wait = false;  // whether frames wait in the dispatcher while this pipeline is full

  std::function<Result<std::unique_ptr<Pipeline>>()> on_open_again = [] {
    return Error(ErrorCode::kUnsupported, "this fake is opened once");
  };
  Result<std::unique_ptr<Pipeline>> open_again() const override { return on_open_again(); }

  std::chrono::milliseconds retry = std::chrono::seconds(1);
  std::chrono::milliseconds retry_after() override { return retry; }

  std::function<void()> on_status = [] {};  // a test can block here, as a card that hangs blocks status()

  /// Makes frames wait until release().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  /// Fails every waiting frame with this error.
  void fail_waiting(const Error& error) {
    std::deque<pipeline::Frame*> failed;
    {
      const std::lock_guard lock(mutex_);
      failed.swap(queue_);
    }
    for (auto* frame : failed) complete(*frame, error);
  }
  /// After hold(), waits until `count` frames are in the queue, or until `count` frames have been cancelled.
  bool wait_for_queued(std::size_t count) {
    return wait([&] { return queue_.size() == count; });
  }
  bool wait_for_cancelled(std::size_t count) {
    return wait([&] { return cancelled_ == count; });
  }

  /// Changes the deployment's digest, so that the pipeline appears to have another deployment.
  void set_digest(const std::string& digest) { deployment_.digest = digest; }

  void set_ready(bool ready) {
    const std::lock_guard lock(mutex_);
    status_.ready = ready;
    status_.cards.front().state = ready ? pipeline::CardState::kUp : pipeline::CardState::kLost;
  }

  void set_sensors(const runtime::card::Sensors& sensors) {
    const std::lock_guard lock(mutex_);
    status_.cards.front().sensors = sensors;
  }
  void set_recent(std::vector<pipeline::FrameRecord> frames) {
    const std::lock_guard lock(mutex_);
    recent_ = std::move(frames);
  }

  const plan::Deployment& deployment() const override { return deployment_; }

  std::vector<pipeline::FrameRecord> recent_frames() override {
    const std::lock_guard lock(mutex_);
    return recent_;
  }

  Status submit(pipeline::Frame& frame) override {
    MILLRACE_TRY(on_submit());
    const std::lock_guard lock(mutex_);
    if (stopped_) return Error(ErrorCode::kUnavailable, "the pipeline is stopping");
    if (queue_.size() >= status_.queue_capacity)
      return Error(ErrorCode::kResourceExhausted, "the queue is full");
    queue_.push_back(&frame);
    changed_.notify_all();
    return {};
  }

  void watch(pipeline::Watcher* watcher) override { watcher_.store(watcher); }

  std::optional<Status> offer(pipeline::Frame& frame, pipeline::Clock::time_point) override {
    Status taken = submit(frame);
    if (lets_wait && !taken.ok() && taken.error().code() == ErrorCode::kResourceExhausted) return {};
    return taken;
  }

  void cancel(pipeline::Frame& frame) override {
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find(queue_.begin(), queue_.end(), &frame);
      if (found == queue_.end()) return;
      queue_.erase(found);
      ++cancelled_;
      changed_.notify_all();
    }
    complete(frame, Error(ErrorCode::kCancelled, "cancelled"));
  }

  bool ready() const override {
    const std::lock_guard lock(mutex_);
    return status_.ready;
  }

  pipeline::PipelineStatus status() override {
    on_status();
    const std::lock_guard lock(mutex_);
    status_.queued = static_cast<std::uint32_t>(queue_.size());
    status_.replicas_ready = status_.ready ? 1 : 0;
    return status_;
  }

  void stop(std::chrono::milliseconds bound) override {
    {
      std::unique_lock lock(mutex_);
      stopped_ = true;
      changed_.wait_for(lock, bound, [&] { return queue_.empty() && !busy_; });
    }
    fail_waiting(Error(ErrorCode::kUnavailable, "the pipeline is stopping"));
    worker_.request_stop();
    if (worker_.joinable()) worker_.join();
  }

 private:
  static plan::Deployment of(plan::ModelInfo model) {
    plan::Deployment out;
    out.model = std::move(model);
    out.digest = "d1g35t";
    out.endpoints = {{"host", true, "", ""}, {"card0", false, "ku060", "image0"}};
    plan::Partition partition;
    partition.name = "part0";
    partition.kind = plan::PartitionKind::kDataflow;
    partition.endpoint = "card0";
    partition.image = "image0";
    partition.nodes = {"conv"};
    out.partitions = {partition};
    return out;
  }

  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), condition);
  }

  void complete(pipeline::Frame& frame, Status status) {
    frame.status = std::move(status);
    frame.times = {std::chrono::microseconds(1), std::chrono::microseconds(2), std::chrono::microseconds(3),
                   std::chrono::microseconds(4)};
    frame.on_complete(frame, frame.context);
  }

  void work(const std::stop_token& token) {
    while (true) {
      pipeline::Frame* frame = nullptr;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, token, [&] { return !held_ && !queue_.empty(); })) return;
        frame = queue_.front();
        queue_.pop_front();
        busy_ = true;
      }
      if (pipeline::Watcher* const watcher = watcher_.load()) watcher->changed();
      serve(*frame);
      const std::lock_guard lock(mutex_);
      busy_ = false;
      changed_.notify_all();
    }
  }

  void serve(pipeline::Frame& frame) {
    if (frame.deadline < pipeline::Clock::now())
      return complete(frame, Error(ErrorCode::kDeadlineExceeded, "the deadline passed in the queue"));
    compute(frame);
    complete(frame, {});
  }

  plan::Deployment deployment_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::atomic<pipeline::Watcher*> watcher_{nullptr};
  pipeline::PipelineStatus status_;
  std::vector<pipeline::FrameRecord> recent_;
  std::deque<pipeline::Frame*> queue_;
  std::size_t cancelled_ = 0;
  bool held_ = false, stopped_ = false, busy_ = false;
  std::jthread worker_;
};

}  // namespace millrace::server::test
