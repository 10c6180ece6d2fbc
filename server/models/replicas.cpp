#include "server/models/replicas.hpp"

#include <algorithm>
#include <utility>

namespace millrace::server::models {

using runtime::pipeline::Frame;
using runtime::pipeline::Pipeline;
using runtime::pipeline::PipelineStatus;

Replicas::Replicas(std::shared_ptr<Pipeline> first) : first_(std::move(first)) {
  static_cast<void>(add(first_));
}

Status Replicas::add(std::shared_ptr<Pipeline> pipeline) {
  const std::lock_guard lock(mutex_);
  if (owned_.size() == kMost)
    return Error(ErrorCode::kResourceExhausted,
                 "a version has at most " + std::to_string(kMost) + " replicas in its time");
  in_turn_[owned_.size()].store(pipeline.get(), std::memory_order_release);
  owned_.push_back(std::move(pipeline));
  places_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
  return {};
}

std::shared_ptr<Pipeline> Replicas::retire() {
  const std::lock_guard lock(mutex_);
  for (std::size_t place = 0; place < owned_.size(); ++place)
    if (in_turn_[place].exchange(nullptr) != nullptr) return owned_[place];
  return nullptr;
}

std::size_t Replicas::size() const {
  return static_cast<std::size_t>(
      std::count_if(in_turn_.begin(), in_turn_.end(), [](const auto& one) { return one.load() != nullptr; }));
}

Status Replicas::submit(Frame& frame) {
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  const std::uint32_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  Status refused = Error(ErrorCode::kUnavailable, "no replica of the model is up");
  for (std::uint32_t i = 0; i < places; ++i) {
    Pipeline* const pipeline = in_turn_[(first + i) % places].load(std::memory_order_acquire);
    if (pipeline == nullptr) continue;
    Status taken = pipeline->submit(frame);
    if (taken.ok()) return taken;
    const ErrorCode code = taken.error().code();
    if (code != ErrorCode::kUnavailable && code != ErrorCode::kResourceExhausted) return taken;
    // Full says more than lost: it passes sooner.
    if (code == ErrorCode::kResourceExhausted || refused.error().code() != ErrorCode::kResourceExhausted)
      refused = std::move(taken);
  }
  return refused;
}

void Replicas::cancel(Frame& frame) {
  for (const auto& pipeline : owned()) pipeline->cancel(frame);
}

std::vector<std::shared_ptr<Pipeline>> Replicas::owned() const {
  const std::lock_guard lock(mutex_);
  return owned_;
}

bool Replicas::ready() const {
  return std::any_of(in_turn_.begin(), in_turn_.end(), [](const auto& one) {
    const Pipeline* const pipeline = one.load(std::memory_order_acquire);
    return pipeline != nullptr && pipeline->ready();
  });
}

std::chrono::milliseconds Replicas::retry_after() {
  auto soonest = std::chrono::milliseconds::max();
  for (const auto& one : in_turn_)
    if (Pipeline* const pipeline = one.load(std::memory_order_acquire); pipeline != nullptr)
      soonest = std::min(soonest, pipeline->retry_after());
  return soonest == std::chrono::milliseconds::max() ? std::chrono::seconds(1) : soonest;
}

PipelineStatus Replicas::status() {
  PipelineStatus all;
  for (const auto& one : in_turn_) {
    Pipeline* const pipeline = one.load();
    if (pipeline == nullptr) continue;
    PipelineStatus status = pipeline->status();
    all.ready = all.ready || status.ready;
    all.in_flight += status.in_flight;
    all.queued += status.queued;
    all.slots += status.slots;
    all.queue_capacity += status.queue_capacity;
    all.epoch = std::max(all.epoch, status.epoch);
    all.completed += status.completed;
    all.failed += status.failed;
    std::move(status.cards.begin(), status.cards.end(), std::back_inserter(all.cards));
    std::move(status.links.begin(), status.links.end(), std::back_inserter(all.links));
  }
  return all;
}

std::vector<runtime::pipeline::FrameRecord> Replicas::recent_frames() {
  std::vector<runtime::pipeline::FrameRecord> all;
  for (const auto& one : in_turn_) {
    Pipeline* const pipeline = one.load();
    if (pipeline == nullptr) continue;
    const auto some = pipeline->recent_frames();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void Replicas::stop(std::chrono::milliseconds bound) {
  const auto end = runtime::pipeline::Clock::now() + bound;
  for (const auto& pipeline : owned()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - runtime::pipeline::Clock::now());
    pipeline->stop(std::max(left, std::chrono::milliseconds(0)));
  }
}

}  // namespace millrace::server::models
