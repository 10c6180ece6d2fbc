// Start, deadlines, recovery from losses, stop.
#include <algorithm>
#include <functional>
#include <future>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

namespace {

// How long a living card may take to give its runs back after the epoch was raised.
constexpr std::chrono::milliseconds kFlushBound{2000};
constexpr std::chrono::milliseconds kPoll{1};
constexpr std::chrono::milliseconds kLook{250};  // how long status() waits for the cards
constexpr std::chrono::milliseconds kPaceHolds{100};
constexpr std::chrono::seconds kRepeatAfter{30};  // a line of the log that says what was said already
constexpr std::chrono::milliseconds kLongestStop = std::chrono::hours(24);

}  // namespace

Engine::~Engine() {
  stop(std::chrono::milliseconds(0));
}

Status Engine::start(const CardSource& source) {
  source_ = source;
  MILLRACE_TRY(fleet_.open(source));
  // Programming takes a real card seconds, and all cards no longer than one.
  std::vector<Status> loaded(fleet_.size());
  at_all_cards([&](std::uint32_t place) { loaded[place] = fleet_.load(place); });
  for (const Status& status : loaded) MILLRACE_TRY(status);
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    MILLRACE_TRY(fleet_.equip(place));
    keepers_[place].up = true;
  }
  MILLRACE_ASSIGN(const std::uint32_t epoch, fleet_.largest_epoch());
  epoch_.store(epoch + 1);
  for (std::uint32_t place = 0; place < fleet_.size(); ++place)
    MILLRACE_TRY(fleet_.write_epoch(place, epoch + 1));
  if (!resume()) return Error(ErrorCode::kEnvironment, lost_reason_);
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    keepers_[place].thread = std::thread([this, place] { card_loop(place); });
  }
  keeper_ = std::thread([this] { keep(); });
  observer_.emplace(fleet_);
  return {};
}

void Engine::keep() {
  std::unique_lock lock(mutex_);
  while (!ending_.load()) {
    if (phase_.load() == Phase::kFlushing) {
      lock.unlock();
      recover();
      lock.lock();
      continue;
    }
    const Clock::time_point next = next_expiry_;
    const auto changed = [&] {
      return ending_.load() || phase_.load() == Phase::kFlushing || next_expiry_ != next;
    };
    if (next == Clock::time_point::max()) {
      keeper_wake_.wait(lock, changed);
    } else if (!keeper_wake_.wait_until(lock, next, changed)) {
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
    Frame* const frame = slot.frame.exchange(nullptr, std::memory_order_acq_rel);
    if (frame == nullptr) continue;
    frame->times = slot.times;
    lock.unlock();
    complete(*frame,
             Error(ErrorCode::kDeadlineExceeded, "the deadline passed while the frame was on the cards"));
    lock.lock();
  }
  watch_oldest();
  drained_.notify_all();
}

// Slots become free in order, so the oldest frame tells whether the cards go on. A card that hangs says
// nothing: only the flush finds out which it is, or that all must be loaded again.
void Engine::watch_oldest() {
  const std::uint64_t oldest = done_.load();
  if (oldest == next_sequence_ || phase_.load() != Phase::kRunning) return;
  const Slot& slot = slot_of(oldest);
  // The last result before it, if that came later: until then the cards were busy with other frames.
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
  // Nor did any since the last time: the flush did not help, and found no card to blame.
  if (std::exchange(stuck_before_, true) && oldest == session_first_) {
    for (std::uint32_t place = 0; place < fleet_.size(); ++place)
      note_loss(place, "it is loaded again, as no frame comes through after a flush");
  }
}

void Engine::note_loss(std::optional<std::uint32_t> place, const std::string& reason) {
  const std::string text = place ? fleet_.describe(*place) + ": " + reason : reason;
  if (place && !keepers_[*place].lost.exchange(true)) {
    keepers_[*place].up = false;
    news_.push_back(text);
  } else if (!place) {
    news_.push_back(text);
  }
  if (phase_.load() == Phase::kRunning || phase_.load() == Phase::kStarting) lost_reason_ = text;
  if (phase_.load() == Phase::kRunning) phase_.store(Phase::kFlushing);
  keeper_wake_.notify_all();
  card_wake_.notify_all();
}

std::string Engine::of_model(const std::string& text) const {
  return "model '" + deployment().model.name + "': " + text;
}

void Engine::tell_news() {
  std::vector<std::string> news;
  {
    const std::lock_guard lock(mutex_);
    news.swap(news_);
  }
  if (ending_.load()) return;
  for (const std::string& text : news) {
    if (worth_telling(text)) log::warning("pipeline", of_model(text));
  }
}

// The same line again tells nothing, and a card that never comes up would fill the log with it.
bool Engine::worth_telling(const std::string& text) {
  const Clock::time_point now = Clock::now();
  std::erase_if(told_, [&](const auto& entry) { return now - entry.second > kRepeatAfter; });
  return told_.emplace(text, now).second;
}

void Engine::mark_lost(std::uint32_t place, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  note_loss(place, reason);
}

void Engine::fail_all(const Error& error) {
  std::unique_lock lock(mutex_);
  for (Slot& slot : slots_) {
    Frame* const frame = slot.frame.exchange(nullptr, std::memory_order_acq_rel);
    if (frame == nullptr) continue;
    frame->times = slot.times;
    lock.unlock();
    complete(*frame, error);
    lock.lock();
  }
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
    next_try_.store(Clock::now() + backoff_);
  }
  tell_news();
  fail_all(Error(ErrorCode::kUnavailable, reason));
  tell_watcher();
  while (!ending_.load()) {
    flush();
    tell_news();
    if (!back_off()) return;
    const bool running = bring_back() && resume();
    tell_news();
    if (running) {
      told_.clear();
      tell_watcher();
      log::info("pipeline", of_model("running again, epoch " + std::to_string(epoch_.load())));
      return;
    }
    backoff_ = longer_backoff();
  }
}

