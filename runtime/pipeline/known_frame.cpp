// The engine's known frame: after the cards were loaded, they compute a frame whose results the deployment has. A card
// that was loaded but computes wrong results never answers a client.
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/pipeline/engine.hpp"
#include "runtime/plan/known_answer.hpp"

namespace millrace::runtime::pipeline {

void Engine::make_known_frame() {
  known_ = std::make_unique<KnownFrame>();
  KnownFrame& known = *known_;
  known.inputs = plan::known_inputs(deployment_->plan);
  for (const std::uint32_t value : schedule_.outputs)
    known.outputs.emplace_back(schedule_.value_bytes[value]);
  known.frame.inputs.assign(known.inputs.begin(), known.inputs.end());
  known.frame.outputs.assign(known.outputs.begin(), known.outputs.end());
  known.frame.context = this;
  known.frame.on_complete = [](Frame&, void* context) {
    auto& engine = *static_cast<Engine*>(context);
    const std::lock_guard lock(engine.mutex_);
    engine.known_->done = true;
    engine.recovery_wake_.notify_all();
  };
}

// Lets frames of clients in, after the cards have computed the known frame. Called after resume(). If the results are
// wrong or do not come, all cards count as lost, because each of them may be the one that is wrong.
bool Engine::prove() {
  const Status proved = known_ ? compute_known_frame() : Status();
  const std::lock_guard lock(mutex_);
  if (proved.ok() && phase_.load() == Phase::kProving) {
    phase_.store(Phase::kRunning);
    first_of_clients_ = next_sequence_;
    if (refused_since_) {
      ++recoveries_;
      recovery_time_ += Clock::now() - *std::exchange(refused_since_, std::nullopt);
    }
    return true;
  }
  if (phase_.load() != Phase::kProving) return false;  // a card was lost meanwhile, or the pipeline stops
  note_loss(std::nullopt, proved.error().message());
  for (std::uint32_t position = 0; position < fleet_.size(); ++position)
    note_loss(position, "it is reset, because it may be the card that failed the known frame");
  return false;
}

// Tries again with cards that were reset, because a process that died may have left them in a bad state.
bool Engine::prove_after_reset() {
  for (CardThread& card_thread : card_threads_)
    card_thread.first_step = static_cast<std::size_t>(card::ResetStep::kDevice);
  flush();
  log_losses();
  return bring_back() && resume() && prove();
}

Status Engine::compute_known_frame() {
  std::unique_lock lock(mutex_);
  if (phase_.load() != Phase::kProving) return {};
  KnownFrame& known = *known_;
  known.done = false;
  known.frame.status = {};
  Slot& slot = slot_of(next_sequence_);
  stage(known.frame, Clock::now());
  const auto decided = [&] { return known.done || phase_.load() != Phase::kProving; };
  recovery_wake_.wait_until(lock, Clock::now() + options_.stuck_after, decided);
  if (!known.done) {
    // Nobody may complete the frame any more, because it is used again later.
    if (slot.frame.exchange(nullptr, std::memory_order_acq_rel) == nullptr)
      recovery_wake_.wait(lock, [&] { return known.done; });
    else
      return Error(ErrorCode::kUnavailable, "the deployment's known frame did not come back within " +
                                                std::to_string(options_.stuck_after.count()) + " ms");
  }
  return known.frame.status.ok() ? compare_known_results() : known.frame.status;
}

Status Engine::compare_known_results() const {
  const Slot& slot = slots_[slot_index(next_sequence_ - 1)];
  for (const plan::KnownAnswer::Result& result : deployment_->plan.known_answer->results)
    for (const Schedule::Egress& egress : schedule_.egresses) {
      if (!egress.value || egress.port != result.port) continue;
      if (sha256_hex(slot.storage[*egress.value]) == result.sha256) continue;
      return Error(
          ErrorCode::kUnavailable,
          "the cards compute a wrong result of the deployment's known frame, first seen at output '" +
              result.port.partition + "." + result.port.port +
              "'; the image may have been built wrongly, or the card may be defective");
    }
  return {};
}

}  // namespace millrace::runtime::pipeline
