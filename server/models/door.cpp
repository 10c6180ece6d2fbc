#include "server/models/door.hpp"

#include <algorithm>
#include <utility>

#include "server/models/model.hpp"

namespace millrace::server::models {

using runtime::pipeline::Clock;
using runtime::pipeline::Frame;
using runtime::pipeline::FrameQueue;

namespace {

constexpr std::chrono::milliseconds kRetry{1};
// How long frames that waited may wait on for a place in the next version's queue: it is as long as the
// door's, so only an overload fills it before they are in.
constexpr std::chrono::seconds kPatience{10};

void complete(Frame& frame, Status status) {
  frame.status = std::move(status);
  if (frame.on_complete != nullptr) frame.on_complete(frame, frame.context);
}

Status too_late() {
  return Error(ErrorCode::kDeadlineExceeded,
               "the deadline passed while the frame waited for another version of the model to come up");
}

}  // namespace

Door::Door(std::shared_ptr<runtime::pipeline::Pipeline> behind, std::uint32_t capacity)
    : behind_(std::move(behind)), capacity_(capacity) {}

Door::~Door() {
  fail_all(Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
}

Status Door::submit(Frame& frame, Passage* passage) {
  if (state_.load(std::memory_order_acquire) == State::kOpen) {
    Status taken = behind_->submit(frame);
    // A refusal may be that of a pipeline that stops because the door was closed just now.
    if (taken.ok() || taken.error().code() != ErrorCode::kUnavailable ||
        state_.load(std::memory_order_acquire) == State::kOpen)
      return taken;
  }
  return submit_slowly(frame, passage);
}

Status Door::submit_slowly(Frame& frame, Passage* passage) {
  std::shared_ptr<Model> next;
  Entry pushed_out;
  {
    const std::lock_guard lock(mutex_);
    switch (state_.load()) {
      case State::kOpen:
        return behind_->submit(frame);
      case State::kClosed: {
        const Clock::time_point now = Clock::now();
        if (frame.deadline <= now) return too_late();
        const Entry entry{
            &frame,
            now,
            frame.deadline,
            std::clamp(frame.priority, runtime::pipeline::kFirstPriority, runtime::pipeline::kLastPriority),
            frame.client,
            passage};
        if (waiting_->full() && (pushed_out = waiting_->make_room(entry)).frame == nullptr)
          return Error(ErrorCode::kResourceExhausted, "another version of the model is coming up, and " +
                                                          std::to_string(capacity_) +
                                                          " frames are waiting for it");
        waiting_->push(entry);
        if (entry.deadline < next_expiry_) {
          next_expiry_ = entry.deadline;
          changed_.notify_all();
        }
        break;
      }
      case State::kMoved:
        next = next_;
        break;
      case State::kGone:
        return *reason_;
    }
  }
  if (next != nullptr) return pass_on(frame, passage, next);
  if (pushed_out.frame != nullptr)
    complete(*pushed_out.frame,
             Error(ErrorCode::kResourceExhausted,
                   "another version of the model is coming up, and a more urgent frame, or one of a client "
                   "with fewer waiting, took the place"));
  return {};
}

// The caller holds what keeps this door alive: the passage's model, or the frame's place in the queue.
Status Door::pass_on(Frame& frame, Passage* passage, const std::shared_ptr<Model>& next) const {
  const bool same = next->deployment().digest == deployment().digest;
  if (passage == nullptr) {
    if (same) return next->door().submit(frame);
    return Error(ErrorCode::kUnavailable, "the version was replaced by version '" + next->version() + "'");
  }
  const std::shared_ptr<Model> before = passage->model;
  if (!passage->any_version && next->version() != before->version())
    return Error(ErrorCode::kNotFound, "model '" + before->name() + "' has no version '" + before->version() +
                                           "' any more; it has " + next->version());
  if (next->info().inputs != before->info().inputs || next->info().outputs != before->info().outputs)
    return Error(ErrorCode::kUnavailable, "version '" + next->version() + "' of model '" + before->name() +
                                              "' came up with other inputs or outputs while the request " +
                                              "waited; ask for the model's metadata again");
  // Written before the frame is given away: from then on its owner may be gone.
  passage->model = next;
  next->begun();
  Status taken = next->door().submit(frame, passage);
  if (taken.ok()) {
    before->passed_on();
  } else {
    passage->model->passed_on();
    passage->model = before;
  }
  return taken;
}

void Door::cancel(Frame& frame) {
  std::shared_ptr<Model> next;
  bool waited = false;
  {
    const std::lock_guard lock(mutex_);
    if (in_hand_.frame == &frame) {
      in_hand_ = {};
      waited = true;
    } else {
      waited = waiting_ && waiting_->remove(&frame);
    }
    next = next_;
  }
  if (waited) return complete(frame, Error(ErrorCode::kCancelled, "cancelled while it waited"));
  if (next != nullptr) next->door().cancel(frame);
  behind_->cancel(frame);
}

bool Door::ready() const {
  const State state = state_.load();
  return state == State::kOpen ? behind_->ready() : state != State::kGone;
}

runtime::pipeline::PipelineStatus Door::status() {
  auto status = behind_->status();
  const std::lock_guard lock(mutex_);
  status.queued += (waiting_ ? waiting_->size() : 0) + (in_hand_.frame == nullptr ? 0 : 1);
  return status;
}

void Door::stop(std::chrono::milliseconds bound) {
  fail_all(Error(ErrorCode::kUnavailable, "the pipeline is stopping"));
  behind_->stop(bound);
}

void Door::close() {
  const std::lock_guard lock(mutex_);
  if (state_.load() != State::kOpen) return;
  waiting_.emplace(capacity_);
  timer_.emplace([this](const std::stop_token& stop) { keep_deadlines(stop); });
  state_.store(State::kClosed, std::memory_order_release);
}

Door::Entry Door::take_first() {
  if (in_hand_.frame != nullptr) return std::exchange(in_hand_, {});
  return waiting_ && !waiting_->empty() ? waiting_->pop() : Entry{};
}

Door::Entry Door::take_expired(Clock::time_point now) {
  if (in_hand_.frame != nullptr && in_hand_.deadline <= now) return std::exchange(in_hand_, {});
  return waiting_ ? waiting_->pop_expired(now) : Entry{};
}

Clock::time_point Door::earliest_deadline() const {
  const auto waiting = waiting_ ? waiting_->earliest_deadline() : Clock::time_point::max();
  return in_hand_.frame == nullptr ? waiting : std::min(in_hand_.deadline, waiting);
}

void Door::lead_to(std::shared_ptr<Model> next) {
  const auto end = Clock::now() + kPatience;
  std::unique_lock lock(mutex_);
  next_ = std::move(next);
  for (Entry one = take_first(); one.frame != nullptr; one = take_first()) {
    lock.unlock();
    Status passed = pass_on(*one.frame, static_cast<Passage*>(one.with), next_);
    const bool again =
        !passed.ok() && passed.error().code() == ErrorCode::kResourceExhausted && Clock::now() < end;
    if (!passed.ok() && !again) complete(*one.frame, std::move(passed));
    lock.lock();
    if (!again) continue;
    // So full that what comes now is refused there, and not let in behind these.
    state_.store(State::kMoved, std::memory_order_release);
    in_hand_ = one;
    changed_.wait_for(lock, kRetry, [] { return false; });
  }
  state_.store(State::kMoved, std::memory_order_release);
  waiting_.reset();
  const auto ended = std::exchange(timer_, std::nullopt);
  lock.unlock();
}

void Door::fail_all(const Error& error) {
  std::unique_lock lock(mutex_);
  if (state_.load() != State::kMoved) {
    if (!reason_) reason_ = error;
    state_.store(State::kGone, std::memory_order_release);
  }
  for (Entry one = take_first(); one.frame != nullptr; one = take_first()) {
    lock.unlock();
    complete(*one.frame, error);
    lock.lock();
  }
  waiting_.reset();
  const auto ended = std::exchange(timer_, std::nullopt);
  lock.unlock();
}

void Door::keep_deadlines(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (const Entry late = take_expired(Clock::now()); late.frame != nullptr) {
      lock.unlock();
      complete(*late.frame, too_late());
      lock.lock();
      continue;
    }
    // Woken by what has less time than all that waits, and by nothing else that comes.
    next_expiry_ = earliest_deadline();
    const auto earlier = [&, known = next_expiry_] { return next_expiry_ < known; };
    if (next_expiry_ == Clock::time_point::max())
      changed_.wait(lock, stop, earlier);
    else
      changed_.wait_until(lock, stop, next_expiry_, earlier);
  }
}

}  // namespace millrace::server::models