std::chrono::milliseconds Engine::longer_backoff() const {
  return std::clamp(2 * backoff_, options_.restart_backoff_initial, options_.restart_backoff_maximum);
}

// At once, since a card that hangs keeps who asks it waiting for seconds.
void Engine::at_all_cards(const std::function<void(std::uint32_t)>& action) {
  std::vector<std::future<void>> others;
  for (std::uint32_t place = 1; place < fleet_.size(); ++place) others.push_back(std::async(action, place));
  action(0);
  for (std::future<void>& other : others) other.get();
}

void Engine::flush() {
  const std::uint32_t epoch = epoch_.load() + 1;
  epoch_.store(epoch);
  at_all_cards([&](std::uint32_t place) {
    // A lost card may still live, with a fault to its name: it is told too, but may not answer.
    const bool was_lost = keepers_[place].lost.load();
    const Status written = fleet_.write_epoch(place, epoch);
    if (!written.ok() && !was_lost) mark_lost(place, written.error().message());
  });
  wait_until_quiet();
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) settle_units(place);
}

void Engine::wait_until_quiet() {
  const auto each = [this](auto holds) { return std::all_of(keepers_.begin(), keepers_.end(), holds); };
  std::unique_lock lock(mutex_);
  const auto out_of_session = [&] {
    return ending_.load() || each([](const Keeper& k) { return !k.in_session; });
  };
  if (!keeper_wake_.wait_until(lock, Clock::now() + kFlushBound, out_of_session)) {
    for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
      if (keepers_[place].in_session) note_loss(place, "it does not give its runs back after a flush");
    }
  }
  keeper_wake_.wait(lock, [&] {
    return ending_.load() ||
           each([](const Keeper& k) { return !k.in_session && (!k.lost.load() || k.parked); });
  });
}

// No run of a living card may be left over when its slots are used anew.
void Engine::settle_units(std::uint32_t place) {
  const Clock::time_point until = Clock::now() + kFlushBound;
  for (std::uint32_t slot = 0; slot < options_.slots; ++slot) {
    for (const std::uint32_t index : fleet_.egresses_of(place)) {
      while (!ending_.load() && !keepers_[place].lost.load() &&
             fleet_.egress(index).wait(slot, kPoll) == card::RunState::kRunning) {
        if (Clock::now() > until)
          mark_lost(place, "egress unit " + schedule_.egresses[index].unit + " does not flush");
      }
    }
    for (const std::uint32_t index : fleet_.ingresses_of(place)) {
      while (!ending_.load() && !keepers_[place].lost.load() &&
             fleet_.ingress(index).state(slot) == card::RunState::kRunning) {
        if (Clock::now() > until)
          mark_lost(place, "ingress unit " + schedule_.ingresses[index].unit + " does not flush");
        std::this_thread::sleep_for(kPoll);
      }
    }
  }
  wait_until_quiet();
}

// False where the pipeline ends meanwhile.
bool Engine::back_off() {
  std::unique_lock lock(mutex_);
  const bool any_lost =
      std::any_of(keepers_.begin(), keepers_.end(), [](const Keeper& k) { return k.lost.load(); });
  next_try_.store(Clock::now() + (any_lost ? backoff_ : std::chrono::milliseconds(0)));
  if (any_lost) keeper_wake_.wait_for(lock, backoff_, [&] { return ending_.load(); });
  return !ending_.load();
}

