#include "runtime/link/impairment.hpp"

#include <algorithm>

namespace millrace::runtime::link {

namespace {

constexpr std::chrono::nanoseconds kMostReordering{1'000'000};

}  // namespace

void Impairer::set(const Impairment& impairment) {
  impairment_ = impairment;
  if (impairment_.outage) waiting_.clear();
}

bool Impairer::happens(double probability) {
  return probability > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

void Impairer::accept(std::span<const std::byte> datagram, Time now) {
  if (impairment_.outage || happens(impairment_.loss)) return;
  Time leaves = now;
  if (impairment_.gigabits_per_second > 0) {
    const double nanoseconds = static_cast<double>(datagram.size()) * 8 / impairment_.gigabits_per_second;
    free_at_ = std::max(free_at_, now) + std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
    leaves = free_at_;
  }
  leaves += impairment_.latency;
  const auto late = [&] {
    std::uniform_int_distribution<std::int64_t> delay(0, kMostReordering.count());
    return happens(impairment_.reorder) ? std::chrono::nanoseconds(delay(random_))
                                        : std::chrono::nanoseconds(0);
  };
  enqueue(datagram, leaves + late());
  if (happens(impairment_.duplicate)) enqueue(datagram, leaves + late());
}

void Impairer::enqueue(std::span<const std::byte> datagram, Time leaves) {
  if (waiting_.size() >= kMostWaiting) return;
  Waiting& added = waiting_.emplace_back();
  added.leaves = leaves;
  added.order = ++order_;
  added.bytes.assign(datagram.begin(), datagram.end());
  damage(added.bytes);
  std::push_heap(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
    return a.leaves != b.leaves ? a.leaves > b.leaves : a.order > b.order;
  });
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
  std::pop_heap(waiting_.begin(), waiting_.end(), [](const Waiting& a, const Waiting& b) {
    return a.leaves != b.leaves ? a.leaves > b.leaves : a.order > b.order;
  });
  leaving_ = std::move(waiting_.back().bytes);
  waiting_.pop_back();
  return leaving_;
}

Time Impairer::next_time() const {
  return waiting_.empty() ? Time::max() : waiting_.front().leaves;
}

}  // namespace millrace::runtime::link
