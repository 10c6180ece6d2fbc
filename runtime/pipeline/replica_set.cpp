#include "runtime/pipeline/replica_set.hpp"

#include <algorithm>
#include <bitset>
#include <future>
#include <thread>
#include <utility>

namespace millrace::runtime::pipeline {

namespace {

constexpr std::chrono::seconds kLongestVisit{1};
constexpr std::chrono::microseconds kVisitPoll{50};

std::chrono::milliseconds until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace

Status ReplicaSet::add(std::shared_ptr<Pipeline> replica) {
  destroy_retired();
  const std::lock_guard lock(mutex_);
  const auto is_free = [](const Owned& one) { return one.replica == nullptr; };
  auto place = std::find_if(owned_.begin(), owned_.end(), is_free);
  if (place == owned_.end() && owned_.size() == kMost)
    return Error(ErrorCode::kResourceExhausted,
                 "a version has at most " + std::to_string(kMost) + " replicas");
  if (place == owned_.end()) place = owned_.emplace(place);
  replica->watch(&watcher_);
  active_[static_cast<std::size_t>(place - owned_.begin())].store(replica.get(), std::memory_order_release);
  *place = {std::move(replica), added_.load()};
  used_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
  added_.fetch_add(1);
  return {};
}

std::shared_ptr<Pipeline> ReplicaSet::retire() {
  destroy_retired();
  const std::lock_guard lock(mutex_);
  std::optional<std::size_t> oldest;
  for (std::size_t i = 0; i < owned_.size(); ++i)
    if (active_[i].load() != nullptr && (!oldest || owned_[i].age < owned_[*oldest].age)) oldest = i;
  if (!oldest) return nullptr;
  active_[*oldest].store(nullptr);
  return owned_[*oldest].replica;
}

/// Whether all threads that were inside a replica at the call have left. A thread that comes later reads
/// active_ as it is now.
bool ReplicaSet::wait_for_visits() {
  const Clock::time_point bound = Clock::now() + kLongestVisit;
  for (int count = 0; count < 2; ++count) {
    const std::uint32_t before = current_visits_.load();
    current_visits_.store(1 - before);
    while (visits_[before].load() != 0) {
      if (Clock::now() > bound) return false;
      std::this_thread::sleep_for(kVisitPoll);
    }
  }
  return true;
}

/// Stops and destroys, on this thread, retired replicas that nobody holds.
void ReplicaSet::destroy_retired() {
  const auto unused = [this](std::size_t i) {
    return owned_[i].replica != nullptr && active_[i].load() == nullptr && owned_[i].replica.use_count() == 1;
  };
  {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (std::size_t i = 0; i < owned_.size(); ++i) any = any || unused(i);
    if (!any) return;
  }
  if (!wait_for_visits()) return;
  std::vector<std::shared_ptr<Pipeline>> ending;  // destroyed outside the lock, which their threads may take
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < owned_.size(); ++i)
      if (unused(i)) ending.push_back(std::exchange(owned_[i].replica, nullptr));
  }
  for (const auto& one : ending) one->stop(std::chrono::milliseconds(0));
}

std::size_t ReplicaSet::size() const {
  return static_cast<std::size_t>(
      std::count_if(active_.begin(), active_.end(), [](const auto& one) { return one.load() != nullptr; }));
}

bool ReplicaSet::any_ready() const {
  const Visit visit(*this);
  for (;;) {
    const std::uint64_t added = added_.load();
    const bool any = std::any_of(active_.begin(), active_.end(), [](const auto& one) {
      const Pipeline* const replica = one.load();
      return replica != nullptr && replica->ready();
    });
    if (any || added_.load() == added) return any;
  }
}

Error ReplicaSet::why_unavailable() const {
  const auto all = owned(false);
  if (all.size() == 1) return all.front()->why_unavailable();
  return Error(ErrorCode::kUnavailable, "no replica of the model is up");
}

