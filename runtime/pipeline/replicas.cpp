#include "runtime/pipeline/replicas.hpp"

#include <algorithm>
#include <bitset>
#include <future>
#include <new>
#include <utility>

namespace millrace::runtime::pipeline {

namespace {

std::chrono::milliseconds until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
constexpr std::chrono::seconds kLongestVisit{1};
constexpr std::chrono::microseconds kLook{50};

Clock::time_point after(std::chrono::milliseconds bound) {
  return Clock::now() + std::clamp(bound, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

Replicas::Replicas(std::shared_ptr<Pipeline> first, std::uint32_t queue_capacity)
    : first_(std::move(first)), queue_capacity_(queue_capacity), queue_(queue_capacity) {
  ear_.owner = this;
  static_cast<void>(add(first_));
  keeper_ = std::thread([this] { keep(); });
}

Replicas::~Replicas() {
  // Where memory ends in the middle of it, what was begun is ended at the second try.
  for (bool stopped = false; !stopped;) {
    try {
      stop(std::chrono::milliseconds(0));
      stopped = true;
    } catch (const std::bad_alloc&) {
    }
  }
  if (keeper_.joinable()) keeper_.join();
}

Status Replicas::add(std::shared_ptr<Pipeline> pipeline) {
  free_places();
  {
    const std::lock_guard lock(mutex_);
    const auto is_free = [](const Place& one) { return one.pipeline == nullptr; };
    auto place = std::find_if(owned_.begin(), owned_.end(), is_free);
    if (place == owned_.end() && owned_.size() == kMost)
      return Error(ErrorCode::kResourceExhausted,
                   "a version has at most " + std::to_string(kMost) + " replicas");
    if (place == owned_.end()) place = owned_.emplace(place);
    pipeline->watch(&ear_);
    in_turn_[static_cast<std::size_t>(place - owned_.begin())].store(pipeline.get(),
                                                                     std::memory_order_release);
    *place = {std::move(pipeline), added_++};
    places_.store(static_cast<std::uint32_t>(owned_.size()), std::memory_order_release);
  }
  changed();
  return {};
}

std::shared_ptr<Pipeline> Replicas::retire(std::chrono::milliseconds bound) {
  free_places();
  std::unique_lock lock(mutex_);
  const auto in_turn = [](const auto& one) { return one.load() != nullptr; };
  const auto last = [&] { return std::count_if(in_turn_.begin(), in_turn_.end(), in_turn) == 1; };
  if (last()) drained_.wait_until(lock, after(bound), [&] { return queue_.empty() || stopping_.load(); });
  std::optional<std::size_t> first;
  for (std::size_t place = 0; place < owned_.size(); ++place)
    if (in_turn(in_turn_[place]) && (!first || owned_[place].added < owned_[*first].added)) first = place;
  if (!first) return nullptr;
  in_turn_[*first].store(nullptr);
  auto retired = owned_[*first].pipeline;
  if (!any_up()) fail_waiting(lock, Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
  return retired;
}

/// Whether everybody who was inside a replica when this was called has left. He who counts himself after his
/// count was seen to be 0 finds in_turn_ as it is now.
bool Replicas::visits_ended() {
  const Clock::time_point bound = Clock::now() + kLongestVisit;
  for (int count = 0; count < 2; ++count) {
    const std::uint32_t before = visits_now_.load();
    visits_now_.store(1 - before);
    while (visits_[before].load() != 0) {
      if (Clock::now() > bound) return false;
      std::this_thread::sleep_for(kLook);
    }
  }
  return true;
}

/// Those that were retired end, on this thread, where nobody has them.
void Replicas::free_places() {
  const auto unused = [this](std::size_t place) {
    const auto& pipeline = owned_[place].pipeline;
    return pipeline != nullptr && in_turn_[place].load() == nullptr &&
           pipeline.use_count() == (pipeline == first_ ? 2 : 1);
  };
  std::vector<std::shared_ptr<Pipeline>> ending;
  {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (std::size_t place = 0; place < owned_.size(); ++place) any = any || unused(place);
    if (!any) return;
  }
  if (!visits_ended()) return;
  {
    const std::lock_guard lock(mutex_);
    ending.reserve(owned_.size());  // none may end in here, where its threads are kept waiting
    for (std::size_t place = 0; place < owned_.size(); ++place)
      if (unused(place)) ending.push_back(std::exchange(owned_[place].pipeline, nullptr));
  }
  for (const auto& one : ending) one->stop(std::chrono::milliseconds(0));
}

std::size_t Replicas::size() const {
  return static_cast<std::size_t>(
      std::count_if(in_turn_.begin(), in_turn_.end(), [](const auto& one) { return one.load() != nullptr; }));
}

// The way of a frame, begin. Nothing here allocates; locks: the replica's own, and mutex_ only where no
// replica has a slot free.
Status Replicas::submit(Frame& frame) {
  const Clock::time_point now = Clock::now();
  if (stopping_.load()) return Error(ErrorCode::kUnavailable, "the pipeline is stopping");
  if (waiting_.load() == 0) {
    if (auto taken = offer_to_any(frame, now)) return std::move(*taken);
  }
  MILLRACE_TRY(first_->check_frame(frame));
  frame.status = {};
  frame.times = {};
  const Clock::time_point deadline = frame.deadline;  // the frame may be gone once it is taken
  if (deadline <= now) return Error(ErrorCode::kDeadlineExceeded, "the frame's deadline has passed already");
  const FrameQueue::Entry entry{&frame, now, deadline,
                                std::clamp(frame.priority, kFirstPriority, kLastPriority), frame.client};
  FrameQueue::Entry pushed_out;
  {
    std::unique_lock lock(mutex_);
    if (stopping_.load()) return Error(ErrorCode::kUnavailable, "the pipeline is stopping");
    if (!any_up()) return Error(ErrorCode::kUnavailable, "no replica of the model is up");
    if (queue_.full() && (pushed_out = queue_.make_room(entry)).frame == nullptr)
      return Error(ErrorCode::kResourceExhausted,
                   "all slots of " + std::to_string(size()) + " replicas are in use and " +
                       std::to_string(queue_capacity_) + " frames are waiting");
    queue_.push(entry);
    waiting_.store(queue_.size());
    if (deadline < next_expiry_) {
      next_expiry_ = deadline;
      wake_.notify_all();
    }
    // A slot that became free before the store to waiting_ was not offered to this frame.
    give_out(lock);
  }
  if (pushed_out.frame != nullptr)
    fail(pushed_out, Error(ErrorCode::kResourceExhausted,
                           "the queue is full, and a more urgent frame, or one of a client with "
                           "fewer waiting, took the place"));
  return {};
}

/// What the replica that took the frame said; nothing where none has a slot free, or is up.
std::optional<Status> Replicas::offer_to_any(Frame& frame, Clock::time_point submitted) {
  const Visit visit(*this);
  const std::uint32_t places = places_.load(std::memory_order_acquire);
  const std::uint32_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  std::bitset<kMost> refused;
  for (;;) {
    Pipeline* best = nullptr;
    std::uint32_t room = 0, place = 0;
    for (std::uint32_t i = 0; i < places; ++i) {
      const std::uint32_t at = (first + i) % places;
      Pipeline* const replica = in_turn_[at].load();
      if (replica == nullptr || refused[at]) continue;
      const std::uint32_t has = replica->room();
      if (has <= room) continue;
      best = replica;
      room = has;
      place = at;
    }
    if (best == nullptr) return std::nullopt;
    auto taken = best->offer(frame, submitted);
    if (taken && (taken->ok() || taken->error().code() != ErrorCode::kUnavailable)) return taken;
    refused.set(place);
  }
}

/// Frames that wait go to whoever has room. A replica that refuses says when that changes.
void Replicas::give_out(std::unique_lock<std::mutex>& lock) {
  while (!queue_.empty()) {
    const FrameQueue::Entry next = queue_.front();
    auto taken = offer_to_any(*next.frame, next.submitted);
    if (!taken) return;
    static_cast<void>(pop());
    if (taken->ok()) continue;
    lock.unlock();
    fail(next, std::move(*taken));
    lock.lock();
  }
}

FrameQueue::Entry Replicas::pop() {
  const FrameQueue::Entry entry = queue_.pop();
  waiting_.store(queue_.size());
  if (queue_.empty()) drained_.notify_all();
  return entry;
}

void Replicas::changed() {
  if (waiting_.load() == 0) return;
  std::unique_lock lock(mutex_);
  give_out(lock);
  if (!queue_.empty() && !any_up())
    fail_waiting(lock, Error(ErrorCode::kUnavailable, "no replica of the model is up any more"));
}
// The way of a frame, end.

void Replicas::fail(const FrameQueue::Entry& entry, Status status) {
  failed_.fetch_add(1);
  Frame& frame = *entry.frame;
  frame.status = std::move(status);
  frame.times.queue = Clock::now() - entry.submitted;
  if (frame.on_complete != nullptr) frame.on_complete(frame, frame.context);
}

void Replicas::fail_waiting(std::unique_lock<std::mutex>& lock, const Error& error) {
  while (!queue_.empty()) {
    const FrameQueue::Entry entry = pop();
    lock.unlock();
    fail(entry, error);
    lock.lock();
  }
}

void Replicas::cancel(Frame& frame) {
  FrameQueue::Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.remove(&frame)) entry.frame = &frame;
    waiting_.store(queue_.size());
    if (queue_.empty()) drained_.notify_all();
  }
  if (entry.frame == nullptr) {
    for (const auto& pipeline : owned()) pipeline->cancel(frame);
    return;
  }
  entry.submitted = Clock::now();
  fail(entry, Error(ErrorCode::kCancelled, "cancelled while it waited for a slot"));
}

void Replicas::keep() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const Clock::time_point next = next_expiry_;
    const auto moved = [&] { return ending_ || next_expiry_ != next; };
    if (next == Clock::time_point::max()) {
      wake_.wait(lock, moved);
    } else if (!wake_.wait_until(lock, next, moved)) {
      expire(lock);
    }
  }
}

void Replicas::expire(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point now = Clock::now();
  for (;;) {
    const FrameQueue::Entry entry = queue_.pop_expired(now);
    if (entry.frame == nullptr) break;
    waiting_.store(queue_.size());
    lock.unlock();
    fail(entry, Error(ErrorCode::kDeadlineExceeded, "the deadline passed while the frame waited for a slot"));
    lock.lock();
  }
  if (queue_.empty()) drained_.notify_all();
  next_expiry_ = queue_.earliest_deadline();
}

bool Replicas::any_up() const {
  const Visit visit(*this);
  return std::any_of(in_turn_.begin(), in_turn_.end(), [](const auto& one) {
    const Pipeline* const pipeline = one.load();
    return pipeline != nullptr && pipeline->ready();
  });
}

std::vector<std::shared_ptr<Pipeline>> Replicas::owned() const {
  std::vector<std::shared_ptr<Pipeline>> all;
  const std::lock_guard lock(mutex_);
  for (const Place& one : owned_)
    if (one.pipeline != nullptr) all.push_back(one.pipeline);
  return all;
}

/// Held, and not visited, by those who may take long.
std::vector<std::shared_ptr<Pipeline>> Replicas::in_turn() const {
  std::vector<std::shared_ptr<Pipeline>> all;
  const std::lock_guard lock(mutex_);
  for (std::size_t place = 0; place < owned_.size(); ++place)
    if (in_turn_[place].load() != nullptr) all.push_back(owned_[place].pipeline);
  return all;
}

bool Replicas::ready() const {
  return !stopping_.load() && any_up();
}

std::chrono::milliseconds Replicas::retry_after() {
  const Visit visit(*this);
  double frames_per_ns = 0;
  auto soonest = std::chrono::milliseconds::max();
  for (const auto& one : in_turn_) {
    Pipeline* const pipeline = one.load();
    if (pipeline == nullptr) continue;
    soonest = std::min(soonest, pipeline->retry_after());
    if (const auto pace = pipeline->pace(); pace.count() > 0 && pipeline->ready())
      frames_per_ns += 1.0 / static_cast<double>(pace.count());
  }
  if (!any_up()) return soonest == std::chrono::milliseconds::max() ? std::chrono::seconds(1) : soonest;
  const double wait = frames_per_ns > 0 ? waiting_.load() / frames_per_ns : 0;
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double, std::nano>(wait));
}

