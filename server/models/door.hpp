// The way into one version's pipeline. Open, it costs a frame one atomic load. Closed, frames wait in it,
// bounded, within their deadlines, and in the order and with the rights they have in a pipeline's queue; then
// they go on here, or on the version that took this one's place, or fail. It is a Pipeline itself, for those
// who need not know.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/pipeline/frame_queue.hpp"
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
  /// As fail_all(), and the pipeline behind stops. Also while another thread swaps.
  void stop(std::chrono::milliseconds bound) override;

  // By one thread at a time, the one that swaps, but for fail_all(), which any thread may call:

  /// From now on frames wait; those behind it complete.
  void close();

  /// What waits goes on through the other model's door, the most urgent first, then what comes. Returns when
  /// nothing waits any more. `next` must not lead back here.
  void lead_to(std::shared_ptr<Model> next);

  /// What waits and what comes fails with this.
  void fail_all(const Error& error);

  runtime::pipeline::Pipeline& behind() const { return *behind_; }

  /// The pipeline behind completes what it has within `bound` and gives its cards back.
  void finish(std::chrono::milliseconds bound) { behind_->stop(bound); }

 private:
  enum class State : std::uint8_t { kOpen, kClosed, kMoved, kGone };
  using Entry = runtime::pipeline::FrameQueue::Entry;  // `with`: the passage

  Status submit_slowly(runtime::pipeline::Frame& frame, Passage* passage);
  Status pass_on(runtime::pipeline::Frame& frame, Passage* passage, const std::shared_ptr<Model>& next) const;
  void keep_deadlines(const std::stop_token& stop);
  // mutex_ is held; an empty entry where there is none:
  Entry take_first();
  Entry take_expired(runtime::pipeline::Clock::time_point now);
  runtime::pipeline::Clock::time_point earliest_deadline() const;

  const std::shared_ptr<runtime::pipeline::Pipeline> behind_;
  const std::uint32_t capacity_;
  std::atomic<State> state_{State::kOpen};  // written under mutex_

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Protected by mutex_:
  std::optional<runtime::pipeline::FrameQueue> waiting_;  // from close() on, until what waits has gone
  Entry in_hand_;                // goes before all that waits: the next version had no place for it just now
  std::shared_ptr<Model> next_;  // kMoved, and while what waits moves
  // When the timer looks again.
  runtime::pipeline::Clock::time_point next_expiry_ = runtime::pipeline::Clock::time_point::max();
  std::optional<Error> reason_;  // kGone

  std::optional<std::jthread> timer_;  // from close() to the end; joined by whoever takes it out
};

}  // namespace millrace::server::models
