// Writes the log's lines about requests, and chooses the id that identifies a request in the log and in its answer.
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

/// The properties of a request that are logged. The members are views.
struct Asked {
  std::string_view method, target;
  std::string_view id;     // the client's X-Request-Id
  std::string_view admin;  // who used an admin route: "'NAME'", "without a token"; empty: no admin route
  const sockaddr* peer = nullptr;  // the client's address; not null
  std::string_view version;        // the model version that answered an inference; empty: no version did
  // The time at which the last byte of the request arrived. Empty if that byte never arrived.
  std::optional<std::chrono::steady_clock::time_point> arrival;
};

/// Logs the requests of one I/O thread.
class RequestLog {
 public:
  /// `registry` must outlive this object.
  RequestLog(unsigned thread, const models::Registry& registry) : thread_(thread), registry_(registry) {}

  /// Logs a request with its answer, and returns the id for the answer's header X-Request-Id. The id is the client's if
  /// it is safe in a header and in a log line. Otherwise the server creates an id for answers of 400 and above and for
  /// admin routes, and returns "" for the rest. The returned view is valid as long as `asked.id` is, but at most until
  /// the next call.
  ///
  /// Answers of 500, and of 503 without Retry-After, are logged as warnings, at most ten a second, because a lost
  /// card fails thousands of requests. Answers of 401 and 403 are warnings too, with a separate limit of ten a second,
  /// because somebody may guess tokens. Admin routes are always logged. All other requests are logged at `debug`.
  std::string_view record(const Response& answer, const Asked& asked);

 private:
  void write(log::Level level, const Response& answer, const Asked& asked, std::string_view id) const;
  /// Returns the version that answered, or else the version that the request named, or else the current version.
  std::string version_of(const FoundRoute& found, const Asked& asked) const;

  struct RateLimit {
    std::chrono::steady_clock::time_point second;
    unsigned admitted = 0;  // log lines in the second that began at `second`
    bool admits();
  };

  const unsigned thread_;
  const models::Registry& registry_;
  std::uint64_t count_ = 0;  // how many ids this object has created
  std::string id_;           // the last id that it created
  RateLimit failures_, denials_;
};

}  // namespace millrace::server::http
