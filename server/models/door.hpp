// The way into one version's pipeline. Open, it costs a frame one atomic load. Closed, frames wait in it,
// bounded and within their deadlines; then they go on here, or on the version that took this one's place, or
// fail. It is a Pipeline itself, for those who need not know.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::server::models {

class Model;

/// What a frame's owner allows, and learns.
struct Passage {
  /// The model the frame was submitted to. Where another one takes it, that one is written here, before
  /// on_complete.
  std::shared_ptr<Model> model;
  bool any_version = false;  // a version with another name will do
};

class Door final : public runtime::pipeline::Pipeline {
 public:
  /// `capacity`: frames that may wait while it is closed.
  Door(std::shared_ptr<runtime::pipeline::Pipeline> behind, std::uint32_t capacity);
  ~Door() override;

  const runtime::plan::Deployment& deployment() const override { return behind_->deployment(); }

  /// Without a passage a frame goes on only where the very same deployment is behind the other door.
  Status submit(runtime::pipeline::Frame& frame) override { return submit(frame, nullptr); }

  /// `passage` must live until on_complete.
  Status submit(runtime::pipeline::Frame& frame, Passage* passage);
  void cancel(runtime::pipeline::Frame& frame) override;

  /// Also while it is closed: frames are taken.
  bool ready() const override;
  std::chrono::milliseconds retry_after() override { return behind_->retry_after(); }
  runtime::pipeline::PipelineStatus status() override;
  std::vector<runtime::pipeline::FrameRecord> recent_frames() override { return behind_->recent_frames(); }
  /// As fail_all(), and the pipeline behind stops.
  void stop(std::chrono::milliseconds bound) override;

  // By one thread at a time, the one that swaps:

  /// From now on frames wait; those behind it complete.
  void close();

  /// What waits goes on through the other model's door, in order, then what comes. Returns when nothing waits
  /// any more. `next` must not lead back here.
  void lead_to(std::shared_ptr<Model> next);

  /// What waits and what comes fails with this.
  void fail_all(const Error& error);

  runtime::pipeline::Pipeline& behind() const { return *behind_; }

  /// The pipeline behind completes what it has within `bound` and gives its cards back.
  void finish(std::chrono::milliseconds bound) { behind_->stop(bound); }

 private:
  enum class State : std::uint8_t { kOpen, kClosed, kMoved, kGone };
  struct Waiting {
    runtime::pipeline::Frame* frame = nullptr;
    Passage* passage = nullptr;
    runtime::pipeline::Clock::time_point deadline;
  };

  Status submit_slowly(runtime::pipeline::Frame& frame, Passage* passage);
  Status pass_on(runtime::pipeline::Frame& frame, Passage* passage, const std::shared_ptr<Model>& next) const;
  void keep_deadlines(const std::stop_token& stop);
  std::optional<Waiting> take_first();

  const std::shared_ptr<runtime::pipeline::Pipeline> behind_;
  const std::uint32_t capacity_;
  std::atomic<State> state_{State::kOpen};  // written under mutex_

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Protected by mutex_:
  std::deque<Waiting> waiting_;
  std::shared_ptr<Model> next_;  // kMoved, and while what waits moves
  std::uint64_t arrivals_ = 0;   // frames that ever waited
  std::optional<Error> reason_;  // kGone

  std::optional<std::jthread> timer_;  // from close() to the end; of the swapping thread
};

}  // namespace millrace::server::models
