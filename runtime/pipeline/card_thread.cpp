// The thread of one card. It waits for the card's results and passes them on. If the card has no results for
// the host, the thread waits for the run of the supervisor, which reports faults. No other thread waits for the card.
#include <cstring>

#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

namespace abi = plan::abi;

namespace {

// How long a card's thread waits in XRT before it checks its flags. A result of the card ends the wait early.
constexpr std::chrono::milliseconds kPatience{50};
constexpr std::chrono::milliseconds kBetweenSessions{2};
constexpr std::chrono::milliseconds kDrainAtEnd{500};

// The memory and the registers of a card that is lost read as this value, and its runs seem to complete.
constexpr std::uint32_t kAllOnes = ~0U;

std::string fault_text(const abi::FaultReport& report) {
  if (report.magic == kAllOnes) return "it is lost: its memory reads all ones";
  if (report.magic != abi::FaultReport{}.magic) return "its supervisor ended";
  std::string text = "it reports that it was stopped";
  if (report.code == abi::FaultCode::kLinkDown)
    text = "it reports link " + std::to_string(report.link_index) + " down";
  if (report.code == abi::FaultCode::kProtocol) text = "it reports a protocol fault";
  if (report.code == abi::FaultCode::kInternal) text = "it reports an internal fault";
  if (report.detail[0] != 0) text += std::string(": ") + report.detail;
  return text;
}

}  // namespace

void Engine::card_loop(std::uint32_t position) {
  CardThread& card_thread = card_threads_[position];
  const bool has_egress = !fleet_.egresses_of(position).empty();
  std::uint64_t served = 0;
  while (!ending()) {
    if (card_thread.lost.load()) {
      std::unique_lock lock(mutex_);
      card_thread.parked = true;
      recovery_wake_.notify_all();
      card_wake_.wait(lock, [&] { return ending() || !card_thread.lost.load(); });
      card_thread.parked = false;
      continue;
    }
    if (has_egress && session_.load() != served) {
      std::unique_lock lock(mutex_);
      if (in_session() && !card_thread.lost.load()) {
        served = session_.load();
        card_thread.in_session = true;
        const std::uint64_t first = session_first_;
        const std::uint32_t epoch = epoch_.load();
        lock.unlock();
        serve_results(position, first, epoch);
        lock.lock();
        card_thread.in_session = false;
        recovery_wake_.notify_all();
        continue;
      }
    }
    // A thread must also wait in XRT while the pipeline recovers (between two sessions): otherwise XRT does not report
    // when other runs of the card end.
    const card::RunState state =
        fleet_.card(position).wait_supervisor(has_egress ? kBetweenSessions : kPatience);
    if (state == card::RunState::kRunning) continue;
    const Fault fault = state == card::RunState::kDone ? read_fault(position) : Fault{"it is lost"};
    report_loss(position, fault.text, fault.only_link);
  }
}

// Handles results in frame order. `epoch` is the card's epoch, a number that each flush raises, at the start of the
// session (the time between two recoveries). If the epoch rises meanwhile, runs started here belong to the old epoch
// and are flushed too.
void Engine::serve_results(std::uint32_t position, std::uint64_t first, std::uint32_t epoch) {
  const auto serve = [&](std::uint64_t sequence) {
    for (const std::uint32_t index : fleet_.egresses_of(position))
      if (!take_result(position, index, sequence, epoch)) return false;
    return arm(position, sequence + options_.slots, epoch);
  };
  for (std::uint64_t sequence = first; serve(sequence); ++sequence) free_slot(sequence);
  drain_results(position);
}

bool Engine::take_result(std::uint32_t position, std::uint32_t index, std::uint64_t sequence,
                         std::uint32_t epoch) {
  card::Egress& egress = fleet_.egress(index);
  const std::uint32_t slot_number = slot_index(sequence);
  for (;;) {
    const card::RunState state = egress.wait(slot_number, kPatience);
    if (state == card::RunState::kDone) break;
    if (state == card::RunState::kFailed) {
      report_loss(position, "it is lost");
      return false;
    }
    if (card_threads_[position].lost.load() || !in_session()) return false;
    if (fleet_.card(position).supervisor_ended()) {
      const Fault fault = read_fault(position);
      report_loss(position, fault.text, fault.only_link);
      return false;
    }
  }
  const Clock::time_point computed = Clock::now();
  const auto trailer = egress.fetch(slot_number);
  if (!trailer.ok()) {
    report_loss(position, trailer.error().message());
    return false;
  }
  if (trailer->magic == kAllOnes) {
    report_loss(position, "it is lost: its memory reads all ones");
    return false;
  }
  const Schedule::Egress& plan = schedule_.egresses[index];
  if (trailer->magic != abi::StatusTrailer{}.magic || trailer->epoch != epoch ||
      trailer->sequence != sequence || trailer->status != abi::FrameStatus::kOk ||
      trailer->payload_bytes != plan.bytes) {
    if (in_session()) {
      report_loss(std::nullopt, "unit " + plan.unit + " did not bring frame " + std::to_string(sequence));
    }
    return false;
  }
  Slot& slot = slots_[slot_number];
  // The submitting thread may still be inside stage(). Wait until that thread has written the frame's buffers.
  while (slot.staged.load(std::memory_order_acquire) != sequence + 1) std::this_thread::yield();
  if (plan.value) {
    std::memcpy(slot.storage[*plan.value].data(), egress.payload(slot_number).data(), plan.bytes);
    slot.computed.store(computed, std::memory_order_relaxed);
    arrived(sequence, *plan.value);
  }
  return true;
}

bool Engine::arm(std::uint32_t position, std::uint64_t sequence, std::uint32_t epoch) {
  for (const std::uint32_t index : fleet_.egresses_of(position)) {
    const Status started = fleet_.egress(index).start(slot_index(sequence), epoch, sequence);
    if (started.ok()) continue;
    report_loss(position, started.error().message());
    return false;
  }
  return true;
}

void Engine::drain_results(std::uint32_t position) {
  std::optional<Clock::time_point> until;
  for (const std::uint32_t index : fleet_.egresses_of(position)) {
    for (std::uint32_t slot = 0; slot < options_.slots; ++slot) {
      while (!card_threads_[position].lost.load() &&
             fleet_.egress(index).wait(slot, kBetweenSessions) == card::RunState::kRunning) {
        if (!ending()) continue;
        if (!until) until = Clock::now() + kDrainAtEnd;
        if (Clock::now() > *until) return;
      }
    }
  }
}

Engine::Fault Engine::read_fault(std::uint32_t position) {
  const abi::FaultReport report = fleet_.card(position).fault_report();
  if (report.magic == abi::FaultReport{}.magic &&
      (report.code == abi::FaultCode::kLinkDown || report.code == abi::FaultCode::kProtocol)) {
    fleet_.count_link_error(position, report.link_index);
  }
  const bool link_down = report.magic == abi::FaultReport{}.magic && report.code == abi::FaultCode::kLinkDown;
  card_threads_[position].report_read.store(true);
  return {fault_text(report), link_down};
}

void Engine::report_loss(std::optional<std::uint32_t> position, const std::string& reason, bool only_link) {
  const std::lock_guard lock(mutex_);
  note_loss(position, reason, only_link);
}

}  // namespace millrace::runtime::pipeline
