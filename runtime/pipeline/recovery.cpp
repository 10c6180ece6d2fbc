// The engine's start, deadlines, recovery from losses, and stop.
#include <algorithm>
#include <functional>
#include <future>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

namespace {

// How long a working card may take to end its runs after the epoch was raised, which discards all frames on the card.
constexpr std::chrono::milliseconds kFlushBound{2000};
constexpr std::chrono::milliseconds kPoll{1};
// How long recovery waits for links before it raises the epoch, which discards all frames on the cards, and tries
// again. A cable of a real card comes up 1.4 s after a load of the card at either end.
constexpr std::chrono::milliseconds kLinkBound{4000};
constexpr std::chrono::milliseconds kStatusBound{250};  // longest time that status() waits for the cards
constexpr std::chrono::seconds kRepeatAfter{30};        // pause before the same loss is logged again
constexpr std::chrono::milliseconds kLongestStop = std::chrono::hours(24);

}  // namespace

Engine::~Engine() {
  stop(std::chrono::milliseconds(0));
}

Status Engine::start(const CardSource& source) {
  source_ = source;
  const Clock::time_point begin = Clock::now();
  MILLRACE_TRY(fleet_.open(source));
  // Program all cards at once, because programming a real card takes seconds.
  std::vector<Status> loaded(fleet_.size());
  at_all_cards([&](std::uint32_t position) {
    loaded[position] = fleet_.load(position);
    // A process that died with runs on the card left it in a bad state, which only a reset of the device ends.
    const bool unusable =
        !loaded[position].ok() && loaded[position].error().code() == ErrorCode::kUnavailable;
    if (!unusable) return;
    const Status reset = fleet_.reset(position, card::ResetStep::kDevice);
    if (reset.ok()) {
      loaded[position] = fleet_.load(position);
    } else if (reset.error().code() != ErrorCode::kUnsupported) {
      loaded[position] = reset;
    }
  });
  for (const Status& status : loaded) MILLRACE_TRY(status);
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
    MILLRACE_TRY(fleet_.set_up(position));
    card_threads_[position].lost.store(false);
  }
  MILLRACE_ASSIGN(const std::uint32_t epoch, fleet_.largest_epoch());
  epoch_.store(epoch + 1);
  for (std::uint32_t position = 0; position < fleet_.size(); ++position)
    MILLRACE_TRY(fleet_.write_epoch(position, epoch + 1));
  if (!resume()) return Error(ErrorCode::kEnvironment, lost_reason_);
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
    card_threads_[position].thread = std::thread([this, position] { card_loop(position); });
  }
  if (!prove() && !prove_after_reset()) {
    const std::lock_guard lock(mutex_);  // the cards' threads run
    return Error(ErrorCode::kEnvironment, lost_reason_);
  }
  bring_up_time_ = Clock::now() - begin;
  recovery_thread_ = std::thread([this] { run_recovery(); });
  observer_.emplace(fleet_);
  return {};
}

void Engine::run_recovery() {
  std::unique_lock lock(mutex_);
  while (!ending()) {
    if (phase_.load() == Phase::kFlushing) {
      lock.unlock();
      recover();
      lock.lock();
      continue;
    }
    const Clock::time_point next = next_expiry_;
    const auto changed = [&] {
      return ending() || phase_.load() == Phase::kFlushing || next_expiry_ != next;
    };
    if (next == Clock::time_point::max()) {
      recovery_wake_.wait(lock, changed);
    } else if (!recovery_wake_.wait_until(lock, next, changed)) {
      expire(lock);
      lock.unlock();
      tell_watcher();
      lock.lock();
    }
  }
}

void Engine::expire(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point now = Clock::now();
  next_expiry_ = Clock::time_point::max();
  for (Slot& slot : slots_) {
    if (slot.frame.load() == nullptr) continue;
    if (slot.deadline > now) {
      next_expiry_ = std::min(next_expiry_, slot.deadline);
      continue;
    }
    fail_frame(lock, slot,
               Error(ErrorCode::kDeadlineExceeded, "the deadline passed while the frame was on the cards"));
  }
  watch_oldest();
  drained_.notify_all();
}

