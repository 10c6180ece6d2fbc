#include "server/http/message.hpp"

#include <algorithm>
#include <utility>

#include "server/http/json_text.hpp"

namespace millrace::server::http {

Response json_response(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

std::uint64_t body_bytes(const Response& response) {
  std::uint64_t bytes = response.body.size();
  for (const auto part : response.binary) bytes += part.size();
  return bytes;
}

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kDeadlineExceeded:
      return 504;  // not 503, which would make a load balancer think that the server is down
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

Response error_response(unsigned status, std::string_view message) {
  Response response;
  response.status = status;
  response.body = "{\"error\":";
  append_json_string(response.body, message);
  response.body += '}';
  return response;
}

unsigned retry_seconds(std::chrono::milliseconds wait) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
  return static_cast<unsigned>(std::clamp<std::int64_t>(seconds, 1, 60));
}

Response error_response(const Error& error, std::chrono::milliseconds retry_after) {
  Response response = error_response(status_of(error.code()), error.message());
  // The same request may succeed later if the queue was full, a card was lost or the server was draining.
  if (error.code() == ErrorCode::kResourceExhausted || error.code() == ErrorCode::kUnavailable)
    response.retry_after_seconds = retry_seconds(retry_after);
  return response;
}

}  // namespace millrace::server::http