bool Engine::bring_back() {
  bool all = true;
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    Keeper& keeper = keepers_[place];
    if (!keeper.lost.load()) continue;
    fleet_.release(place);
    Status loaded = fleet_.bring_up(place);
    if (loaded.ok()) loaded = fleet_.write_epoch(place, epoch_.load());
    if (!loaded.ok()) {
      if (worth_telling(loaded.error().message())) {
        log::warning("pipeline", of_model(loaded.error().message() + "; next try in " +
                                          std::to_string(longer_backoff().count()) + " ms"));
      }
      all = false;
      continue;
    }
    const std::lock_guard lock(mutex_);
    ++keeper.restarts;
    keeper.up = true;
    keeper.lost.store(false);
    card_wake_.notify_all();
  }
  return all;
}

// All cards have the epoch: puts the links in service, starts the egress runs, lets frames in.
bool Engine::resume() {
  const auto failed = [&](std::uint32_t place, const Status& status) {
    if (!status.ok()) mark_lost(place, status.error().message());
    return !status.ok();
  };
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    if (failed(place, fleet_.write_links(place))) return false;
  }
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    if (failed(place, fleet_.enable_links(place))) return false;
  }
  for (std::uint32_t place = 0; place < fleet_.size(); ++place) {
    for (std::uint64_t ahead = 0; ahead < options_.slots; ++ahead) {
      if (!arm(place, next_sequence_ + ahead, epoch_.load())) return false;
    }
  }
  const std::lock_guard lock(mutex_);
  if (std::any_of(keepers_.begin(), keepers_.end(), [](const Keeper& k) { return k.lost.load(); }))
    return false;
  done_.store(next_sequence_);
  session_first_ = next_sequence_;
  session_.fetch_add(1);
  last_resume_ = Clock::now();
  if (!ending_.load()) phase_.store(Phase::kRunning);
  card_wake_.notify_all();
  return true;
}

std::chrono::milliseconds Engine::retry_after() {
  using std::chrono::milliseconds;
  const Clock::time_point now = Clock::now();
  if (phase_.load() == Phase::kRunning) return milliseconds(0);
  return std::max(std::chrono::ceil<milliseconds>(next_try_.load() - now), milliseconds(0));
}

std::chrono::nanoseconds Engine::pace() {
  const Clock::time_point now = Clock::now();
  // An overload asks often: one of all threads reads the log, every so often.
  Clock::time_point taken = pace_taken_.load();
  if (now - taken >= kPaceHolds && pace_taken_.compare_exchange_strong(taken, now))
    pace_.store(pace_of(frame_log_.read(), now));
  return pace_.load();
}

PipelineStatus Engine::status() {
  PipelineStatus status;
  if (!ending_.load()) {
    Observer::Figures figures = observer_->look(kLook);
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
  status.in_flight = static_cast<std::uint32_t>(next_sequence_ - done_.load());
  for (std::uint32_t place = 0; place < status.cards.size(); ++place) {
    status.cards[place].restarts = keepers_[place].restarts;
    status.cards[place].state = keepers_[place].up ? CardState::kUp : CardState::kLost;
  }
  return status;
}

void Engine::stop(std::chrono::milliseconds bound) {
  {
    std::unique_lock lock(mutex_);
    stop_by_ =
        std::min(stop_by_, Clock::now() + std::clamp(bound, std::chrono::milliseconds(0), kLongestStop));
    if (stopped_) return drained_.notify_all();
    stopped_ = true;
    stopping_.store(true);
    const auto drained = [&] { return done_.load() == next_sequence_ || phase_.load() != Phase::kRunning; };
    while (!drained() && Clock::now() < stop_by_) {
      const Clock::time_point end = stop_by_;  // an earlier one may come
      drained_.wait_until(lock, end);
    }
    ending_.store(true);
    phase_.store(Phase::kStopped);
    keeper_wake_.notify_all();
    card_wake_.notify_all();
  }
  if (observer_) observer_->begin_stop();
  end_threads();
  if (observer_) observer_->stop();
  fleet_.close();
}

void Engine::end_threads() {
  const Error stopped(ErrorCode::kUnavailable, "the pipeline was stopped");
  fail_all(stopped);  // before the keeper is waited for, who may be busy with a card that hangs
  if (keeper_.joinable()) keeper_.join();
  fail_all(stopped);
  const auto lives = [this](std::uint32_t place) {
    return keepers_[place].up && !keepers_[place].lost.load();
  };
  // Runs that never end would keep the card open in XRT. A card that hangs is given up by the driver
  // meanwhile.
  at_all_cards([&](std::uint32_t place) {
    if (!lives(place)) return;
    const Status written = fleet_.write_epoch(place, epoch_.load() + 1);
    if (!written.ok()) mark_lost(place, written.error().message());
  });
  for (Keeper& keeper : keepers_) {
    if (keeper.thread.joinable()) keeper.thread.join();
  }
  at_all_cards([&](std::uint32_t place) {
    if (lives(place)) fleet_.dismiss(place);
  });
}

}  // namespace millrace::runtime::pipeline
