// The request and the answer that route handlers work with. They depend on no sockets and no HTTP library.
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

/// Access to those headers of a request that have no member in Request.
class Headers {
 public:
  /// Returns the value of a header, or "" if the request lacks the header. The case of `name` does not matter.
  virtual std::string_view find(std::string_view name) const = 0;

 protected:
  ~Headers() = default;
};

/// The rights of requests that came through a listener.
struct Access {
  bool admin = true;      // the listener answers admin routes
  bool trusted = true;    // only this machine can connect: admin routes need no token if none is configured
  bool loopback = false;  // a browser on this machine can connect to the listener (TCP on a loopback address)
};

/// A request. Its members are views into the connection's buffer, and are valid until the answer is written.
struct Request {
  Method method = Method::kGet;
  std::string_view target;                                  // as received, query string included
  std::optional<std::string_view> inference_header_length;  // the text of Inference-Header-Content-Length
  std::span<const std::byte> body;                          // the body after its content coding is decoded
  const Headers* headers = nullptr;
  Access access;
  std::uint64_t client = 0;  // client_key() of the connection

  std::string_view header(std::string_view name) const {
    return headers == nullptr ? std::string_view() : headers->find(name);
  }
};

struct Response {
  unsigned status = 200;
  std::string_view content_type = "application/json";  // a view of a literal
  std::string body;                                    // the first part of the body: JSON or text
  // The parts of the body that follow `body`, in order. Their bytes must outlive the answer.
  std::vector<std::span<const std::byte>> binary;
  std::optional<std::size_t> inference_header_length;  // a header that is sent if set
  std::optional<unsigned> retry_after_seconds;         // a header that is sent if set
  std::string_view allow;                              // the Allow header of a 405
  std::string more_headers;                            // whole header lines, each with CR LF at its end
};

Response json_response(std::string body);

/// Returns the total size of all parts of the body.
std::uint64_t body_bytes(const Response& response);

/// Returns the HTTP status for an error: see "Status codes" in README.md.
unsigned status_of(ErrorCode code);

/// Returns the value of Retry-After for a wait: whole seconds, rounded up, at least 1 and at most 60.
unsigned retry_seconds(std::chrono::milliseconds wait);

/// Returns {"error":"<message>"} with the error's status, and Retry-After if the same request may succeed later.
Response error_response(const Error& error, std::chrono::milliseconds retry_after = std::chrono::seconds(1));
Response error_response(unsigned status, std::string_view message);

}  // namespace millrace::server::http
