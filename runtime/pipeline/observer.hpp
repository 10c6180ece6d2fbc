// Reads the counters and sensors of a fleet's cards on a thread, so that no caller waits for a card that
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

  /// The fleet must outlive the observer and keep its cards open until stop() has returned.
  explicit Observer(Fleet& fleet);
  ~Observer();

  /// Reads every card and link anew. Cards and links that are not reached within `bound` have the figures
  /// read last, and `answers` of the card that hangs is false. Any thread.
  Figures read(std::chrono::milliseconds bound);

  /// Ends the reading after the current card; does not wait. Any thread.
  void begin_stop();
  /// begin_stop(), and waits. A card that hangs is waited for as long as the driver does.
  void stop();

 private:
  void run(const std::stop_token& stop);
  void observe(const std::stop_token& stop);

  Fleet& fleet_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Protected by mutex_:
  Figures last_;
  std::uint64_t wanted_ = 0, begun_ = 0, done_ = 0;  // numbers of readings
  Clock::time_point began_;                          // when the last reading began

  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace millrace::runtime::pipeline
