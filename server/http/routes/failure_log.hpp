// The last requests that failed, for /v2/millrace/errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::server::http {

struct Failure {
  std::int64_t unix_ms = 0;
  unsigned status = 0;
  std::string target, body;  // cut after 128 and 512 bytes
};

/// Any thread.
class FailureLog {
 public:
  void note(std::string_view target, unsigned status, std::string_view body) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::lock_guard lock(mutex_);
    if (failures_.size() == kMost) failures_.pop_front();
    failures_.push_back({std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), status,
                         std::string(target.substr(0, 128)), std::string(body.substr(0, 512))});
  }

  /// Oldest first.
  std::vector<Failure> read() const {
    const std::lock_guard lock(mutex_);
    return {failures_.begin(), failures_.end()};
  }

 private:
  static constexpr std::size_t kMost = 64;

  mutable std::mutex mutex_;
  std::deque<Failure> failures_;
};

}  // namespace millrace::server::http
