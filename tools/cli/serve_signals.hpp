// The signals that `millrace serve` lives by.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

namespace millrace::cli {

enum class Signal : char { kStop = 's', kReload = 'r' };

/// SIGTERM, SIGINT and SIGHUP as bytes of a pipe, for as long as it lives; one at a time. A handler and not a
/// blocked mask: card processes that are started meanwhile would inherit the mask.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// False where there were no descriptors for it.
  bool ready() const { return read_ >= 0; }

  /// The next signal, where one comes within `bound` (negative: without end).
  std::optional<Signal> wait(std::chrono::milliseconds bound);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGHUP};
  int read_ = -1;
  std::array<struct sigaction, 3> old_{};
};

}  // namespace millrace::cli
