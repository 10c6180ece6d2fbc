// The key that identifies a frame on its way through the cards, and the clock that all cards share.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace::runtime::emulator {

/// Returns the time of the steady clock, which all processes of a machine share.
inline std::uint64_t now_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

struct FrameKey {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  bool operator==(const FrameKey&) const = default;
};

}  // namespace millrace::runtime::emulator
