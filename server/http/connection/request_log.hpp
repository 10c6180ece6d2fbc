// What the log says of requests, and the id that log and answer share.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/log.hpp"
#include "server/http/message.hpp"
#include "server/http/routes/api.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// What the log says of a request. Views.
struct Asked {
  std::string_view method, target;
  std::string_view id;             // X-Request-Id, as its client gave it
  std::string_view admin;          // who used an admin route: "'NAME'", "without a token"; empty: it is none
  const sockaddr* peer = nullptr;  // the client's address; not null
  std::string_view version;        // the one that answered an inference; empty: none did
  std::optional<std::chrono::steady_clock::time_point> arrival;  // of its last byte; nothing: it never came
};

/// For one I/O thread.
class RequestLog {
 public:
  /// `registry` outlives it.
  RequestLog(unsigned thread, const models::Registry& registry) : thread_(thread), registry_(registry) {}

  /// Logs what a request was answered with, and returns the id for the answer's header. The id is the client's
  /// X-Request-Id if that breaks neither a header nor a log line; otherwise one of ours for answers of 400 and
  /// above and for admin routes, and empty for others. It is good until `asked.id` goes or the next call.
  ///
  /// Answers of 500, and of 503 without Retry-After, are warnings, at most ten a second: a lost card fails
  /// thousands of requests. So are 401 and 403, with ten a second of their own: somebody may guess tokens. Admin
  /// routes are always logged. All others are logged at `debug` only.
  std::string_view record(const Response& answer, const Asked& asked);

 private:
  void write(log::Level level, const Response& answer, const Asked& asked, std::string_view id) const;
  /// The version that answered; otherwise the one that the request named; otherwise the one that serves.
  std::string version_of(const FoundRoute& found, const Asked& asked) const;

  struct RateLimit {
    std::chrono::steady_clock::time_point second;
    unsigned admitted = 0;  // in the second that began then
    bool admits();
  };

  const unsigned thread_;
  const models::Registry& registry_;
  std::uint64_t count_ = 0;  // of our ids
  std::string id_;           // our last one
  RateLimit failures_, denials_;
};

}  // namespace millrace::server::http
