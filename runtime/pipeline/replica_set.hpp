// The replicas behind a dispatcher: pipelines of one deployment, each on different cards. No frames wait in a
// ReplicaSet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Only one thread at a time may call add() and retire(). After the first add(), any thread may call all other
/// functions. Only the owner of the set uses the replicas.
class ReplicaSet {
 public:
  /// All replicas notify `watcher`, which must live until all replicas have stopped.
  explicit ReplicaSet(Watcher& watcher) : watcher_(watcher) {}

  void add(std::shared_ptr<Pipeline> replica);

  /// Stops using the oldest replica and returns it; the caller stops it. Returns null if there is only one replica. A
  /// later add() or retire() destroys the replica when nobody holds it and no thread is inside it any more.
  std::shared_ptr<Pipeline> retire();

  std::size_t size() const { return replicas_.load()->size(); }
  bool any_ready() const;

  /// Returns why no replica accepts frames while any_ready() is false.
  Error why_unavailable() const;

  /// Checks the frame's tensors as a replica does.
  Status check_frame(const Frame& frame) const { return replicas_.load()->front()->check_frame(frame); }

  /// Offers the frame to the replica with the most free slots (rooms for one frame each); equally free replicas take
  /// turns. Returns the replica's answer, or nothing if the frame has to wait for a free slot. Allocates nothing.
  std::optional<Status> offer(Frame& frame, Clock::time_point submitted);

  /// Returns the time until `waiting` frames have started, at the recent rate of frames. If no replica is
  /// ready, returns the time until the next attempt to recover a replica.
  std::chrono::milliseconds retry_after(std::uint32_t waiting) const;

  void cancel(Frame& frame);
  PipelineStatus status() const;  // sums over the replicas; the cards and links of all replicas
  std::vector<FrameRecord> recent_frames() const;
  Result<std::unique_ptr<Pipeline>> open_again() const { return replicas_.load()->front()->open_again(); }
  void stop(Clock::time_point end);  // stops all replicas at once

 private:
  using Replicas = std::vector<std::shared_ptr<Pipeline>>;  // the oldest first

  void replace(Replicas next);

  Watcher& watcher_;
  // A thread that uses a replica holds a reference to the list in which it found the replica.
  std::atomic<std::shared_ptr<const Replicas>> replicas_{std::make_shared<const Replicas>()};
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<std::uint64_t> recoveries_before_{0};  // of retired replicas, so that counters never fall
  std::atomic<double> recovery_seconds_before_{0};
  Replicas retired_;  // owned by the thread that retires; a thread that leaves a replica must not destroy it
};

}  // namespace millrace::runtime::pipeline
