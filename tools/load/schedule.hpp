// Computes when each request of a run is to be sent. Uses no clock and no sockets.
//
// In a closed loop, a connection sends its next request as soon as it has received the previous answer. In an open
// loop, request i is due at start + i / rate, whatever happened to earlier requests, and its latency counts from that
// time. A server that stalls is therefore charged for every request that it delayed (no coordinated omission).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace millrace::load {

using Clock = std::chrono::steady_clock;

/// One request of a run.
struct Slot {
  Clock::time_point intended;  // the time from which the latency counts
  std::uint64_t index = 0;
  bool measured = false;  // false within the warm-up
};

class Schedule {
 public:
  /// Sends requests from `start` until start + warmup + duration. With a `rate` (requests per second, above 0), the
  /// schedule is an open loop, without a rate a closed loop.
  Schedule(Clock::time_point start, Clock::duration warmup, Clock::duration duration,
           std::optional<double> rate)
      : start_(start), measured_from_(start + warmup), end_(start + warmup + duration), rate_(rate) {}

  /// Returns the next request for a connection that is free now. In an open loop, the request can be due in the future
  /// (wait until then) or in the past (send at once). Returns nothing if the run sends no more requests.
  std::optional<Slot> take(Clock::time_point now) {
    if (over(now)) return std::nullopt;
    const auto intended = rate_ ? due(next_) : now;
    return Slot{intended, next_++, intended >= measured_from_};
  }

  /// Whether the run sends no more requests.
  bool over(Clock::time_point now) const { return now >= end_ || (rate_ && due(next_) >= end_); }

  /// Returns the number of requests that were due before the end but that no connection sent; 0 in a closed loop.
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
  /// Returns the due time of a request, computed from its index so that rounding errors do not add up. Never returns a
  /// time after the end of the run, because at very low rates the due time would overflow the clock.
  Clock::time_point due(std::uint64_t index) const {
    const std::chrono::duration<double> after(static_cast<double>(index) / *rate_);
    return after < end_ - start_ ? start_ + std::chrono::duration_cast<Clock::duration>(after) : end_;
  }

  Clock::time_point start_, measured_from_, end_;
  std::optional<double> rate_;
  std::uint64_t next_ = 0;
};

}  // namespace millrace::load