std::optional<Status> ReplicaSet::offer(Frame& frame, Clock::time_point submitted) {
  const Visit visit(*this);
  for (;;) {
    const std::uint64_t added = added_.load();
    auto taken = offer_once(frame, submitted);
    const bool refused = taken && !taken->ok() && taken->error().code() == ErrorCode::kUnavailable;
    if (!refused || added_.load() == added) return taken;
  }
}

std::optional<Status> ReplicaSet::offer_once(Frame& frame, Clock::time_point submitted) {
  const std::uint32_t used = used_.load(std::memory_order_acquire);
  const std::uint32_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  std::bitset<kMost> refused;
  std::optional<Status> refusal;
  bool busy = false;  // a replica is ready, but has no free slot
  for (;;) {
    Pipeline* best = nullptr;
    std::uint32_t room = 0, index = 0;
    for (std::uint32_t i = 0; i < used; ++i) {
      const std::uint32_t at = (first + i) % used;
      Pipeline* const replica = active_[at].load();
      if (replica == nullptr || refused[at]) continue;
      const std::uint32_t has = replica->room();
      busy = busy || (has == 0 && refusal && replica->ready());
      if (has <= room) continue;
      best = replica;
      room = has;
      index = at;
    }
    if (best == nullptr) return busy ? std::nullopt : std::move(refusal);
    auto taken = best->offer(frame, submitted);
    if (taken && (taken->ok() || taken->error().code() != ErrorCode::kUnavailable)) return taken;
    refused.set(index);
    busy = busy || !taken;
    refusal = std::move(taken);
  }
}

std::chrono::milliseconds ReplicaSet::retry_after(std::uint32_t waiting) const {
  const Visit visit(*this);
  double frames_per_ns = 0;
  auto soonest = std::chrono::milliseconds::max();
  for (const auto& one : active_) {
    Pipeline* const replica = one.load();
    if (replica == nullptr) continue;
    soonest = std::min(soonest, replica->retry_after());
    if (const auto pace = replica->pace(); pace.count() > 0 && replica->ready())
      frames_per_ns += 1.0 / static_cast<double>(pace.count());
  }
  if (soonest == std::chrono::milliseconds::max()) return std::chrono::seconds(1);
  if (!any_ready() || frames_per_ns == 0) return soonest;
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double, std::nano>(waiting / frames_per_ns));
}

/// Shared ownership, for calls that may take long.
std::vector<std::shared_ptr<Pipeline>> ReplicaSet::owned(bool with_retired) const {
  std::vector<std::shared_ptr<Pipeline>> all;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < owned_.size(); ++i)
    if (owned_[i].replica != nullptr && (with_retired || active_[i].load() != nullptr))
      all.push_back(owned_[i].replica);
  return all;
}

void ReplicaSet::cancel(Frame& frame) {
  for (const auto& replica : owned(true)) replica->cancel(frame);
}

PipelineStatus ReplicaSet::status() const {
  PipelineStatus all;
  all.replicas = 0;
  for (const auto& replica : owned(false)) {
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
    std::move(status.cards.begin(), status.cards.end(), std::back_inserter(all.cards));
    std::move(status.links.begin(), status.links.end(), std::back_inserter(all.links));
  }
  return all;
}

std::vector<FrameRecord> ReplicaSet::recent_frames() const {
  std::vector<FrameRecord> all;
  std::uint32_t index = 0;
  for (const auto& replica : owned(false)) {
    for (FrameRecord frame : replica->recent_frames()) {
      frame.replica = index;
      all.push_back(frame);
    }
    ++index;
  }
  return all;
}

// All at once, because a card that hangs takes seconds to stop.
void ReplicaSet::stop(Clock::time_point end) {
  const auto all = owned(true);
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < all.size(); ++i)
    others.push_back(std::async(std::launch::async, [&, i] { all[i]->stop(until(end)); }));
  if (!all.empty()) all.front()->stop(until(end));
  for (auto& other : others) other.get();
}

}  // namespace millrace::runtime::pipeline
