#include "server/http/message.hpp"

#include "server/http/json_text.hpp"

namespace millrace::server::http {

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput: return 400;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kResourceExhausted: return 429;
    case ErrorCode::kUnsupported: return 501;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kCancelled: return 503;
    case ErrorCode::kDoesNotFit:
    case ErrorCode::kCorrupt:
    case ErrorCode::kEnvironment:
    case ErrorCode::kInternal: return 500;
  }
  return 500;
}

Response error_response(unsigned status, std::string_view message) {
  Response response;
  response.status = status;
  response.body = "{\"error\":";
  append_json_string(response.body, message);
  response.body += '}';
  return response;
}

Response error_response(const Error& error) {
  Response response = error_response(status_of(error.code()), error.message());
  // A deadline that passed does not come back; a full queue, a lost card and a drain do pass.
  if (error.code() == ErrorCode::kResourceExhausted || error.code() == ErrorCode::kUnavailable)
    response.retry_after_seconds = 1;
  return response;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (byte < 0x20) {
          out += "\\u00";
          out += kHex[byte >> 4U];
          out += kHex[byte & 15U];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

}  // namespace millrace::server::http