// Reports a loss if the oldest frame takes too long. Frames complete in order, so the oldest frame shows whether the
// cards still work. A card that hangs reports nothing; only the flush after this check finds out which card hangs.
void Engine::watch_oldest() {
  const std::uint64_t oldest = done_.load();
  if (oldest == next_sequence_ || phase_.load() != Phase::kRunning) return;
  const Slot& slot = slot_of(oldest);
  // Until the result of the previous frame arrived, the cards were busy with other frames, so the time counts from that
  // result on.
  const Clock::time_point before =
      slot_of(oldest + options_.slots - 1).computed.load(std::memory_order_relaxed);
  const Clock::time_point since = std::max(slot.started, before);
  Clock::time_point limit = since + options_.stuck_after;
  if (slot.deadline < limit)
    limit = std::min(limit, std::max(since, slot.deadline) + options_.stuck_after_deadline);
  if (Clock::now() < limit) {
    next_expiry_ = std::min(next_expiry_, limit);
    return;
  }
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
  note_loss(std::nullopt, "frame " + std::to_string(oldest) + " did not come back from the cards within " +
                              std::to_string(waited.count()) + " ms");
  // If no frame has come back since the last flush, although that flush found no card that hangs, reload all
  // cards.
  const bool none_came = oldest == first_of_clients_;
  if (!none_came) stuck_before_ = false;
  if (std::exchange(stuck_before_, true) && none_came) {
    for (std::uint32_t position = 0; position < fleet_.size(); ++position)
      note_loss(position, "the card is reloaded, because no frame completes even after a flush");
  }
}

void Engine::note_loss(std::optional<std::uint32_t> position, const std::string& reason, bool only_link) {
  const std::string text = position ? fleet_.describe(*position) + ": " + reason : reason;
  bool is_news = true;
  if (position) {
    CardThread& card_thread = card_threads_[*position];
    const bool was_lost = card_thread.lost.load();
    const bool was_only_link = was_lost && card_thread.only_link.load();
    card_thread.only_link.store(only_link && (!was_lost || was_only_link));
    card_thread.lost.store(true);
    is_news = !was_lost || (was_only_link && !only_link);
    if (is_news) card_thread.loss = text;
  }
  if (is_news) unlogged_losses_.push_back(text);
  if (in_session() || phase_.load() == Phase::kStarting) lost_reason_ = text;
  if (phase_.load() == Phase::kRunning) refused_since_ = Clock::now();
  if (in_session()) phase_.store(Phase::kFlushing);
  recovery_wake_.notify_all();
  card_wake_.notify_all();
}

std::string Engine::with_model(const std::string& text) const {
  return "model '" + deployment().model.name + "': " + text;
}

void Engine::log_losses() {
  std::vector<std::string> losses;
  {
    const std::lock_guard lock(mutex_);
    losses.swap(unlogged_losses_);
  }
  if (ending()) return;
  for (const std::string& text : losses) {
    if (is_new(text)) log::warning("pipeline", with_model(text));
  }
}

// Whether `text` was not logged recently, so that a card that never comes up does not fill the log.
bool Engine::is_new(const std::string& text) {
  const Clock::time_point now = Clock::now();
  std::erase_if(logged_, [&](const auto& entry) { return now - entry.second > kRepeatAfter; });
  return logged_.emplace(text, now).second;
}

void Engine::fail_frame(std::unique_lock<std::mutex>& lock, Slot& slot, const Error& error) {
  Frame* const frame = slot.frame.exchange(nullptr, std::memory_order_acq_rel);
  if (frame == nullptr) return;
  frame->times = slot.times;
  lock.unlock();
  complete(*frame, error);
  lock.lock();
}

