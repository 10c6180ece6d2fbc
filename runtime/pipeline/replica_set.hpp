// The pipelines behind a dispatcher: replicas of one deployment, each on cards of its own. No frame waits
// here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Threads: add() and retire() by one at a time; everything else by any. Only the owner uses the replicas.
class ReplicaSet {
 public:
  static constexpr std::size_t kMost = 256;

  /// `watcher` hears from every replica. It must live until all replicas have stopped.
  explicit ReplicaSet(Watcher& watcher) : watcher_(watcher) {}

  /// kResourceExhausted beyond kMost. Retired replicas that somebody still holds count.
  Status add(std::shared_ptr<Pipeline> replica);

  /// Gives the oldest replica no more frames and returns it; the caller stops it. Null if there is none. A
  /// later add() or retire() destroys the replica once nobody holds it and no thread is inside it any more.
  std::shared_ptr<Pipeline> retire();

  /// Replicas that are given frames.
  std::size_t size() const;
  bool any_ready() const;

  /// Why no replica takes frames, where any_ready() is false.
  Error why_unavailable() const;

  /// Offers the frame to the replica with most free slots, and to equally free ones in turn. Returns what the
  /// replica said; nothing if the frame has to wait for a free slot. Allocates nothing.
  std::optional<Status> offer(Frame& frame, Clock::time_point submitted);

  /// Until `waiting` frames have found a slot at the recent pace; where no replica is ready, until the next
  /// attempt to recover one.
  std::chrono::milliseconds retry_after(std::uint32_t waiting) const;

  void cancel(Frame& frame);
  PipelineStatus status() const;  // the sum; cards and links of one replica after those of another
  std::vector<FrameRecord> recent_frames() const;
  void stop(Clock::time_point end);  // all at once

 private:
  /// Held by a thread while it uses a pointer from active_ without mutex_. A replica retired meanwhile is not
  /// destroyed.
  class Visit {
   public:
    explicit Visit(const ReplicaSet& set)
        : count_(set.visits_[set.current_visits_.load(std::memory_order_relaxed)]) {
      count_.fetch_add(1);
    }
    ~Visit() { count_.fetch_sub(1); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  struct Owned {
    std::shared_ptr<Pipeline> replica;  // null: the index is free
    std::uint64_t age = 0;              // replicas added before it
  };

  std::optional<Status> offer_once(Frame& frame, Clock::time_point submitted);
  bool wait_for_visits();
  void destroy_retired();
  std::vector<std::shared_ptr<Pipeline>> owned(bool with_retired) const;

  Watcher& watcher_;
  std::array<std::atomic<Pipeline*>, kMost> active_{};  // by index in owned_; null: retired, or never used
  std::atomic<std::uint32_t> used_{0};                  // indices of active_ in use
  std::atomic<std::uint32_t> turn_{0};
  // Replicas ever added. A thread that found all replicas gone looks again if this has grown meanwhile: the new
  // replica may have come after the thread looked at its place, and the others gone before it looked at theirs.
  std::atomic<std::uint64_t> added_{0};
  // New visits count in one of the two while wait_for_visits() waits until the other is 0.
  mutable std::array<std::atomic<std::uint32_t>, 2> visits_{};
  std::atomic<std::uint32_t> current_visits_{0};

  mutable std::mutex mutex_;
  // Protected by mutex_:
  std::vector<Owned> owned_;
};

}  // namespace millrace::runtime::pipeline
