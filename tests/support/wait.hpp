// Waits for a condition by polling, never by a sleep of fixed length.
#pragma once

#include <chrono>
#include <thread>

namespace millrace::tests {

/// Polls every few milliseconds until `holds()` returns true. Returns false after `limit`. The default limit is far
/// longer than a busy machine needs, so a test that reaches the limit has failed.
template <class Condition>
bool wait_until(Condition holds, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace millrace::tests
