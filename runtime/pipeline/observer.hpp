// What the cards of a fleet count and feel, read by a thread of its own: who asks waits for no card that
// hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/pipeline/fleet.hpp"

namespace millrace::runtime::pipeline {

class Observer {
 public:
  struct Figures {
    std::vector<CardStatus> cards;  // by place
    std::vector<LinkStatus> links;  // by channel of the binding
  };

  /// The fleet must outlive it, and have its cards until stop() has returned.
  explicit Observer(Fleet& fleet);
  ~Observer();

  /// A look at every card and link that began after the call. Where it does not come to its end within
  /// `bound`, what it did not reach is as it was seen last, and `answers` of the card it waits for is
  /// false. Any thread.
  Figures look(std::chrono::milliseconds bound);

  /// No further card is looked at; does not wait. Any thread.
  void begin_stop();
  /// Returns when no card is being looked at; one that hangs is waited for as long as the driver does.
  void stop();

 private:
  void run(const std::stop_token& stop);
  void observe(const std::stop_token& stop);

  Fleet& fleet_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Protected by mutex_:
  Figures last_;
  std::uint64_t wanted_ = 0, begun_ = 0, done_ = 0;  // looks, by number
  Clock::time_point began_;                          // the last of them

  std::jthread thread_;  // last: uses all above
};

}  // namespace millrace::runtime::pipeline
