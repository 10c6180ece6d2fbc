// The signals that control `millrace serve`.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

namespace millrace::cli {

enum class Signal : char { kStop = 's', kReload = 'r' };

/// Receives SIGTERM, SIGINT and SIGHUP during this object's lifetime. Only one such object may exist at a
/// time. A signal handler writes to a pipe. Blocking the signals instead would not do, because card processes
/// inherit the signal mask.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// False if the pipe could not be made because the process has no free file descriptors.
  bool ready() const { return read_ >= 0; }

  /// Waits for the next signal, at most for `bound`, or forever if `bound` is negative.
  std::optional<Signal> wait(std::chrono::milliseconds bound);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGTERM, SIGINT, SIGHUP};
  int read_ = -1;
  std::array<struct sigaction, 3> old_{};
};

}  // namespace millrace::cli
