// How the engine brings lost cards back: it resets and reloads them.
#include <algorithm>
#include <optional>

#include "runtime/base/log.hpp"
#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

// Waits before the next attempt to load lost cards. Does not wait for cards that reported a lost link, because the wait
// protects only cards that do not load. Returns false if the pipeline stops meanwhile.
bool Engine::back_off() {
  std::unique_lock lock(mutex_);
  const bool any_lost = std::any_of(card_threads_.begin(), card_threads_.end(),
                                    [](const CardThread& k) { return k.lost.load() && !k.only_link.load(); });
  next_try_.store(Clock::now() + (any_lost ? backoff_ : std::chrono::milliseconds(0)));
  if (any_lost) recovery_wake_.wait_for(lock, backoff_, [&] { return ending(); });
  return !ending();
}

bool Engine::bring_back() {
  bool all = true;
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
    if (ending()) return false;
    CardThread& card_thread = card_threads_[position];
    if (!card_thread.lost.load()) continue;
    // A card that only reported a lost link still works. Only its supervisor must run again.
    if (lost_only_a_link(position) && fleet_.card(position).supervisor_ended()) watch_supervisor(position);
    const bool works = lost_only_a_link(position);
    const Status loaded = works ? Status() : heal(position);
    if (!loaded.ok()) {
      const std::string reason = loaded.error().message();
      // While the pipeline starts, there is no next attempt, and start() returns the reason.
      if (recovery_thread_.joinable() && is_new(reason))
        log::warning("pipeline", with_model(reason + "; next attempt in " +
                                            std::to_string(longer_backoff().count()) + " ms"));
      const std::lock_guard lock(mutex_);
      lost_reason_ = reason;
      all = false;
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!works) ++card_thread.restarts;
    card_thread.only_link.store(false);
    card_thread.lost.store(false);
    card_wake_.notify_all();
  }
  return all;
}

// Resets a lost card and opens it again. Tries the steps of a reset in their order, until the card works. A card that was
// lost again soon after a step begins with the next step. A card without any reset is only loaded again.
Status Engine::heal(std::uint32_t position) {
  CardThread& card_thread = card_threads_[position];
  std::optional<Status> loaded;
  for (std::size_t index = card_thread.first_step; index < card::kResetSteps; ++index) {
    if (ending()) return Error(ErrorCode::kUnavailable, "the pipeline stops");
    const auto step = static_cast<card::ResetStep>(index);
    if (step == card::ResetStep::kDevice) fleet_.release(position);
    const Status reset = fleet_.reset(position, step);
    if (!reset.ok()) {
      if (step == card::ResetStep::kDevice && reset.error().code() != ErrorCode::kUnsupported &&
          is_new(reset.error().message()))
        log::warning("pipeline", with_model(reset.error().message()));
      continue;
    }
    loaded = reload(position, step != card::ResetStep::kDevice);
    if (!loaded->ok()) continue;
    card_thread.first_step = std::min(index + 1, card::kResetSteps - 1);
    return *loaded;
  }
  if (loaded) return *loaded;
  card_thread.first_step = 0;  // the remaining steps do not exist on this card
  return reload(position, false);
}

Status Engine::reload(std::uint32_t position, bool image_stays) {
  fleet_.release(position);
  MILLRACE_TRY(fleet_.load(position, image_stays));
  MILLRACE_TRY(fleet_.set_up(position));
  card_threads_[position].report_read.store(false);
  return fleet_.write_epoch(position, epoch_.load());
}

}  // namespace millrace::runtime::pipeline
