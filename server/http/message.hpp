// One HTTP request and its answer as the handlers see them: no socket, no HTTP library.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::http {

enum class Method { kGet, kPost, kOther };

/// Views into what the connection read; valid until the answer is written.
struct Request {
  Method method = Method::kGet;
  std::string_view target;                                  // as received, query string included
  std::optional<std::string_view> inference_header_length;  // the text of Inference-Header-Content-Length
  std::string_view content_encoding;                        // empty where absent
  std::span<const std::byte> body;
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
};

/// The HTTP status of an error: README.md, "Status codes".
unsigned status_of(ErrorCode code);

/// {"error":"<message>"} with the status, and Retry-After where the condition passes by itself.
Response error_response(const Error& error);
Response error_response(unsigned status, std::string_view message);

}  // namespace millrace::server::http
