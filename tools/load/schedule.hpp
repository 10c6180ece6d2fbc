// When each request of a run is to be sent. No clock of its own, no sockets.
//
// Closed loop: a connection sends its next request as soon as it has the answer to the last. Open loop:
// request i is due at start + i / rate, whatever became of those before it; its latency counts from there, so
// that a server which stalls is charged for every request it kept from being sent (no coordinated omission).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace millrace::load {

using Clock = std::chrono::steady_clock;

/// One request's place in a run.
struct Slot {
  Clock::time_point intended;  // latency counts from here
  std::uint64_t index = 0;
  bool measured = false;  // false within the warm-up
};

class Schedule {
 public:
  /// `rate` a second, greater than 0, makes it an open loop. Requests are sent from `start` until start +
  /// warmup + duration.
  Schedule(Clock::time_point start, Clock::duration warmup, Clock::duration duration,
           std::optional<double> rate)
      : start_(start), measured_from_(start + warmup), end_(start + warmup + duration), rate_(rate) {}

  /// The next request, for a connection that is free now. In an open loop it may be due in the future (wait
  /// until then) or in the past (send at once). Nothing where the run sends no more.
  std::optional<Slot> take(Clock::time_point now) {
    if (over(now)) return std::nullopt;
    const auto intended = rate_ ? due(next_) : now;
    return Slot{intended, next_++, intended >= measured_from_};
  }

  /// Nothing more is to be sent.
  bool over(Clock::time_point now) const { return now >= end_ || (rate_ && due(next_) >= end_); }

  /// Requests that were due before the end and that nobody took; 0 in a closed loop.
  std::uint64_t untaken() const {
    if (!rate_) return 0;
    auto all = static_cast<std::uint64_t>(std::chrono::duration<double>(end_ - start_).count() * *rate_);
    while (due(all) < end_) ++all;
    while (all > 0 && due(all - 1) >= end_) --all;
    return all - std::min(all, next_);
  }

  Clock::time_point measured_from() const { return measured_from_; }
  Clock::time_point end() const { return end_; }

 private:
  /// From the index, not from the request before: errors of rounding do not add up. The end where it would be
  /// later: at the slowest rates no clock could tell the time.
  Clock::time_point due(std::uint64_t index) const {
    const std::chrono::duration<double> after(static_cast<double>(index) / *rate_);
    return after < end_ - start_ ? start_ + std::chrono::duration_cast<Clock::duration>(after) : end_;
  }

  Clock::time_point start_, measured_from_, end_;
  std::optional<double> rate_;
  std::uint64_t next_ = 0;
};

}  // namespace millrace::load
