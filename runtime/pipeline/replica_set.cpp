#include "runtime/pipeline/replica_set.hpp"

#include <algorithm>
#include <future>
#include <utility>

namespace millrace::runtime::pipeline {

namespace {

std::chrono::milliseconds until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace

void ReplicaSet::replace(Replicas next) {
  replicas_.store(std::make_shared<const Replicas>(std::move(next)));
  std::erase_if(retired_, [](const auto& one) { return one.use_count() == 1; });
}

void ReplicaSet::add(std::shared_ptr<Pipeline> replica) {
  replica->watch(&watcher_);
  Replicas next = *replicas_.load();
  next.push_back(std::move(replica));
  replace(std::move(next));
}

std::shared_ptr<Pipeline> ReplicaSet::retire() {
  Replicas next = *replicas_.load();
  if (next.size() < 2) return nullptr;
  const std::shared_ptr<Pipeline> oldest = next.front();
  next.erase(next.begin());
  retired_.push_back(oldest);
  const PipelineStatus status = oldest->status();
  recoveries_before_.fetch_add(status.recoveries);
  recovery_seconds_before_.fetch_add(status.recovery_seconds);
  replace(std::move(next));
  return oldest;
}

bool ReplicaSet::any_ready() const {
  const auto replicas = replicas_.load();
  if (std::any_of(replicas->begin(), replicas->end(), [](const auto& one) { return one->ready(); }))
    return true;
  return replicas != replicas_.load() && any_ready();  // a replaced list may contain stopped replicas
}

Error ReplicaSet::why_unavailable() const {
  const auto replicas = replicas_.load();
  if (replicas->size() == 1) return replicas->front()->why_unavailable();
  return Error(ErrorCode::kUnavailable, "no replica of the model is running");
}

std::optional<Status> ReplicaSet::offer(Frame& frame, Clock::time_point submitted) {
  const auto replicas = replicas_.load();
  const std::size_t count = replicas->size();
  const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  std::size_t best = first;
  std::uint32_t most = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    const std::uint32_t room = (*replicas)[i % count]->room();
    if (room > most) best = i;
    most = std::max(most, room);
  }
  // If other frames have filled the best replica meanwhile, the frame is offered to the next replicas.
  std::optional<Status> refusal;
  bool busy = false;  // a replica is ready, but has no free slot
  for (std::size_t i = best; i < best + count; ++i) {
    Pipeline& replica = *(*replicas)[i % count];
    if (replica.room() == 0) {
      busy = busy || replica.ready();
      continue;
    }
    auto taken = replica.offer(frame, submitted);
    if (taken && (taken->ok() || taken->error().code() != ErrorCode::kUnavailable)) return taken;
    busy = busy || !taken;
    refusal = std::move(taken);
  }
  if (busy) return std::nullopt;
  if (replicas != replicas_.load())
    return offer(frame, submitted);  // try the new list, because replicas of the old may be stopping
  return refusal;
}

std::chrono::milliseconds ReplicaSet::retry_after(std::uint32_t waiting) const {
  double frames_per_ns = 0;
  bool ready = false;
  auto soonest = std::chrono::milliseconds::max();
  const auto replicas = replicas_.load();
  for (const auto& replica : *replicas) {
    soonest = std::min(soonest, replica->retry_after());
    if (!replica->ready()) continue;
    ready = true;
    if (const auto pace = replica->pace(); pace.count() > 0)
      frames_per_ns += 1.0 / static_cast<double>(pace.count());
  }
  if (!ready || frames_per_ns == 0) return soonest;
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double, std::nano>(waiting / frames_per_ns));
}

void ReplicaSet::cancel(Frame& frame) {
  const auto replicas = replicas_.load();
  for (const auto& replica : *replicas) replica->cancel(frame);
}

PipelineStatus ReplicaSet::status() const {
  PipelineStatus all;
  all.replicas = 0;
  all.recoveries = recoveries_before_.load();
  all.recovery_seconds = recovery_seconds_before_.load();
  const auto replicas = replicas_.load();
  for (const auto& replica : *replicas) {
    PipelineStatus status = replica->status();
    for (CardStatus& card : status.cards) card.replica = all.replicas;
    for (LinkStatus& link : status.links) link.replica = all.replicas;
    ++all.replicas;
    all.replicas_ready += status.ready ? 1 : 0;
    all.in_flight += status.in_flight;
    all.queued += status.queued;
    all.slots += status.slots;
    all.epoch = std::max(all.epoch, status.epoch);
    all.completed += status.completed;
    all.failed += status.failed;
    all.recoveries += status.recoveries;
    all.recovery_seconds += status.recovery_seconds;
    all.bring_up_seconds = std::max(all.bring_up_seconds, status.bring_up_seconds);
    std::move(status.cards.begin(), status.cards.end(), std::back_inserter(all.cards));
    std::move(status.links.begin(), status.links.end(), std::back_inserter(all.links));
  }
  return all;
}

std::vector<FrameRecord> ReplicaSet::recent_frames() const {
  std::vector<FrameRecord> all;
  const auto replicas = replicas_.load();
  for (std::size_t index = 0; index < replicas->size(); ++index)
    for (FrameRecord frame : (*replicas)[index]->recent_frames()) {
      frame.replica = static_cast<std::uint32_t>(index);
      all.push_back(frame);
    }
  return all;
}

// Stops all replicas at once, because a card that hangs takes seconds to stop.
void ReplicaSet::stop(Clock::time_point end) {
  const auto replicas = replicas_.load();
  std::vector<std::future<void>> stopped;
  for (const auto& replica : *replicas)
    stopped.push_back(std::async(std::launch::async, [&, end] { replica->stop(until(end)); }));
  for (auto& one : stopped) one.get();
}

}  // namespace millrace::runtime::pipeline
