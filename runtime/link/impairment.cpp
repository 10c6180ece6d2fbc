#include "runtime/link/impairment.hpp"

#include <algorithm>

namespace millrace::runtime::link {

namespace {

constexpr std::chrono::nanoseconds kMostReordering{1'000'000};

}  // namespace

void Impairer::set(const Impairment& impairment, Time now) {
  const bool new_rate = impairment.gigabits_per_second != impairment_.gigabits_per_second;
  impairment_ = impairment;
  if (impairment_.outage) {
    waiting_.clear();
    free_at_ = now;
  }
  if (!new_rate) return;
  // Let the datagrams that still wait for the rate pass at the new rate, in the order in which they came.
  std::sort(waiting_.begin(), waiting_.end(),
            [](const Waiting& a, const Waiting& b) { return a.order < b.order; });
  free_at_ = now;
  for (Waiting& waiting : waiting_) {
    if (waiting.passes <= now) continue;
    const auto delay = waiting.leaves - waiting.passes;
    waiting.passes = waiting.repeated ? free_at_ : pass(waiting.bytes.size(), now);
    waiting.leaves = waiting.passes + delay;
  }
  std::make_heap(waiting_.begin(), waiting_.end(), leaves_later);
}

/// Returns the time at which a datagram of `bytes` bytes that comes at `now` has passed at the limited rate.
Time Impairer::pass(std::size_t bytes, Time now) {
  if (impairment_.gigabits_per_second <= 0) return now;
  const double nanoseconds = static_cast<double>(bytes) * 8 / impairment_.gigabits_per_second;
  free_at_ = std::max(free_at_, now) + std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
  return free_at_;
}

bool Impairer::leaves_later(const Waiting& a, const Waiting& b) {
  return a.leaves != b.leaves ? a.leaves > b.leaves : a.order > b.order;
}

bool Impairer::happens(double probability) {
  return probability > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

void Impairer::accept(std::span<const std::byte> datagram, Time now) {
  if (impairment_.outage || happens(impairment_.loss)) return;
  const Time passes = pass(datagram.size(), now);
  enqueue(datagram, passes, false);
  if (happens(impairment_.duplicate)) enqueue(datagram, passes, true);
}

void Impairer::enqueue(std::span<const std::byte> datagram, Time passes, bool repeated) {
  if (waiting_.size() >= kMostWaiting) return;
  Waiting& added = waiting_.emplace_back();
  added.leaves = passes + impairment_.latency;
  if (happens(impairment_.reorder)) {
    std::uniform_int_distribution<std::int64_t> delay(0, kMostReordering.count());
    added.leaves += std::chrono::nanoseconds(delay(random_));
  }
  added.order = ++order_;
  added.passes = passes;
  added.repeated = repeated;
  added.bytes.assign(datagram.begin(), datagram.end());
  damage(added.bytes);
  std::push_heap(waiting_.begin(), waiting_.end(), leaves_later);
}

/// Inverts each bit with the probability of a bit error.
void Impairer::damage(std::vector<std::byte>& bytes) {
  if (impairment_.bit_errors <= 0) return;
  // The distance to the next wrong bit has a geometric distribution.
  std::geometric_distribution<std::uint64_t> distance(std::min(impairment_.bit_errors, 0.5));
  for (std::uint64_t bit = distance(random_); bit < bytes.size() * 8; bit += 1 + distance(random_))
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

std::span<const std::byte> Impairer::next(Time now) {
  if (waiting_.empty() || waiting_.front().leaves > now) return {};
  std::pop_heap(waiting_.begin(), waiting_.end(), leaves_later);
  leaving_ = std::move(waiting_.back().bytes);
  waiting_.pop_back();
  return leaving_;
}

Time Impairer::next_time() const {
  return waiting_.empty() ? Time::max() : waiting_.front().leaves;
}

}  // namespace millrace::runtime::link
