#include "runtime/pipeline/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace millrace::runtime::pipeline {

namespace {

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
constexpr std::chrono::milliseconds kRetry{1};
// How long held frames wait for a place with the successor. Its queue is as long as the queue of held frames,
// so only an overload fills it first.
constexpr std::chrono::seconds kSuccessorPatience{10};

Clock::time_point after(std::chrono::milliseconds bound) {
  return Clock::now() + std::clamp(bound, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

Result<std::unique_ptr<Dispatcher>> Dispatcher::open(
    const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
    const PipelineOptions& options, std::uint32_t replicas) {
  if (replicas == 0 || replicas > ReplicaSet::kMost)
    return Error(ErrorCode::kInvalidInput, "replicas: " + std::to_string(replicas) + " is not in 1.." +
                                               std::to_string(ReplicaSet::kMost));
  MILLRACE_ASSIGN(auto first, Pipeline::open(deployment, cluster, options, replicas));
  auto all = std::make_unique<Dispatcher>(std::move(first), options.queue_capacity);
  for (std::uint32_t left = replicas - 1; left > 0; --left) {
    auto more = Pipeline::open(deployment, cluster, options, left);
    if (!more.ok())
      return more.error().within("replica " + std::to_string(replicas - left + 1) + " of " +
                                 std::to_string(replicas));
    MILLRACE_TRY(all->add(std::move(*more)));
  }
  return all;
}

Dispatcher::Dispatcher(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity)
    : first_(std::move(first)), queue_capacity_(queue_capacity), replicas_(*this), queue_(queue_capacity) {
  static_cast<void>(add(first_));
  expiry_ = std::jthread([this](const std::stop_token& stop) { expire(stop); });
}

Dispatcher::~Dispatcher() {
  stop(std::chrono::milliseconds(0));
}

Status Dispatcher::add(std::shared_ptr<Pipeline> replica) {
  MILLRACE_TRY(replicas_.add(std::move(replica)));
  changed();
  return {};
}

std::shared_ptr<Pipeline> Dispatcher::retire(std::chrono::milliseconds bound) {
  if (replicas_.size() == 1) {
    Lock lock(mutex_);
    drained_.wait_until(lock, after(bound), [&] { return queue_.empty() || finishing_; });
  }
  auto retired = replicas_.retire();
  Lock lock(mutex_);
  if (!replicas_.any_ready()) fail_waiting(lock, Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
  return retired;
}

// The way of a frame, begin. Nothing here allocates; locks: the replica's own, and mutex_ only where no
// replica has a free slot.
Status Dispatcher::submit(Frame& frame) {
  const Clock::time_point now = Clock::now();
  if (waiting_.load() == 0 && state_.load(std::memory_order_acquire) == State::kServing) {
    auto taken = replicas_.offer(frame, now);
    // Replicas also refuse because they stop after hold(), hand_over() or refuse() of just now.
    if (taken && (taken->ok() || taken->error().code() != ErrorCode::kUnavailable ||
                  state_.load(std::memory_order_acquire) == State::kServing))
      return std::move(*taken);
  }
  return submit_slowly(frame, now);
}

Status Dispatcher::submit_slowly(Frame& frame, Clock::time_point now) {
  MILLRACE_TRY(first_->check_frame(frame));
  if (frame.deadline <= now)
    return Error(ErrorCode::kDeadlineExceeded, "the frame's deadline has passed already");
  Lock lock(mutex_);
  switch (state_.load()) {
    case State::kServing:
      if (!replicas_.any_ready()) return replicas_.why_unavailable();
      return queue(lock, queue_, frame, now);
    case State::kHolding:
      return queue(lock, *held_, frame, now);
    case State::kRefusing:
      return refusal_;
    case State::kHandedOver:
      break;
  }
  const std::shared_ptr<Successor> next = successor_;
  lock.unlock();
  return next->submit(frame);
}

Status Dispatcher::queue(Lock& lock, FrameQueue& in, Frame& frame, Clock::time_point now) {
  const bool holding = &in != &queue_;
  frame.status = {};
  frame.times = {};
  const FrameQueue::Entry entry{&frame, now, frame.deadline,
                                std::clamp(frame.priority, kFirstPriority, kLastPriority), frame.client};
  FrameQueue::Entry pushed_out;
  if (in.full() && (pushed_out = in.make_room(entry)).frame == nullptr)
    return Error(ErrorCode::kResourceExhausted, (holding ? "another version of the model is coming up, and "
                                                         : "all slots are in use, and ") +
                                                    std::to_string(queue_capacity_) + " frames are waiting");
  in.push(entry);
  if (entry.deadline < next_expiry_) {
    next_expiry_ = entry.deadline;
    wake_.notify_all();
  }
  if (!holding) {
    waiting_.store(queue_.size());
    // No frame was offered a slot that became free before this store.
    give_out(lock);
  }
  lock.unlock();
  if (pushed_out.frame != nullptr)
    fail(pushed_out,
         Error(ErrorCode::kResourceExhausted,
               "the queue is full, and a more urgent frame, or one of a client with fewer waiting, "
               "took the place"));
  return {};
}

/// Offers waiting frames to the replicas. If no replica is ready, the frames fail.
void Dispatcher::give_out(Lock& lock) {
  while (!queue_.empty()) {
    const FrameQueue::Entry next = queue_.front();
    auto taken = replicas_.offer(*next.frame, next.submitted);
    if (!taken) {
      if (!replicas_.any_ready()) fail_waiting(lock, replicas_.why_unavailable());
      return;
    }
    static_cast<void>(pop());
    if (taken->ok()) continue;
    lock.unlock();
    fail(next, std::move(*taken));
    lock.lock();
  }
}

FrameQueue::Entry Dispatcher::pop() {
  const FrameQueue::Entry entry = queue_.pop();
  queue_changed();
  return entry;
}

void Dispatcher::queue_changed() {
  waiting_.store(queue_.size());
  if (queue_.empty()) drained_.notify_all();
}

void Dispatcher::changed() {
  if (waiting_.load() == 0) return;
  Lock lock(mutex_);
  give_out(lock);
}
// The way of a frame, end.

void Dispatcher::fail(const FrameQueue::Entry& entry, Status status) {
  failed_.fetch_add(1);
  Frame& frame = *entry.frame;
  frame.status = std::move(status);
  frame.times.queue = Clock::now() - entry.submitted;
  if (frame.on_complete != nullptr) frame.on_complete(frame, frame.context);
}

void Dispatcher::fail_waiting(Lock& lock, const Error& error) {
  while (!queue_.empty()) {
    const FrameQueue::Entry entry = pop();
    lock.unlock();
    fail(entry, error);
    lock.lock();
  }
}

void Dispatcher::cancel(Frame& frame) {
  std::shared_ptr<Successor> next;
  bool waited = true;
  {
    const Lock lock(mutex_);
    if (in_hand_.frame == &frame) {
      in_hand_ = {};
    } else if (queue_.remove(&frame)) {
      queue_changed();
    } else {
      waited = held_ && held_->remove(&frame);
    }
    next = successor_;
  }
  if (waited)
    return fail({&frame, Clock::now(), {}}, Error(ErrorCode::kCancelled, "cancelled while it waited"));
  if (next != nullptr) next->cancel(frame);
  replicas_.cancel(frame);
}

FrameQueue::Entry Dispatcher::pop_expired(bool& held) {
  const Clock::time_point now = Clock::now();
  held = true;
  if (in_hand_.frame != nullptr && in_hand_.deadline <= now) return std::exchange(in_hand_, {});
  if (held_) {
    if (const auto entry = held_->pop_expired(now); entry.frame != nullptr) return entry;
  }
  held = false;
  const FrameQueue::Entry entry = queue_.pop_expired(now);
  if (entry.frame != nullptr) queue_changed();
  return entry;
}

void Dispatcher::expire(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    bool held = false;
    if (const FrameQueue::Entry late = pop_expired(held); late.frame != nullptr) {
      lock.unlock();
      fail(late, Error(ErrorCode::kDeadlineExceeded,
                       std::string("the deadline passed while the frame waited for ") +
                           (held ? "another version of the model to come up" : "a slot")));
      lock.lock();
      continue;
    }
    next_expiry_ = queue_.earliest_deadline();
    if (held_) next_expiry_ = std::min(next_expiry_, held_->earliest_deadline());
    if (in_hand_.frame != nullptr) next_expiry_ = std::min(next_expiry_, in_hand_.deadline);
    const auto earlier = [&, known = next_expiry_] { return next_expiry_ < known; };
    if (next_expiry_ == Clock::time_point::max())
      wake_.wait(lock, stop, earlier);
    else
      wake_.wait_until(lock, stop, Clock::time_point(next_expiry_), earlier);
  }
}

bool Dispatcher::ready() const {
  const State state = state_.load();
  return state == State::kServing ? replicas_.any_ready() : state != State::kRefusing;
}

PipelineStatus Dispatcher::status() {
  PipelineStatus all = replicas_.status();
  all.ready = replicas_.any_ready();
  all.failed += failed_.load();
  all.queue_capacity = queue_capacity_;
  const Lock lock(mutex_);
  all.queued += queue_.size() + (held_ ? held_->size() : 0) + (in_hand_.frame == nullptr ? 0 : 1);
  return all;
}

void Dispatcher::hold() {
  const Lock lock(mutex_);
  if (state_.load() != State::kServing) return;
  held_.emplace(queue_capacity_);
  state_.store(State::kHolding, std::memory_order_release);
}

FrameQueue::Entry Dispatcher::pop_held() {
  if (in_hand_.frame != nullptr) return std::exchange(in_hand_, {});
  return held_ && !held_->empty() ? held_->pop() : FrameQueue::Entry{};
}

void Dispatcher::hand_over(std::shared_ptr<Successor> successor) {
  const auto end = Clock::now() + kSuccessorPatience;
  Lock lock(mutex_);
  successor_ = successor;
  for (auto one = pop_held(); one.frame != nullptr; one = pop_held()) {
    lock.unlock();
    Status taken = successor->submit(*one.frame);
    const bool full =
        !taken.ok() && taken.error().code() == ErrorCode::kResourceExhausted && Clock::now() < end;
    if (!taken.ok() && !full) fail(one, std::move(taken));
    lock.lock();
    if (!full) continue;
    // Frames that come now are refused by the full successor, so they do not overtake held ones.
    state_.store(State::kHandedOver, std::memory_order_release);
    in_hand_ = one;
    wake_.wait_for(lock, kRetry, [] { return false; });
  }
  state_.store(State::kHandedOver, std::memory_order_release);
  held_.reset();
}

void Dispatcher::refuse(const Error& error) {
  Lock lock(mutex_);
  if (state_.load() != State::kHandedOver) {
    if (state_.load() != State::kRefusing) refusal_ = error;
    state_.store(State::kRefusing, std::memory_order_release);
  }
  for (auto one = pop_held(); one.frame != nullptr; one = pop_held()) {
    lock.unlock();
    fail(one, error);
    lock.lock();
  }
  held_.reset();
}

void Dispatcher::finish(std::chrono::milliseconds bound) {
  Clock::time_point end = after(bound);
  {
    Lock lock(mutex_);
    stop_by_ = std::min(stop_by_, end);
    drained_.notify_all();
    const bool first = !std::exchange(finishing_, true);
    if (!first && !stopping_replicas_) return;  // the first call goes on until the earlier bound
    while (first && !queue_.empty() && Clock::now() < stop_by_) {
      const Clock::time_point earliest = stop_by_;
      drained_.wait_until(lock, earliest);
    }
    end = stop_by_;
    stopping_replicas_ = true;
    fail_waiting(lock, Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
  }
  replicas_.stop(end);
}

void Dispatcher::stop(std::chrono::milliseconds bound) {
  refuse(Error(ErrorCode::kUnavailable, "the pipeline is stopping"));
  finish(bound);
}

}  // namespace millrace::runtime::pipeline