void Engine::fail_all(const Error& error) {
  std::unique_lock lock(mutex_);
  for (Slot& slot : slots_) fail_frame(lock, slot, error);
  next_expiry_ = Clock::time_point::max();
  drained_.notify_all();
}

void Engine::recover() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = lost_reason_;
    const bool calm = Clock::now() - last_resume_ > options_.restart_backoff_maximum;
    backoff_ = calm ? options_.restart_backoff_initial : longer_backoff();
    if (calm)
      for (CardThread& card_thread : card_threads_) card_thread.first_step = 0;
    next_try_.store(Clock::now() + backoff_);
  }
  log_losses();
  fail_all(Error(ErrorCode::kUnavailable, reason));
  tell_watcher();
  while (!ending()) {
    flush();
    log_losses();
    if (!back_off()) return;
    const bool running = bring_back() && resume() && prove();
    log_losses();
    if (running) {
      logged_.clear();
      tell_watcher();
      log::info("pipeline", with_model("running again, epoch " + std::to_string(epoch_.load())));
      return;
    }
    backoff_ = longer_backoff();
  }
}

std::chrono::milliseconds Engine::longer_backoff() const {
  return std::clamp(2 * backoff_, options_.restart_backoff_initial, options_.restart_backoff_maximum);
}

// Calls `action` for all cards at once, because a card that hangs takes seconds to answer.
void Engine::at_all_cards(const std::function<void(std::uint32_t)>& action) {
  std::vector<std::future<void>> others;
  for (std::uint32_t position = 1; position < fleet_.size(); ++position)
    others.push_back(std::async(action, position));
  action(0);
  for (std::future<void>& other : others) other.get();
}

void Engine::flush() {
  const std::uint32_t epoch = epoch_.load() + 1;
  epoch_.store(epoch);
  at_all_cards([&](std::uint32_t position) {
    // A card that reported a fault still works. So write the new epoch, which discards all frames, to this card as
    // well, but do not require an answer from it.
    const bool works = !card_threads_[position].lost.load() || lost_only_a_link(position);
    const Status written = fleet_.write_epoch(position, epoch);
    if (!written.ok() && works) report_loss(position, written.error().message());
  });
  wait_until_quiet();
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) wait_for_runs(position);
}

void Engine::wait_until_quiet() {
  const auto each = [this](auto holds) {
    return std::all_of(card_threads_.begin(), card_threads_.end(), holds);
  };
  std::unique_lock lock(mutex_);
  const auto out_of_session = [&] {
    return ending() || each([](const CardThread& k) { return !k.in_session; });
  };
  if (!recovery_wake_.wait_until(lock, Clock::now() + kFlushBound, out_of_session)) {
    for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
      if (card_threads_[position].in_session)
        note_loss(position, "the card did not complete its kernel runs in time after a flush");
    }
  }
  recovery_wake_.wait(lock, [&] {
    return ending() ||
           each([](const CardThread& k) { return !k.in_session && (!k.lost.load() || k.parked); });
  });
}

// Looks after the supervisor of a card whose own thread does not. If the supervisor reported a lost link, the card works,
// and the supervisor is started again; otherwise the card is lost. XRT notices the end of the card's runs only while some
// thread waits for one of them (runtime/card/README.md), so this function waits for the supervisor for a short time.
void Engine::watch_supervisor(std::uint32_t position) {
  card::Card& card = fleet_.card(position);
  const card::RunState state = card.wait_supervisor(kPoll);
  if (state == card::RunState::kRunning) return;
  if (state == card::RunState::kFailed) return report_loss(position, "it is lost");
  CardThread& card_thread = card_threads_[position];
  if (!card_thread.report_read.load()) {
    const Fault fault = read_fault(position);
    if (!fault.only_link) return report_loss(position, fault.text);
  }
  const Status started = card.start_supervisor();
  if (!started.ok()) return report_loss(position, started.error().message());
  card_thread.report_read.store(false);
}

