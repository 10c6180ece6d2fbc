// One pipeline on cards: its slots, the work for each frame, and the threads. Accepts a frame only if a slot
// is free; frames wait in the Dispatcher. Private to this folder and its tests.
//
// Sequence numbers are consecutive; frame n uses slot n % slots of every unit. Egress runs are started as
// soon as their slot is free, before the frame comes. So the card always finds a run for a result; and if a
// card is lost, XRT ends the waiting run, which reports the loss immediately.
//
// Threads:
//   callers      submit(): host stages and ingress starts of a frame, under mutex_
//   per card     waits for the card's egress runs in frame order or, without egress, for the supervisor; then runs
//                host stages, starts further ingress runs and calls on_complete
//   observer     reads the cards' counters for status()
//   recovery     deadlines; after a loss: fails frames, raises the epoch, reloads cards with back-off
//
// Order. A task is late if it reads a value that comes from a card, directly or through a host stage. For each late
// task, the run for frame n happens before the run for frame n + 1. Every run needs a result from each egress thread
// that the task depends on, and an egress thread finishes all work for frame n before it begins with frame n + 1. So
// late tasks and completions are in order without a lock.
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

/// A log with the timelines of recent frames. Any thread may use it. note() never waits: if another thread is using the
/// log, note() leaves the frame out.
class FrameLog {
 public:
  void note(const FrameRecord& record) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    records_[count_ % kKept] = record;
    ++count_;
  }

  /// Returns the mean time between the ends of consecutive frames, over the second before the last frame ended, but no
  /// less than the time since the last frame. Returns zero if there are too few records.
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

  /// Returns the kept records, oldest first.
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
  std::uint64_t count_ = 0;  // the number of all frames noted so far
  std::vector<FrameRecord> records_ = std::vector<FrameRecord>(kKept);
};

class Engine final : public Pipeline {
 public:
  Engine(std::shared_ptr<const plan::LoadedDeployment> deployment, plan::Cluster cluster,
         const PipelineOptions& options, Schedule schedule, Binding binding);
  ~Engine() override;

  /// Opens and loads the cards and starts the threads.
  Status start(const CardSource& source);

  const plan::Deployment& deployment() const override { return deployment_->plan; }
  Status submit(Frame& frame) override;
  Status check_frame(const Frame& frame) const override;
  std::uint32_t room() const override;
  std::optional<Status> offer(Frame& frame, Clock::time_point submitted) override;
  void watch(Watcher* watcher) override { watcher_.store(watcher); }
  void cancel(Frame&) override {}  // does nothing, because its frames are on the cards
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
  enum class Phase : std::uint8_t {
    kStarting,
    kProving,  // the cards compute only the deployment's known frame
    kRunning,
    kFlushing,
    kStopped
  };
  bool ending() const { return phase_.load() == Phase::kStopped; }
  /// Whether the cards compute frames.
  bool in_session() const {
    const Phase phase = phase_.load();
    return phase == Phase::kRunning || phase == Phase::kProving;
  }

  struct Slot {
    std::atomic<Frame*> frame{nullptr};          // whoever completes the frame swaps in null
    std::atomic<std::uint64_t> staged{0};        // 1 + sequence, stored after the members below
    std::atomic<std::uint32_t> threads_left{0};  // egress threads that have yet to start the slot's next runs
    std::atomic<Clock::time_point> computed{};   // when the last result arrived
    // stage() writes the members below under mutex_.
    std::uint32_t epoch = 0;
    Clock::time_point deadline, submitted, taken, started;
    FrameTimes times;
    // The members below need no lock: each value has one writer in a frame, and later readers (see "Order" above).
    std::vector<std::vector<std::byte>>
        storage;                           // by value; empty for model inputs that only early tasks read
    std::vector<const std::byte*> values;  // indexed by value: address of the value's bytes
    std::vector<std::atomic<std::uint32_t>> waits;  // indexed by task: late values still missing
  };

  struct Stage {
    kernels::fast::Executor executor;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
  };

  struct CardThread {
    std::atomic<bool> lost{true};  // also true until the card is up for the first time
    // Whether the card is lost only because it reported a lost link. Such a card works, so only its supervisor is started
    // again. Written under mutex_.
    std::atomic<bool> only_link{false};
    std::atomic<bool> report_read{
        false};  // whether read_fault() read the report of the supervisor's last run
    // mutex_ protects the members below.
    std::string loss;         // why the card was lost the last time
    bool parked = false;      // whether the thread does not use the card
    bool in_session = false;  // whether the thread waits for egress runs
    std::uint64_t restarts = 0;
    std::size_t first_step =
        0;  // where the next recovery begins: a card::ResetStep; only the recovery thread uses it
    std::thread thread;
  };

  // The functions below are the path of one frame. engine.cpp implements them.
  void stage(Frame& frame, Clock::time_point submitted);
  Error refusal() const;                          // called with mutex_ held
  void wake_recovery_at(Clock::time_point time);  // called with mutex_ held
  void run_stage(Slot& slot, std::uint32_t index);
  void load_ingress(std::uint64_t sequence, std::uint32_t index);
  Status start_ingress(std::uint64_t sequence, std::uint32_t index);
  void arrived(std::uint64_t sequence, std::uint32_t value);
  void finish(std::uint64_t sequence);
  void free_slot(std::uint64_t sequence);
  void complete(Frame& frame, Status status);
  bool has_free_slot();  // whether the next frame has a slot; called with mutex_ held
  void tell_watcher();   // called without mutex_
  bool is_known(const Frame& frame) const { return known_ && &frame == &known_->frame; }
  Slot& slot_of(std::uint64_t sequence) { return slots_[sequence % options_.slots]; }
  std::uint32_t slot_index(std::uint64_t sequence) const {
    return static_cast<std::uint32_t>(sequence % options_.slots);
  }

