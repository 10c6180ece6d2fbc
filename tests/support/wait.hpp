// Waiting for what a test expects to come: looked for again and again, never after a sleep of a fixed length.
#pragma once

#include <chrono>
#include <thread>

namespace millrace::tests {

/// Looks every few milliseconds until `holds()`. False where it still does not after `limit`, which only a
/// failure ever takes: it is far more than a loaded machine needs.
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
