// Several pipelines over the same deployment as one, each on cards of its own.
//
//   submit(frame) -> the replica with most free slots, of equal ones each in turn
//        └── none has a slot free -> one queue for all -> whoever frees a slot
//
// Each frame completes by itself, as its own replica is done with it: nobody waits for a frame of another
// replica. A replica that loses a card fails its own frames in flight and is passed over until it is back;
// frames in the queue go to the others. Only where all are lost do frames fail, and submit() refuses.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/pipeline/frame_queue.hpp"
#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Threads: as Pipeline; add() and retire() by one at a time. The replicas are used by nobody else.
class Replicas final : public Pipeline {
 public:
  static constexpr std::size_t kMost = 256;

  /// `queue_capacity`: frames that wait for a slot of any replica; the replicas' own queues stay empty.
  Replicas(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity);
  ~Replicas() override;  // as stop(0)

  /// kResourceExhausted beyond kMost, those counted that were retired and that somebody holds still.
  Status add(std::shared_ptr<Pipeline> pipeline);

  /// Takes the one that was added first out of turn and hands it over, to be stopped: frames it has complete
  /// there. The last one serves the queue empty first, for at most `bound`; what waits then fails. Null where
  /// there is none. It keeps its place until an add() or retire() after whoever got it has let it go and no
  /// thread is inside it any more; then it is stopped, if it was not, and ends.
  std::shared_ptr<Pipeline> retire(std::chrono::milliseconds bound);

  /// Those in turn.
  std::size_t size() const;

  /// How many there should be, which whoever adds and retires knows; 1 until it is said. Any thread.
  void want(std::uint32_t count) { wanted_.store(count); }
  std::uint32_t wanted() const { return wanted_.load(); }

  const plan::Deployment& deployment() const override { return first_->deployment(); }
  Status submit(Frame& frame) override;
  void cancel(Frame& frame) override;
  bool ready() const override;  // one of them is
  std::chrono::milliseconds retry_after() override;
  PipelineStatus status() override;  // the sum; cards and links of one replica behind those of another
  std::vector<FrameRecord> recent_frames() override;
  Result<std::unique_ptr<Pipeline>> open_again() const override { return first_->open_again(); }
  void stop(std::chrono::milliseconds bound) override;

 private:
  /// What a replica says when it could take a frame again, or is lost.
  struct Ear final : Watcher {
    Replicas* owner = nullptr;
    void changed() override { owner->changed(); }
  };

  /// Whoever uses what he reads in in_turn_ without mutex_ has one of these as long as he does: what was
  /// taken out of turn since then does not end.
  class Visit {
   public:
    explicit Visit(const Replicas& replicas)
        : count_(replicas.visits_[replicas.visits_now_.load(std::memory_order_relaxed)]) {
      count_.fetch_add(1);
    }
    ~Visit() { count_.fetch_sub(1); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  struct Place {
    std::shared_ptr<Pipeline> pipeline;  // null: free
    std::uint64_t added = 0;             // how many were before it
  };

  bool visits_ended();
  void free_places();
  std::vector<std::shared_ptr<Pipeline>> in_turn() const;
  std::optional<Status> offer_to_any(Frame& frame, Clock::time_point submitted);
  void give_out(std::unique_lock<std::mutex>& lock);
  void changed();
  void keep();
  void expire(std::unique_lock<std::mutex>& lock);
  void fail_waiting(std::unique_lock<std::mutex>& lock, const Error& error);
  void fail(const FrameQueue::Entry& entry, Status status);
  FrameQueue::Entry pop();  // mutex_ is held
  bool any_up() const;
  std::vector<std::shared_ptr<Pipeline>> owned() const;

  const std::shared_ptr<Pipeline> first_;
  const std::uint32_t queue_capacity_;
  Ear ear_;
  std::array<std::atomic<Pipeline*>, kMost> in_turn_{};  // by place; null: retired, or not there yet
  std::atomic<std::uint32_t> places_{0}, turn_{0};
  // Those who come count in one of the two while it is waited for that the other becomes 0.
  mutable std::array<std::atomic<std::uint32_t>, 2> visits_{};
  std::atomic<std::uint32_t> visits_now_{0};
  std::atomic<std::uint32_t> wanted_{1};
  std::atomic<std::uint32_t> waiting_{0};  // frames in queue_; written under mutex_
  std::atomic<std::uint64_t> failed_{0};   // frames that failed in the queue
  std::atomic<bool> stopping_{false};      // written under mutex_

  mutable std::mutex mutex_;         // never taken by who holds a replica's own
  std::condition_variable wake_;     // an earlier deadline, the end
  std::condition_variable drained_;  // the queue is empty
  // Protected by mutex_:
  std::vector<Place> owned_;
  std::uint64_t added_ = 0;
  FrameQueue queue_;
  Clock::time_point next_expiry_ = Clock::time_point::max();
  Clock::time_point stop_by_ = Clock::time_point::max();  // the earliest bound stop() was given
  bool ending_ = false;

  std::thread keeper_;  // deadlines of what waits
};

/// Opens so many pipelines over a deployment, bound together so that all get cards; one alone as it is, more
/// as Replicas with one queue of options.queue_capacity. All or none; errors as of Pipeline::open().
Result<std::unique_ptr<Pipeline>> open_replicas(
    const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
    const PipelineOptions& options, std::uint32_t replicas);

}  // namespace millrace::runtime::pipeline