  // The functions below are the work of a card's thread. card_thread.cpp implements them.
  void card_loop(std::uint32_t position);
  void serve_results(std::uint32_t position, std::uint64_t first, std::uint32_t epoch);
  bool take_result(std::uint32_t position, std::uint32_t index, std::uint64_t sequence, std::uint32_t epoch);
  void drain_results(std::uint32_t position);
  bool arm(std::uint32_t position, std::uint64_t sequence, std::uint32_t epoch);
  struct Fault {
    std::string text;
    bool only_link = false;  // the card reports a lost link, so it works
  };
  Fault read_fault(std::uint32_t position);  // called after the supervisor's run has ended
  void report_loss(std::optional<std::uint32_t> position, const std::string& reason, bool only_link = false);
  void note_loss(std::optional<std::uint32_t> position, const std::string& reason,
                 bool only_link = false);  // needs mutex_

  // The functions below handle deadlines, recovery and stop. recovery.cpp implements them.
  void run_recovery();
  void expire(std::unique_lock<std::mutex>& lock);
  void watch_oldest();  // called with mutex_ held
  void fail_frame(std::unique_lock<std::mutex>& lock, Slot& slot, const Error& error);
  void fail_all(const Error& error);
  void recover();
  void flush();
  void at_all_cards(const std::function<void(std::uint32_t)>& action);
  void wait_until_quiet();
  bool lost_only_a_link(std::uint32_t position) const {
    return card_threads_[position].lost.load() && card_threads_[position].only_link.load();
  }
  void watch_supervisor(std::uint32_t position);
  void wait_for_runs(std::uint32_t position);
  bool back_off();
  std::chrono::milliseconds longer_backoff() const;
  bool bring_back();
  Status heal(std::uint32_t position);
  Status reload(std::uint32_t position, bool image_stays);
  bool resume();
  bool await_links();
  void make_known_frame();
  bool prove();
  bool prove_after_reset();
  Status compute_known_frame();
  Status compare_known_results() const;
  bool a_card_is_lost();
  void log_losses();
  bool is_new(const std::string& text);
  /// Returns the log line `text` with the model's name, because a server has several models.
  std::string with_model(const std::string& text) const;
  void end_threads();

  // The members below are constant after construction.
  const std::shared_ptr<const plan::LoadedDeployment> deployment_;
  const plan::Cluster cluster_;
  const PipelineOptions options_;
  const Schedule schedule_;
  CardSource source_;                   // set by start()
  std::uint32_t egress_positions_ = 0;  // the number of cards with an egress unit
  Fleet fleet_;

  std::vector<Slot> slots_;
  FrameLog frame_log_;
  std::vector<Stage> stages_;
  std::vector<CardThread> card_threads_;  // indexed by the card's position
  std::thread recovery_thread_;

  std::atomic<Phase> phase_{Phase::kStarting};  // written under mutex_
  std::atomic<std::uint64_t> session_{0};       // incremented when the cards (re)start; written under mutex_
  std::atomic<std::uint32_t> epoch_{0};         // incremented when the cards (re)start; written under mutex_
  std::atomic<std::uint64_t> done_{0};          // the number of frames whose slot is free again
  std::atomic<std::uint64_t> completed_{0}, failed_{0};
  std::atomic<Clock::time_point> next_try_{};    // when lost cards will next be reloaded
  std::atomic<bool> stopping_{false};            // while true, submit() refuses frames
  std::atomic<std::uint64_t> next_sequence_{0};  // written under mutex_
  std::atomic<Watcher*> watcher_{nullptr};

  mutable std::mutex mutex_;
  std::condition_variable recovery_wake_;  // notified of a loss, a deadline, a parked thread, or the end
  std::condition_variable card_wake_;      // notified when a card is back, a session begins, or at the end
  std::condition_variable drained_;        // notified when frames complete; stop() waits for it
  Clock::time_point stop_by_ = Clock::time_point::max();  // the earliest bound passed to stop()
  // mutex_ protects the members below.
  std::uint64_t session_first_ = 0;                 // the session's first sequence number
  std::uint64_t first_of_clients_ = 0;              // the same without the known frame
  std::optional<Clock::time_point> refused_since_;  // when the pipeline stopped accepting frames after a loss
  std::uint64_t recoveries_ = 0;
  Clock::duration recovery_time_{0}, bring_up_time_{0};
  Clock::time_point next_expiry_ = Clock::time_point::max();
  Clock::time_point last_resume_;
  std::string lost_reason_;
  std::vector<std::string> unlogged_losses_;  // losses to log when mutex_ is free
  bool stuck_before_ = false;                 // whether an earlier session also got no frames back

  // The known frame of the deployment, or null if it is not to be checked.
  struct KnownFrame {
    Frame frame;
    std::vector<std::vector<std::byte>> inputs, outputs;
    bool done = false;  // protected by mutex_
  };
  std::unique_ptr<KnownFrame> known_;

  // The members below are used only by the recovery thread.
  std::chrono::milliseconds backoff_{0};
  std::map<std::string, Clock::time_point> logged_;  // losses logged recently, and when

  std::optional<Observer> observer_;  // set by start()
};

}  // namespace millrace::runtime::pipeline
