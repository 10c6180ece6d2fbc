// Lets a call of XRT take as long as on a real card.
#pragma once

#include <chrono>
#include <thread>

namespace millrace::runtime::emulator {

/// Returns after `cost`. Spins for short times, because the system wakes a sleeping thread some 50 µs late.
inline void spend(std::chrono::nanoseconds cost) {
  if (cost.count() == 0) return;
  const auto end = std::chrono::steady_clock::now() + cost;
  constexpr std::chrono::microseconds kWorthSleeping{200};
  if (cost > kWorthSleeping) std::this_thread::sleep_for(cost - kWorthSleeping);
  while (std::chrono::steady_clock::now() < end) __builtin_ia32_pause();
}

}  // namespace millrace::runtime::emulator
