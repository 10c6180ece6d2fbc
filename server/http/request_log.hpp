// What the log says of requests, and under which id.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/message.hpp"

namespace millrace::server::http {

/// Of one I/O thread.
class RequestLog {
 public:
  explicit RequestLog(unsigned thread) : thread_(thread) {}

  /// Says what a request was answered with, and returns the id for the answer's header: the client's own
  /// X-Request-Id where it gave one that breaks neither a header nor a log line; else one of ours for answers
  /// of 400 and above, and nothing for others. Good until `given_id` goes or the next call. Answers of 500
  /// and above are warnings, at most ten a second (a lost card fails thousands of requests); all others are
  /// for `debug`.
  std::string_view about(const Response& answer, std::string_view method, std::string_view target,
                         std::string_view given_id);

 private:
  bool may_warn();

  const unsigned thread_;
  std::uint64_t count_ = 0;  // of ids of ours
  std::string id_;           // the last of them
  std::chrono::steady_clock::time_point second_;
  unsigned warned_ = 0;  // in that second
};

}  // namespace millrace::server::http