PipelineStatus Replicas::status() {
  PipelineStatus all;
  all.replicas = 0;
  for (const auto& pipeline : in_turn()) {
    PipelineStatus status = pipeline->status();
    for (CardStatus& card : status.cards) card.replica = all.replicas;
    for (LinkStatus& link : status.links) link.replica = all.replicas;
    ++all.replicas;
    all.replicas_ready += status.ready ? 1 : 0;
    all.in_flight += status.in_flight;
    all.slots += status.slots;
    all.epoch = std::max(all.epoch, status.epoch);
    all.completed += status.completed;
    all.failed += status.failed;
    std::move(status.cards.begin(), status.cards.end(), std::back_inserter(all.cards));
    std::move(status.links.begin(), status.links.end(), std::back_inserter(all.links));
  }
  all.ready = ready();
  all.failed += failed_.load();
  all.queued = waiting_.load();
  all.queue_capacity = queue_capacity_;
  return all;
}

std::vector<FrameRecord> Replicas::recent_frames() {
  std::vector<FrameRecord> all;
  std::uint32_t replica = 0;
  for (const auto& pipeline : in_turn()) {
    for (FrameRecord frame : pipeline->recent_frames()) {
      frame.replica = replica;
      all.push_back(frame);
    }
    ++replica;
  }
  return all;
}

