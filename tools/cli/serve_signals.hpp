// The signals that control `millrace serve`.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

namespace millrace::cli {

enum class Signal : char { kStop = 's', kReload = 'r' };

/// Delivers SIGTERM, SIGINT and SIGHUP through a pipe during this object's lifetime. Only one object may exist
/// at a time. Uses a handler rather than a blocked mask, because card processes would inherit the mask.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// False if the pipe could not be made because the process is out of descriptors.
  bool ready() const { return read_ >= 0; }

  /// Waits at most `bound` (negative: forever) for the next signal.
  std::optional<Signal> wait(std::chrono::milliseconds bound);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGHUP};
  int read_ = -1;
  std::array<struct sigaction, 3> old_{};
};

}  // namespace millrace::cli
