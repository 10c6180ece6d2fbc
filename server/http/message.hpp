// One HTTP request and its answer as the handlers see them: no socket, no HTTP library.
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

/// The headers of a request beside those in Request, looked up where they are wanted.
class Headers {
 public:
  /// Empty where there is none. Names are compared without regard to case.
  virtual std::string_view find(std::string_view name) const = 0;

 protected:
  ~Headers() = default;
};

/// Where a request came in.
struct Gate {
  bool admin = true;      // admin routes are answered here
  bool trusted = true;    // reached from this machine only: admin routes need no token while there are none
  bool loopback = false;  // over TCP: a browser here gets to it by any name that somebody lets point to it
};

/// Views into what the connection read; valid until the answer is written, `headers` while the request is
/// handled.
struct Request {
  Method method = Method::kGet;
  std::string_view target;                                  // as received, query string included
  std::optional<std::string_view> inference_header_length;  // the text of Inference-Header-Content-Length
  std::span<const std::byte> body;                          // its content coding taken off
  const Headers* headers = nullptr;
  Gate gate;
  std::uint64_t client = 0;  // the same for what comes from one place: waiting requests are served in turn

  std::string_view header(std::string_view name) const {
    return headers == nullptr ? std::string_view() : headers->find(name);
  }
};

struct Response {
  unsigned status = 200;
  std::string_view content_type = "application/json";  // a literal
  std::string body;                                    // first part: JSON or text
  // then these, one after the other; what they view outlives the answer
  std::vector<std::span<const std::byte>> binary;
  std::optional<std::size_t> inference_header_length;  // sent where set
  std::optional<unsigned> retry_after_seconds;         // sent where set
  std::string_view allow;                              // the Allow header of a 405
  std::string more_headers;                            // whole lines, each with its CR LF
};

/// The HTTP status of an error: README.md, "Status codes".
unsigned status_of(ErrorCode code);

/// What Retry-After says of a wait: whole seconds, rounded up, 1 to 60.
unsigned retry_seconds(std::chrono::milliseconds wait);

/// {"error":"<message>"} with the status, and Retry-After (the pipeline's word, or a second) where the
/// condition passes by itself.
Response error_response(const Error& error, std::chrono::milliseconds retry_after = std::chrono::seconds(1));
Response error_response(unsigned status, std::string_view message);

}  // namespace millrace::server::http
