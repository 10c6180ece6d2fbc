// What the log says of requests, and under which id.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/log.hpp"
#include "server/http/routes/api.hpp"
#include "server/http/message.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// A request as the log speaks of it. Views.
struct Asked {
  std::string_view method, target;
  std::string_view id;             // X-Request-Id, as its client gave it
  std::string_view admin;          // who used an admin route with it, as words; empty: it is none
  const sockaddr* peer = nullptr;  // where it came from
  std::string_view version;        // that answered an inference; empty: none did
  std::optional<std::chrono::steady_clock::time_point> arrival;  // read to its end; nothing: it was not
};

/// Of one I/O thread.
class RequestLog {
 public:
  /// `registry` outlives it.
  RequestLog(unsigned thread, const models::Registry& registry) : thread_(thread), registry_(registry) {}

  /// Says what a request was answered with, and returns the id for the answer's header: the client's own
  /// X-Request-Id where it gave one that breaks neither a header nor a log line; else one of ours for answers
  /// of 400 and above and for admin routes, and nothing for others. Good until `asked.id` goes or the next
  /// call. Answers of 500, and of 503 without Retry-After, are warnings, at most ten a second (a lost card
  /// fails thousands of requests); so are 401 and 403, at most ten a second of their own (somebody guesses
  /// tokens). What admin routes did is always said; all others are for `debug`, and cost nothing without it.
  std::string_view about(const Response& answer, const Asked& asked);

 private:
  void write(log::Level level, const Response& answer, const Asked& asked, std::string_view id) const;
  /// That answered; else the one that the request named; else the one that serves.
  std::string version_of(const Api::Found& found, const Asked& asked) const;

  class Bound {
   public:
    bool admits();

   private:
    std::chrono::steady_clock::time_point second_;
    unsigned admitted_ = 0;  // in that second
  };

  const unsigned thread_;
  const models::Registry& registry_;
  std::uint64_t count_ = 0;  // of ids of ours
  std::string id_;           // the last of them
  Bound failures_, denials_;
};

}  // namespace millrace::server::http
