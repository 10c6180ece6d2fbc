// Notices at once when a card process ends: one thread sleeps on all process descriptors.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace millrace::runtime::emulator {

/// Never destroyed: its thread runs until the process ends.
class Monitor {
 public:
  /// Calls `ended` once, on the monitor's thread, when the process behind `process` ends. Takes ownership of
  /// `process` (a pidfd). Any thread. Returns false if the thread or its event descriptor cannot be created.
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
