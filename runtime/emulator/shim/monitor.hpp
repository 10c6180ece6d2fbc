// Notices the end of card processes at once: one thread that sleeps on their process descriptors.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace millrace::runtime::emulator {

/// Never destroyed: its thread runs until the process ends.
class Monitor {
 public:
  /// Calls `ended` on the monitor's thread, once, when the process behind `process` (a pidfd, taken over) is
  /// gone; it has been reaped by then. Any thread. False where the thread or its wake-up cannot be had.
  bool watch(int process, std::function<void()> ended);

 private:
  struct Watched {
    int process;
    std::function<void()> ended;
  };
  bool start();
  void run();

  std::mutex mutex_;
  int wake_ = -1;                 // eventfd; constant once started
  std::vector<Watched> arrived_;  // protected by mutex_
};

}  // namespace millrace::runtime::emulator
