// The signals that control `millrace serve`.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

namespace millrace::cli {

enum class Signal : char {
  kStop = 's',      // SIGTERM or SIGINT
  kReload = 'r',    // SIGHUP
  kContinue = 'c',  // SIGCONT: a launcher may be ending the job, because another rank was killed
};

/// Receives SIGTERM, SIGINT, SIGHUP and SIGCONT during this object's lifetime. Only one such object may exist at a
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
  static constexpr std::array<int, 4> kSignals = {SIGTERM, SIGINT, SIGHUP, SIGCONT};
  int read_ = -1;
  std::array<struct sigaction, kSignals.size()> old_{};
};

}  // namespace millrace::cli