void Replicas::stop(std::chrono::milliseconds bound) {
  Clock::time_point end = after(bound);
  {
    std::unique_lock lock(mutex_);
    stop_by_ = std::min(stop_by_, end);
    if (stopping_.exchange(true)) {
      drained_.notify_all();
      const bool waits_for_replicas = ending_;
      lock.unlock();
      if (waits_for_replicas)
        for (const auto& one : owned()) one->stop(until(end));
      return;
    }
    drained_.notify_all();  // retire() waits as well
    while (!queue_.empty() && Clock::now() < stop_by_) {
      const Clock::time_point earliest = stop_by_;
      drained_.wait_until(lock, earliest);
    }
    end = stop_by_;
    ending_ = true;
    wake_.notify_all();
    fail_waiting(lock, Error(ErrorCode::kUnavailable, "the pipeline was stopped"));
  }
  keeper_.join();
  // At once, since a card that hangs keeps who stops it waiting for seconds.
  const auto all = owned();
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < all.size(); ++i)
    others.push_back(std::async(std::launch::async, [&, i] { all[i]->stop(until(end)); }));
  if (!all.empty()) all.front()->stop(until(end));
  for (auto& other : others) other.get();
}

Result<std::unique_ptr<Pipeline>> open_replicas(
    const std::shared_ptr<const plan::LoadedDeployment>& deployment, const plan::Cluster& cluster,
    const PipelineOptions& options, std::uint32_t replicas) {
  if (replicas == 0 || replicas > Replicas::kMost)
    return Error(ErrorCode::kInvalidInput, "replicas: " + std::to_string(replicas) + " is not in 1.." +
                                               std::to_string(Replicas::kMost));
  MILLRACE_ASSIGN(auto first, Pipeline::open(deployment, cluster, options, replicas));
  if (replicas == 1) return first;
  auto all = std::make_unique<Replicas>(std::move(first), options.queue_capacity);
  for (std::uint32_t left = replicas - 1; left > 0; --left) {
    auto more = Pipeline::open(deployment, cluster, options, left);
    if (!more.ok())
      return more.error().within("replica " + std::to_string(replicas - left + 1) + " of " +
                                 std::to_string(replicas));
    MILLRACE_TRY(all->add(std::move(*more)));
  }
  return std::unique_ptr<Pipeline>(std::move(all));
}

}  // namespace millrace::runtime::pipeline
