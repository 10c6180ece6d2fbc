// One pipeline over cards: slots, the work of one frame, and the threads. Takes a frame only into a free
// slot; frames wait in the Dispatcher. Private to this folder and its tests.
//
// Sequence numbers are consecutive; frame n uses slot n % slots of every unit. Egress runs are started as
// soon as their slot is free, before their frame comes. So a result meets a waiting run, and a lost card ends
// that run, which reports the loss at once.
//
// Threads:
//   callers      submit(): host stages and ingress starts of a frame, under mutex_
//   one a card   waits for its egress runs in frame order or, without egress, for the supervisor; then runs
//                host stages, starts further ingress runs and calls on_complete
//   observer     reads the cards' counters for status()
//   recovery     deadlines; after a loss: fails frames, raises the epoch, reloads cards with back-off
//
// Order. For each late task, the run for frame n happens before the run for frame n + 1. Every run needs a
// result from each egress thread that the task depends on, and an egress thread finishes all work for frame n
// before it takes frame n + 1. So late tasks, and completions, need no lock to be in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/fast/executor.hpp"
#include "runtime/pipeline/fleet.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/pipeline/schedule.hpp"

namespace millrace::runtime::pipeline {

/// The timelines of the last frames. Any thread. note() never waits: a frame that ends while the records are read is not recorded.
class FrameLog {
 public:
  void note(const FrameRecord& record) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    records_[count_ % kKept] = record;
    ++count_;
  }

  /// The mean time from the end of one frame to the end of the next, over the frames of the last second before
  /// the last frame ended; at least the time since the last frame. Zero if there are too few records.
  std::chrono::nanoseconds pace(Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const std::uint64_t kept = std::min(count_, kKept);
    if (kept < 2) return std::chrono::nanoseconds(0);
    const auto done = [&](std::uint64_t before_last) {
      return records_[(count_ - 1 - before_last) % kKept].done;
    };
    const Clock::time_point last = done(0);
    std::uint64_t frames = 1;
    while (frames + 1 < kept && last - done(frames + 1) <= std::chrono::seconds(1)) ++frames;
    return std::max<std::chrono::nanoseconds>((last - done(frames)) / static_cast<std::int64_t>(frames),
                                              now - last);
  }

  /// Oldest first.
  std::vector<FrameRecord> read() const {
    const std::lock_guard lock(mutex_);
    std::vector<FrameRecord> out;
    out.reserve(std::min(count_, kKept));
    for (std::uint64_t i = count_ - std::min(count_, kKept); i < count_; ++i)
      out.push_back(records_[i % kKept]);
    return out;
  }

 private:
  static constexpr std::uint64_t kKept = 1024;

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;  // of all frames noted
  std::vector<FrameRecord> records_ = std::vector<FrameRecord>(kKept);
};

class Engine final : public Pipeline {
 public:
  Engine(std::shared_ptr<const plan::LoadedDeployment> deployment, plan::Cluster cluster,
         const PipelineOptions& options, Schedule schedule, Binding binding);
  ~Engine() override;

  /// Opens and loads the cards, starts the threads.
  Status start(const CardSource& source);

  const plan::Deployment& deployment() const override { return deployment_->plan; }
  Status submit(Frame& frame) override;
  Status check_frame(const Frame& frame) const override;
  std::uint32_t room() const override;
  std::optional<Status> offer(Frame& frame, Clock::time_point submitted) override;
  void watch(Watcher* watcher) override { watcher_.store(watcher); }
  void cancel(Frame&) override {}  // its frames are on the cards
  Error why_unavailable() const override;
  bool ready() const override { return phase_.load() == Phase::kRunning && !stopping_.load(); }
  std::chrono::milliseconds retry_after() override;
  std::chrono::nanoseconds pace() override { return frame_log_.pace(Clock::now()); }
  PipelineStatus status() override;
  std::vector<FrameRecord> recent_frames() override { return frame_log_.read(); }
  Result<std::unique_ptr<Pipeline>> open_again() const override {
    return open(deployment_, cluster_, options_, 1, source_);
  }
  void stop(std::chrono::milliseconds bound) override;

 private:
  enum class Phase : std::uint8_t { kStarting, kRunning, kFlushing, kStopped };
  bool ending() const { return phase_.load() == Phase::kStopped; }

  struct Slot {
    std::atomic<Frame*> frame{nullptr};          // the thread that completes the frame exchanges it for null
    std::atomic<std::uint64_t> staged{0};        // 1 + sequence, once all below is written
    std::atomic<std::uint32_t> threads_left{0};  // egress threads that have not started the slot's next runs
    std::atomic<Clock::time_point> computed{};   // when the last result came
    // Written under mutex_ at staging:
    std::uint32_t epoch = 0;
    Clock::time_point deadline, submitted, taken, started;
    FrameTimes times;
    // Each value has one writer a frame; its readers come later in the order above:
    std::vector<std::vector<std::byte>>
        storage;                           // by value; empty for model inputs that only early tasks read
    std::vector<const std::byte*> values;  // by value: where it is read
    std::vector<std::atomic<std::uint32_t>> waits;  // by task: late values still missing
  };

