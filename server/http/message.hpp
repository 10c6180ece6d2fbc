// A request and its answer as handlers see them, without sockets and without an HTTP library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::http {

enum class Method { kGet, kPost, kOptions, kOther };

/// The headers of a request that have no member in Request. They are looked up on demand.
class Headers {
 public:
  /// Empty if there is none. The case of names does not matter.
  virtual std::string_view find(std::string_view name) const = 0;

 protected:
  ~Headers() = default;
};

/// What the listener that a request came through allows.
struct Access {
  bool admin = true;      // admin routes are answered
  bool trusted = true;    // only this machine reaches it: admin routes need no token if none are configured
  bool loopback = false;  // over TCP: a browser on this machine reaches it by any name that points to it
};

/// Views into what the connection read, valid until the answer is written.
struct Request {
  Method method = Method::kGet;
  std::string_view target;                                  // as received, query string included
  std::optional<std::string_view> inference_header_length;  // the text of Inference-Header-Content-Length
  std::span<const std::byte> body;                          // without its content coding
  const Headers* headers = nullptr;
  Access access;
  std::uint64_t client = 0;  // client_key() of the connection

  std::string_view header(std::string_view name) const {
    return headers == nullptr ? std::string_view() : headers->find(name);
  }
};

struct Response {
  unsigned status = 200;
  std::string_view content_type = "application/json";  // a literal
  std::string body;                                    // first part: JSON or text
  // then these, one after the other; the bytes outlive the answer
  std::vector<std::span<const std::byte>> binary;
  std::optional<std::size_t> inference_header_length;  // sent if set
  std::optional<unsigned> retry_after_seconds;         // sent if set
  std::string_view allow;                              // the Allow header of a 405
  std::string more_headers;                            // whole lines, each with its CR LF
};

Response json_response(std::string body);

/// The bytes of the body, all of its parts.
std::uint64_t body_bytes(const Response& response);

/// The HTTP status of an error: README.md, "Status codes".
unsigned status_of(ErrorCode code);

/// The value of Retry-After for this wait: whole seconds, rounded up, 1 to 60.
unsigned retry_seconds(std::chrono::milliseconds wait);

/// {"error":"<message>"} with the error's status. It has Retry-After if the same request may succeed later.
Response error_response(const Error& error, std::chrono::milliseconds retry_after = std::chrono::seconds(1));
Response error_response(unsigned status, std::string_view message);

}  // namespace millrace::server::http
