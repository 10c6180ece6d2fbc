// Where the frames of a deployment wait: the one queue in front of its replicas, one or several.
//
//   submit() ─▶ the replica with most free slots
//      └─ all slots taken ─▶ queue ─▶ the replica that frees a slot
//      └─ hold() was called ─▶ held frames ─▶ hand_over(): the successor, the next version of the model
//
// A replica that loses a card fails the frames it has in flight; waiting frames go to the others. If all
// replicas are lost, waiting frames fail and submit() refuses.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/pipeline/frame_queue.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/pipeline/replica_set.hpp"

namespace millrace::runtime::pipeline {

/// Takes the frames of a dispatcher that handed over. Any thread.
class Successor {
 public:
  virtual ~Successor() = default;
  virtual Status submit(Frame& frame) = 0;  // as Pipeline::submit()
  virtual void cancel(Frame& frame) = 0;
};

/// Threads: any may call the functions of Pipeline, refuse() and finish(); add(), retire(), hold() and
/// hand_over() by one at a time. The dispatcher alone uses its replicas.
class Dispatcher final : public Pipeline, private Watcher {
 public:
  /// Opens `replicas` pipelines over a deployment, each on cards of its own: all of them, or none. Errors as of
  /// Pipeline::open().
  static Result<std::unique_ptr<Dispatcher>> open(
      const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
      const PipelineOptions& options, std::uint32_t replicas = 1);

  /// `queue_capacity`: frames that may wait for a slot and, from hold() on, as many for the successor.
  Dispatcher(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity);
  ~Dispatcher() override;  // as stop(0)

  // Replicas.

  /// The replica serves frames from now on.
  void add(std::shared_ptr<Pipeline> replica);

  /// As ReplicaSet::retire(). The last replica is not retired; finish() stops it.
  std::shared_ptr<Pipeline> retire() { return replicas_.retire(); }

  std::size_t size() const { return replicas_.size(); }

  /// The number of replicas that the caller of add() and retire() aims at; 1 until it is set. Any thread.
  void want(std::uint32_t count) { wanted_.store(count); }
  std::uint32_t wanted() const { return wanted_.load(); }

  // From this version of the model to the next. Frames accepted before always complete here.

  /// From now on frames are held until hand_over() or refuse(), within their deadlines.
  void hold();

  /// Gives held frames to the successor, the most urgent first, then what comes. A full queue of the
  /// successor takes the held frames all the same. `successor` must not lead back here.
  void hand_over(std::shared_ptr<Successor> successor);

  /// Held frames, and those that come from now on unless there is a successor, fail with `error`.
  void refuse(const Error& error);

  /// Completes accepted frames, but for held ones, within `bound`, fails the rest and releases the cards.
  /// Call it after hold(), hand_over() or refuse().
  void finish(std::chrono::milliseconds bound);

  // As Pipeline:
  const plan::Deployment& deployment() const override { return deployment_; }
  Status submit(Frame& frame) override;
  void cancel(Frame& frame) override;
  bool ready() const override;  // also while frames are held
  std::chrono::milliseconds retry_after() override { return replicas_.retry_after(waiting_.load()); }
  PipelineStatus status() override;
  std::vector<FrameRecord> recent_frames() override { return replicas_.recent_frames(); }
  Result<std::unique_ptr<Pipeline>> open_again() const override { return replicas_.open_again(); }
  void stop(std::chrono::milliseconds bound) override;  // refuse() and finish()

 private:
  enum class State : std::uint8_t { kServing, kHolding, kHandedOver, kRefusing };
  using Lock = std::unique_lock<std::mutex>;

  Status submit_slowly(Frame& frame, bool handed_over, Clock::time_point now);
  Status queue(Lock& lock, FrameQueue& in, Frame& frame, bool handed_over, Clock::time_point now);
  void give_out(Lock& lock);
  void changed() override;
  void expire(const std::stop_token& stop);
  void fail(const FrameQueue::Entry& entry, Status status);
  void fail_all(Lock& lock, FrameQueue& in, const Error& error);
  void queue_changed();  // mutex_ is held

  const plan::Deployment deployment_;
  const std::uint32_t queue_capacity_;
  ReplicaSet replicas_;
  std::atomic<State> state_{State::kServing};  // written under mutex_
  std::atomic<std::uint32_t> wanted_{1};
  std::atomic<std::uint32_t> waiting_{0};  // frames in queue_; written under mutex_
  std::atomic<std::uint64_t> failed_{0};   // frames that failed while they waited

  std::mutex mutex_;                  // a thread that holds a replica's mutex must not take it
  std::condition_variable_any wake_;  // an earlier deadline
  std::condition_variable drained_;   // queue_ is empty, or an earlier bound was given
  std::condition_variable handed_;    // in_hand_ has changed
  // Protected by mutex_:
  FrameQueue queue_;                // frames that wait for a slot here
  FrameQueue held_;                 // frames that wait for the successor
  const Frame* in_hand_ = nullptr;  // the held frame that the successor is being given
  std::shared_ptr<Successor> successor_;
  Error refusal_{ErrorCode::kUnavailable, ""};  // kRefusing
  Clock::time_point next_expiry_ = Clock::time_point::max();
  Clock::time_point stop_by_ = Clock::time_point::max();  // the earliest bound finish() was given
  bool finishing_ = false, stopping_replicas_ = false;

  std::jthread expiry_;  // fails waiting frames at their deadlines
};

}  // namespace millrace::runtime::pipeline
