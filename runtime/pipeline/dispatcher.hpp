// The only queue of a deployment. In it, frames wait for a slot (the room for one frame on the cards) in one
// of the deployment's replicas.
//
//   submit() ─▶ the replica with most free slots
//      └─ all slots taken ─▶ queue ─▶ the replica that frees a slot
//      └─ hold() was called ─▶ held frames ─▶ hand_over(): the successor, the next version of the model
//
// A replica that loses a card fails the frames on its cards; waiting frames go to other replicas. If all
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

/// Receives frames from a dispatcher after Dispatcher::hand_over(). Any thread may use it.
class Successor {
 public:
  virtual ~Successor() = default;
  virtual Status submit(Frame& frame) = 0;  // behaves like Pipeline::submit()
  virtual void cancel(Frame& frame) = 0;
};

/// Any thread may call the functions of Pipeline, refuse() and finish(). Only one thread at a time may call add(),
/// retire(), hold() and hand_over(). Only the dispatcher uses its replicas.
class Dispatcher final : public Pipeline, private Watcher {
 public:
  /// Opens `replicas` pipelines for a deployment, each on different cards. Opens all or none. Fails like
  /// Pipeline::open().
  static Result<std::unique_ptr<Dispatcher>> open(
      const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
      const PipelineOptions& options, std::uint32_t replicas = 1);

  /// `queue_capacity` limits the frames that wait for a slot and, after hold(), the frames held for the successor.
  Dispatcher(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity);
  ~Dispatcher() override;  // calls stop(0)

  // The functions below change the replicas.

  /// Adds a replica, which receives frames from this call on.
  void add(std::shared_ptr<Pipeline> replica);

  /// Retires a replica like ReplicaSet::retire(), but never returns the last replica; finish() stops that replica.
  std::shared_ptr<Pipeline> retire() { return replicas_.retire(); }

  std::size_t size() const { return replicas_.size(); }

  /// Records the number of replicas that the caller of add() and retire() wants; initially 1. Any thread may call it.
  void want(std::uint32_t count) { wanted_.store(count); }
  std::uint32_t wanted() const { return wanted_.load(); }

  // The functions below switch from this model version to the next. Frames that this version accepted complete here.

  /// Holds new frames from this call on, until hand_over(), refuse() or their deadlines.
  void hold();

  /// Passes held frames to the successor, the most urgent first, and then all new frames. The successor
  /// accepts held frames even if its queue is full. `successor` must not pass frames back to this dispatcher.
  void hand_over(std::shared_ptr<Successor> successor);

  /// Fails held frames with `error`. Also fails frames that arrive later, unless there is a successor.
  void refuse(const Error& error);

  /// Completes all accepted frames except held ones within `bound`, fails the rest and releases the cards. Must be
  /// called after hold(), hand_over() or refuse().
  void finish(std::chrono::milliseconds bound);

  // The functions below implement Pipeline.
  const plan::Deployment& deployment() const override { return deployment_; }
  Status submit(Frame& frame) override;
  void cancel(Frame& frame) override;
  bool ready() const override;  // also true while frames are held
  std::chrono::milliseconds retry_after() override { return replicas_.retry_after(waiting_.load()); }
  PipelineStatus status() override;
  std::vector<FrameRecord> recent_frames() override { return replicas_.recent_frames(); }
  Result<std::unique_ptr<Pipeline>> open_again() const override { return replicas_.open_again(); }
  void stop(std::chrono::milliseconds bound) override;  // calls refuse() and finish()

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
  void queue_changed();  // called with mutex_ held

  const plan::Deployment deployment_;
  const std::uint32_t queue_capacity_;
  ReplicaSet replicas_;
  std::atomic<State> state_{State::kServing};  // written under mutex_
  std::atomic<std::uint32_t> wanted_{1};
  std::atomic<std::uint32_t> waiting_{0};  // frames in queue_; written under mutex_
  std::atomic<std::uint64_t> failed_{0};   // frames that failed while they waited

  std::mutex mutex_;                  // must not be locked by a thread that holds a replica's mutex
  std::condition_variable_any wake_;  // notified when next_expiry_ becomes earlier
  std::condition_variable drained_;   // notified when queue_ is empty or stop_by_ is earlier
  std::condition_variable handed_;    // notified when in_hand_ changes
  // mutex_ protects the members below.
  FrameQueue queue_;                // frames that wait for a slot of a replica
  FrameQueue held_;                 // frames that wait for the successor
  const Frame* in_hand_ = nullptr;  // the held frame that the successor is receiving now
  std::shared_ptr<Successor> successor_;
  Error refusal_{ErrorCode::kUnavailable, ""};  // the error for new frames in the state kRefusing
  Clock::time_point next_expiry_ = Clock::time_point::max();
  Clock::time_point stop_by_ = Clock::time_point::max();  // the earliest bound passed to finish()
  bool finishing_ = false, stopping_replicas_ = false;

  std::jthread expiry_;  // fails waiting frames at their deadlines
};

}  // namespace millrace::runtime::pipeline