// Waits until a working card has ended all runs, because new frames will reuse the buffers of these runs.
void Engine::wait_for_runs(std::uint32_t position) {
  const Clock::time_point until = Clock::now() + kFlushBound;
  const auto works = [&] {  // the units of other cards may have been released
    return !ending() && (!card_threads_[position].lost.load() || lost_only_a_link(position));
  };
  const auto runs = [&](card::RunState state, const std::string& unit) {
    const bool is_running = state == card::RunState::kRunning;
    if (lost_only_a_link(position) && (is_running || fleet_.card(position).supervisor_ended()))
      watch_supervisor(position);
    if (works() && state == card::RunState::kFailed) report_loss(position, "it is lost");
    if (works() && is_running && Clock::now() > until) report_loss(position, unit + " does not flush");
    return is_running;
  };
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot) {
    for (const std::uint32_t index : fleet_.egresses_of(position)) {
      const std::string unit = "egress unit " + schedule_.egresses[index].unit;
      while (works() && runs(fleet_.egress(index).wait(slot, kPoll), unit)) continue;
    }
    for (const std::uint32_t index : fleet_.ingresses_of(position)) {
      const std::string unit = "ingress unit " + schedule_.ingresses[index].unit;
      while (works() && runs(fleet_.ingress(index).state(slot), unit)) std::this_thread::sleep_for(kPoll);
    }
  }
  wait_until_quiet();
}

// Enables the links and starts the egress runs, so that the cards can compute frames. Called when all cards have the same epoch (the number
// that a flush raises).
bool Engine::resume() {
  const auto at_each_card = [&](auto action) {
    for (std::uint32_t position = 0; position < fleet_.size(); ++position)
      if (const Status done = action(position); !done.ok()) {
        report_loss(position, done.error().message());
        return false;
      }
    return true;
  };
  if (!at_each_card([&](std::uint32_t position) { return fleet_.write_links(position); })) return false;
  if (!at_each_card([&](std::uint32_t position) { return fleet_.enable_links(position); })) return false;
  if (!await_links()) return false;
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
    for (std::uint64_t ahead = 0; ahead < options_.slots; ++ahead) {
      if (!arm(position, next_sequence_ + ahead, epoch_.load())) return false;
    }
  }
  const std::lock_guard lock(mutex_);
  if (std::any_of(card_threads_.begin(), card_threads_.end(),
                  [](const CardThread& k) { return k.lost.load(); }))
    return false;
  done_.store(next_sequence_);
  session_first_ = next_sequence_;
  session_.fetch_add(1);
  last_resume_ = Clock::now();
  if (!ending()) phase_.store(Phase::kProving);
  card_wake_.notify_all();
  return true;
}

