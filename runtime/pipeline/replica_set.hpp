// The pipelines behind a dispatcher: replicas of one deployment, each on cards of its own. No frame waits
// here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Threads: add() and retire() by one at a time; everything else by any, after the first add(). Only the owner
/// uses the replicas.
class ReplicaSet {
 public:
  /// `watcher` hears from every replica. It must live until all replicas have stopped.
  explicit ReplicaSet(Watcher& watcher) : watcher_(watcher) {}

  void add(std::shared_ptr<Pipeline> replica);

  /// Gives the oldest replica no more frames and returns it; the caller stops it. Null if it is the only one.
  /// A later add() or retire() destroys the replica once nobody holds it and no thread is inside it any more.
  std::shared_ptr<Pipeline> retire();

  std::size_t size() const { return replicas_.load()->size(); }
  bool any_ready() const;

  /// Why no replica takes frames, where any_ready() is false.
  Error why_unavailable() const;

  /// What a replica says of the frame's tensors.
  Status check_frame(const Frame& frame) const { return replicas_.load()->front()->check_frame(frame); }

  /// Offers the frame to the replica with most free slots, and to equally free ones in turn. Returns what the
  /// replica said; nothing if the frame has to wait for a free slot. Allocates nothing.
  std::optional<Status> offer(Frame& frame, Clock::time_point submitted);

  /// Until `waiting` frames have found a slot at the recent pace; where no replica is ready, until the next
  /// attempt to recover one.
  std::chrono::milliseconds retry_after(std::uint32_t waiting) const;

  void cancel(Frame& frame);
  PipelineStatus status() const;  // the sum; cards and links of one replica after those of another
  std::vector<FrameRecord> recent_frames() const;
  Result<std::unique_ptr<Pipeline>> open_again() const { return replicas_.load()->front()->open_again(); }
  void stop(Clock::time_point end);  // all at once

 private:
  using Replicas = std::vector<std::shared_ptr<Pipeline>>;  // the oldest first

  void replace(Replicas next);

  Watcher& watcher_;
  // A thread that is inside a replica holds the list in which it found the replica.
  std::atomic<std::shared_ptr<const Replicas>> replicas_{std::make_shared<const Replicas>()};
  std::atomic<std::uint32_t> turn_{0};
  Replicas retired_;  // of the thread that adds and retires; the last thread to leave must not destroy them
};

}  // namespace millrace::runtime::pipeline