  struct Stage {
    kernels::fast::Executor executor;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
  };

  struct CardThread {
    std::atomic<bool> lost{true};  // or not up yet
    // Protected by mutex_:
    bool parked = false;      // the thread does not use the card
    bool in_session = false;  // the thread waits for egress runs
    std::uint64_t restarts = 0;
    std::thread thread;
  };

  // engine.cpp: one frame.
  void stage(Frame& frame, Clock::time_point submitted);
  Error refusal() const;                          // mutex_ is held
  void wake_recovery_at(Clock::time_point time);  // mutex_ is held
  void run_stage(Slot& slot, std::uint32_t index);
  void load_ingress(std::uint64_t sequence, std::uint32_t index);
  Status start_ingress(std::uint64_t sequence, std::uint32_t index);
  void arrived(std::uint64_t sequence, std::uint32_t value);
  void finish(std::uint64_t sequence);
  void free_slot(std::uint64_t sequence);
  void complete(Frame& frame, Status status);
  bool has_free_slot();  // for the next frame; mutex_ is held
  void tell_watcher();   // mutex_ is not held
  Slot& slot_of(std::uint64_t sequence) { return slots_[sequence % options_.slots]; }
  std::uint32_t slot_index(std::uint64_t sequence) const {
    return static_cast<std::uint32_t>(sequence % options_.slots);
  }

  // card_thread.cpp: what a card's thread does.
  void card_loop(std::uint32_t position);
  void serve_results(std::uint32_t position, std::uint64_t first, std::uint32_t epoch);
  bool take_result(std::uint32_t position, std::uint32_t index, std::uint64_t sequence, std::uint32_t epoch);
  void drain_results(std::uint32_t position);
  bool arm(std::uint32_t position, std::uint64_t sequence, std::uint32_t epoch);
  std::string read_fault(std::uint32_t position);  // after its supervisor's run ended
  void report_loss(std::optional<std::uint32_t> position, const std::string& reason);
  void note_loss(std::optional<std::uint32_t> position, const std::string& reason);  // mutex_ is held

  // recovery.cpp: deadlines, recovery, stop.
  void run_recovery();
  void expire(std::unique_lock<std::mutex>& lock);
  void watch_oldest();  // mutex_ is held
  void fail_frame(std::unique_lock<std::mutex>& lock, Slot& slot, const Error& error);
  void fail_all(const Error& error);
  void recover();
  void flush();
  void at_all_cards(const std::function<void(std::uint32_t)>& action);
  void wait_until_quiet();
  void wait_for_runs(std::uint32_t position);
  bool back_off();
  std::chrono::milliseconds longer_backoff() const;
  bool bring_back();
  bool resume();
  void log_losses();
  bool is_new(const std::string& text);
  /// A log line that names the model, of which a server has several.
  std::string with_model(const std::string& text) const;
  void end_threads();

  // Constant after construction:
  const std::shared_ptr<const plan::LoadedDeployment> deployment_;
  const plan::Cluster cluster_;
  const PipelineOptions options_;
  const Schedule schedule_;
  CardSource source_;                   // from start() on
  std::uint32_t egress_positions_ = 0;  // cards with an egress unit
  Fleet fleet_;

  std::vector<Slot> slots_;
  FrameLog frame_log_;
  std::vector<Stage> stages_;
  std::vector<CardThread> card_threads_;  // by position
  std::thread recovery_thread_;

  std::atomic<Phase> phase_{Phase::kStarting};  // written under mutex_
  std::atomic<std::uint64_t> session_{0};       // raised whenever the cards (re)start; written under mutex_
  std::atomic<std::uint32_t> epoch_{0};         // likewise
  std::atomic<std::uint64_t> done_{0};          // frames whose slot is free again
  std::atomic<std::uint64_t> completed_{0}, failed_{0};
  std::atomic<Clock::time_point> next_try_{};    // to bring lost cards back
  std::atomic<bool> stopping_{false};            // submit() refuses
  std::atomic<std::uint64_t> next_sequence_{0};  // written under mutex_
  std::atomic<Watcher*> watcher_{nullptr};

  mutable std::mutex mutex_;
  std::condition_variable recovery_wake_;  // loss, an earlier deadline, a thread that parked, the end
  std::condition_variable card_wake_;      // a card is back, a session began, the end
  std::condition_variable drained_;        // stop() waits for frames
  Clock::time_point stop_by_ = Clock::time_point::max();  // the earliest bound it was given
  // Protected by mutex_:
  std::uint64_t session_first_ = 0;  // first sequence of the session
  Clock::time_point next_expiry_ = Clock::time_point::max();
  Clock::time_point last_resume_;
  std::string lost_reason_;
  std::vector<std::string> unlogged_losses_;  // logged later, without mutex_
  bool stuck_before_ = false;                 // frames did not come back, in a session before this one

  // Of the recovery thread:
  std::chrono::milliseconds backoff_{0};
  std::map<std::string, Clock::time_point> logged_;  // losses logged lately

  std::optional<Observer> observer_;  // from start() on
};

}  // namespace millrace::runtime::pipeline
