// What the log says of requests that are refused or fail.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/message.hpp"

namespace millrace::server::http {

/// Of one I/O thread.
class Complaints {
 public:
  explicit Complaints(unsigned thread) : thread_(thread) {}

  /// The id under which the log and the answer speak of the request: the client's own X-Request-Id where it
  /// gave one that breaks neither a header nor a log line. Answers of 500 and above are warnings, at most ten
  /// a second (a lost card fails thousands of requests); others are for `debug`.
  std::string about(const Response& answer, std::string_view request, std::string_view given_id);

 private:
  bool may_log();

  const unsigned thread_;
  std::uint64_t count_ = 0;  // of requests without an id of their own
  std::chrono::steady_clock::time_point second_;
  unsigned logged_ = 0;  // in that second
};

}  // namespace millrace::server::http
