// How busy cards are: the share of the last second or more that each computed, from counters of busy time.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace millrace::server::models {

/// Any thread.
class BusyRatios {
 public:
  using Clock = std::chrono::steady_clock;

  /// `busy_seconds` is the card's counter at `now`; it starts anew where the card is loaded again. The first
  /// answer is over no time, and 0.
  double of(const std::string& card, double busy_seconds, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    auto [entry, fresh] = cards_.try_emplace(card, Window{now, busy_seconds, 0});
    Window& window = entry->second;
    const double passed = std::chrono::duration<double>(now - window.since).count();
    if (fresh || passed < 1) return window.ratio;
    const double busy = busy_seconds >= window.busy ? busy_seconds - window.busy : busy_seconds;
    window = {now, busy_seconds, std::min(1.0, busy / passed)};
    return window.ratio;
  }

 private:
  struct Window {
    Clock::time_point since;
    double busy = 0, ratio = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Window> cards_;
};

}  // namespace millrace::server::models