// Waits until each link is up: its cable, and the peers at both ends. Frames that entered the pipeline earlier would have
// to wait for the links. If a card is lost meanwhile, its links cannot come up, and the card is the reason.
bool Engine::await_links() {
  const Clock::time_point until = Clock::now() + kLinkBound;
  for (;;) {
    const auto training = fleet_.training_link();
    if (!training) return true;
    if (ending()) return false;
    if (!training->read.ok()) report_loss(training->producer, training->read.error().message());
    if (a_card_is_lost()) return false;
    if (Clock::now() > until) {
      const LinkStatus status = fleet_.describe_link(training->link);
      const std::lock_guard lock(mutex_);
      const std::string text = "the link of channel '" + status.channel + "' from card '" +
                               status.producer_card + "' to card '" + status.consumer_card +
                               "' does not come up; check the cable or network between these cards";
      unlogged_losses_.push_back(text);
      lost_reason_ = text;
      return false;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

// Whether a card was lost while the pipeline started or recovered. If so, that card becomes the reason why the pipeline
// does not run.
bool Engine::a_card_is_lost() {
  // While the pipeline starts, no threads wait for the supervisors (the units that report the cards' faults).
  for (std::uint32_t position = 0; phase_.load() == Phase::kStarting && position < fleet_.size();
       ++position) {
    // This ignores reports of lost links, because they may come from an earlier pipeline. If a link is still down,
    // await_links() reports it within its time limit.
    if (fleet_.card(position).supervisor_ended()) watch_supervisor(position);
  }
  const std::lock_guard lock(mutex_);
  for (const CardThread& card_thread : card_threads_) {
    if (!card_thread.lost.load()) continue;
    lost_reason_ = card_thread.loss;
    return true;
  }
  return false;
}

std::chrono::milliseconds Engine::retry_after() {
  using std::chrono::milliseconds;
  const Clock::time_point now = Clock::now();
  if (phase_.load() == Phase::kRunning) return milliseconds(0);
  return std::max(std::chrono::ceil<milliseconds>(next_try_.load() - now), milliseconds(0));
}

PipelineStatus Engine::status() {
  PipelineStatus status;
  if (!ending()) {
    Observer::Figures figures = observer_->read(kStatusBound);
    status.cards = std::move(figures.cards);
    status.links = std::move(figures.links);
  }
  status.slots = options_.slots;
  status.epoch = epoch_.load();
  status.completed = completed_.load();
  status.failed = failed_.load();
  const std::lock_guard lock(mutex_);
  status.ready = ready();
  status.replicas_ready = status.ready ? 1 : 0;
  status.recoveries = recoveries_;
  status.recovery_seconds = std::chrono::duration<double>(recovery_time_).count();
  status.bring_up_seconds = std::chrono::duration<double>(bring_up_time_).count();
  status.in_flight = static_cast<std::uint32_t>(next_sequence_ - done_.load());
  for (std::uint32_t position = 0; position < status.cards.size(); ++position) {
    status.cards[position].restarts = card_threads_[position].restarts;
    status.cards[position].state = card_threads_[position].lost.load() ? CardState::kLost : CardState::kUp;
  }
  return status;
}

void Engine::stop(std::chrono::milliseconds bound) {
  {
    std::unique_lock lock(mutex_);
    stop_by_ =
        std::min(stop_by_, Clock::now() + std::clamp(bound, std::chrono::milliseconds(0), kLongestStop));
    if (stopping_.exchange(true)) return drained_.notify_all();
    const auto drained = [&] { return done_.load() == next_sequence_ || phase_.load() != Phase::kRunning; };
    while (!drained() && Clock::now() < stop_by_) {
      const Clock::time_point end = stop_by_;  // another stop() may set an earlier time meanwhile
      drained_.wait_until(lock, end);
    }
    phase_.store(Phase::kStopped);
    recovery_wake_.notify_all();
    card_wake_.notify_all();
  }
  if (observer_) observer_->begin_stop();
  end_threads();
  if (observer_) observer_->stop();
  fleet_.close();
}

void Engine::end_threads() {
  const Error stopped(ErrorCode::kUnavailable, "the pipeline was stopped");
  fail_all(stopped);  // before join(), because the recovery thread may wait for a hung card
  if (recovery_thread_.joinable()) recovery_thread_.join();
  fail_all(stopped);
  // Raise the epoch, which discards all frames on the cards, so that every run ends: a run that never ends would keep
  // the card open in XRT. The driver gives up a hung card after some time.
  at_all_cards([&](std::uint32_t position) {
    if (card_threads_[position].lost.load()) return;
    const Status written = fleet_.write_epoch(position, epoch_.load() + 1);
    if (!written.ok()) report_loss(position, written.error().message());
  });
  for (CardThread& card_thread : card_threads_) {
    if (card_thread.thread.joinable()) card_thread.thread.join();
  }
  at_all_cards([&](std::uint32_t position) {
    if (!card_threads_[position].lost.load()) fleet_.stop_supervisor(position);
  });
}

}  // namespace millrace::runtime::pipeline
