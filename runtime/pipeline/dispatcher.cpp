#include "runtime/pipeline/dispatcher.hpp"

#include <algorithm>
#include <utility>

namespace millrace::runtime::pipeline {

namespace {

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
constexpr std::uint32_t kMostReplicas = 256;

Clock::time_point after(std::chrono::milliseconds bound) {
  return Clock::now() + std::clamp(bound, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

Result<std::unique_ptr<Dispatcher>> Dispatcher::open(
    const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
    const PipelineOptions& options, std::uint32_t replicas) {
  if (replicas == 0 || replicas > kMostReplicas)
    return Error(ErrorCode::kInvalidInput,
                 "replicas: " + std::to_string(replicas) + " is not in 1.." + std::to_string(kMostReplicas));
  MILLRACE_ASSIGN(auto first, Pipeline::open(deployment, cluster, options, replicas));
  auto all = std::make_unique<Dispatcher>(std::move(first), options.queue_capacity);
  for (std::uint32_t left = replicas - 1; left > 0; --left) {
    auto more = Pipeline::open(deployment, cluster, options, left);
    if (!more.ok())
      return more.error().within("replica " + std::to_string(all->size() + 1) + " of " +
                                 std::to_string(replicas));
    all->add(std::move(*more));
  }
  return all;
}

Dispatcher::Dispatcher(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity)
    : deployment_(first->deployment()),
      queue_capacity_(queue_capacity),
      replicas_(*this),
      queue_(queue_capacity),
      held_(queue_capacity) {
  add(std::move(first));
  expiry_ = std::jthread([this](const std::stop_token& stop) { expire(stop); });
}

Dispatcher::~Dispatcher() {
  stop(std::chrono::milliseconds(0));
}

void Dispatcher::add(std::shared_ptr<Pipeline> replica) {
  replicas_.add(std::move(replica));
  changed();
}

// The hot path begins here. It allocates nothing, and locks mutex_ only if no replica has a free slot (the
// room for one frame on the cards).
Status Dispatcher::submit(Frame& frame) {
  const Clock::time_point now = Clock::now();
  const bool handed_over = std::exchange(frame.handed_over, false);
  if (waiting_.load() == 0 && state_.load(std::memory_order_acquire) == State::kServing) {
    auto taken = replicas_.offer(frame, now);
    // A replica that is being stopped refuses frames with kUnavailable. If it was stopped because of a recent
    // hold(), hand_over() or refuse(), do not return this error: submit_slowly() handles the frame.
    if (taken && (taken->ok() || taken->error().code() != ErrorCode::kUnavailable ||
                  state_.load(std::memory_order_acquire) == State::kServing))
      return std::move(*taken);
  }
  return submit_slowly(frame, handed_over, now);
}

Status Dispatcher::submit_slowly(Frame& frame, bool handed_over, Clock::time_point now) {
  MILLRACE_TRY(replicas_.check_frame(frame));
  if (frame.deadline <= now)
    return Error(ErrorCode::kDeadlineExceeded, "the frame's deadline has passed already");
  Lock lock(mutex_);
  switch (state_.load()) {
    case State::kServing:
      if (!replicas_.any_ready()) return replicas_.why_unavailable();
      return queue(lock, queue_, frame, handed_over, now);
    case State::kHolding:
      return queue(lock, held_, frame, handed_over, now);
    case State::kRefusing:
      return refusal_;
    case State::kHandedOver:
      break;
  }
  const std::shared_ptr<Successor> next = successor_;
  lock.unlock();
  return next->submit(frame);
}

/// Queues a frame. A frame handed over by another model version is queued even if the queue is full.
Status Dispatcher::queue(Lock& lock, FrameQueue& in, Frame& frame, bool handed_over, Clock::time_point now) {
  const bool holding = &in == &held_;
  frame.status = {};
  frame.times = {};
  const FrameQueue::Entry entry{&frame, now, frame.deadline,
                                std::clamp(frame.priority, kFirstPriority, kLastPriority), frame.client};
  FrameQueue::Entry displaced;
  if (in.full() && !handed_over && (displaced = in.make_room(entry)).frame == nullptr)
    return Error(ErrorCode::kResourceExhausted,
                 (holding ? "another version of the model is starting, and " : "all slots are in use, and ") +
                     std::to_string(queue_capacity_) + " frames are waiting");
  in.push(entry);
  if (entry.deadline < next_expiry_) {
    next_expiry_ = entry.deadline;
    wake_.notify_all();
  }
  if (!holding) {
    waiting_.store(queue_.size());
    // A slot (the room for one frame on the cards) that became free before waiting_ was stored has not been
    // offered to any waiting frame yet.
    give_out(lock);
  }
  lock.unlock();
  if (displaced.frame != nullptr)
    fail(displaced, Error(ErrorCode::kResourceExhausted,
                          "the queue is full, and another frame replaced this frame: "
                          "the other frame is more urgent, or its client has fewer waiting frames"));
  return {};
}

/// Offers waiting frames to the replicas. If no replica is ready, the frames fail.
void Dispatcher::give_out(Lock& lock) {
  while (!queue_.empty()) {
    const FrameQueue::Entry next = queue_.front();
    auto taken = replicas_.offer(*next.frame, next.submitted);
    if (!taken) {
      if (!replicas_.any_ready()) fail_all(lock, queue_, replicas_.why_unavailable());
      return;
    }
    queue_.pop();
    queue_changed();
    if (taken->ok()) continue;
    lock.unlock();
    fail(next, std::move(*taken));
    lock.lock();
  }
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
// The hot path ends here.

void Dispatcher::fail(const FrameQueue::Entry& entry, Status status) {
  failed_.fetch_add(1);
  Frame& frame = *entry.frame;
  frame.status = std::move(status);
  frame.times.queue = Clock::now() - entry.submitted;
  if (frame.on_complete != nullptr) frame.on_complete(frame, frame.context);
}

/// Fails all waiting frames. Removes them from the queue first, so that frames that arrive meanwhile do not fail.
void Dispatcher::fail_all(Lock& lock, FrameQueue& in, const Error& error) {
  std::vector<FrameQueue::Entry> failed;
  while (!in.empty()) failed.push_back(in.pop());
  queue_changed();
  lock.unlock();
  for (const FrameQueue::Entry& entry : failed) fail(entry, error);
  lock.lock();
}

void Dispatcher::cancel(Frame& frame) {
  std::shared_ptr<Successor> next;
  {
    Lock lock(mutex_);
    if (queue_.remove(&frame) || held_.remove(&frame)) {
      queue_changed();
      lock.unlock();
      return fail({&frame, Clock::now(), {}}, Error(ErrorCode::kCancelled, "cancelled while it waited"));
    }
    // If the frame is just being handed to the successor, wait: the successor can cancel a frame only after
    // it has received the frame.
    handed_.wait(lock, [&] { return in_hand_ != &frame; });
    next = successor_;
  }
  if (next != nullptr) next->cancel(frame);
  replicas_.cancel(frame);
}

void Dispatcher::expire(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (!stop.stop_requested()) {
    for (FrameQueue* const in : {&queue_, &held_}) {
      const Clock::time_point now = Clock::now();
      for (auto late = in->pop_expired(now); late.frame != nullptr; late = in->pop_expired(now)) {
        queue_changed();
        lock.unlock();
        fail(late, Error(ErrorCode::kDeadlineExceeded,
                         std::string("the deadline passed while the frame waited for ") +
                             (in == &held_ ? "another version of the model to start" : "a slot")));
        lock.lock();
      }
    }
    next_expiry_ = std::min(queue_.earliest_deadline(), held_.earliest_deadline());
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
  all.queued += queue_.size() + held_.size();
  return all;
}

void Dispatcher::hold() {
  const Lock lock(mutex_);
  if (state_.load() == State::kServing) state_.store(State::kHolding, std::memory_order_release);
}

void Dispatcher::hand_over(std::shared_ptr<Successor> successor) {
  Lock lock(mutex_);
  successor_ = successor;
  state_.store(State::kHandedOver, std::memory_order_release);
  while (!held_.empty()) {
    const FrameQueue::Entry one = held_.pop();
    in_hand_ = one.frame;
    lock.unlock();
    one.frame->handed_over = true;
    if (Status taken = successor->submit(*one.frame); !taken.ok()) {
      one.frame->handed_over = false;
      fail(one, std::move(taken));
    }
    lock.lock();
    in_hand_ = nullptr;
    handed_.notify_all();
  }
}

void Dispatcher::refuse(const Error& error) {
  Lock lock(mutex_);
  if (state_.load() != State::kHandedOver) {
    if (state_.load() != State::kRefusing) refusal_ = error;
    state_.store(State::kRefusing, std::memory_order_release);
  }
  fail_all(lock, held_, error);
}

void Dispatcher::finish(std::chrono::milliseconds bound) {
  Clock::time_point end = after(bound);
  {
    Lock lock(mutex_);
    stop_by_ = std::min(stop_by_, end);
    drained_.notify_all();
    const bool first = !std::exchange(finishing_, true);
    if (!first && !stopping_replicas_) return;  // the first call of finish() waits until the earlier bound
    while (first && !queue_.empty() && Clock::now() < stop_by_) {
      const Clock::time_point earliest = stop_by_;
      drained_.wait_until(lock, earliest);
    }
    end = stop_by_;
    stopping_replicas_ = true;
    fail_all(lock, queue_, Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
  }
  replicas_.stop(end);
}

void Dispatcher::stop(std::chrono::milliseconds bound) {
  refuse(Error(ErrorCode::kUnavailable, "the pipeline is stopping"));
  finish(bound);
}

}  // namespace millrace::runtime::pipeline
