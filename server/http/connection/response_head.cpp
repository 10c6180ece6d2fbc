#include "server/http/connection/response_head.hpp"

#include <boost/beast/http/status.hpp>

#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

std::string_view reason_phrase(unsigned status) {
  const auto text = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {text.data(), text.size()};
}

}  // namespace

void write_response_head(std::string& out, const Response& response, const HeadOptions& options) {
  out = options.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  append_number(out, response.status);
  out += ' ';
  out += reason_phrase(response.status);
  out += "\r\nDate: ";
  out += options.date;
  out += "\r\nContent-Type: ";
  out += response.content_type;
  out += "\r\nContent-Length: ";
  append_number(out, options.content_length);
  if (response.inference_header_length) {
    out += "\r\nInference-Header-Content-Length: ";
    append_number(out, *response.inference_header_length);
  }
  if (options.coding != Coding::kIdentity) {
    out += "\r\nContent-Encoding: ";
    out += to_string(options.coding);
  }
  if (options.varies || options.coding != Coding::kIdentity) out += "\r\nVary: Accept-Encoding";
  if (response.retry_after_seconds) {
    out += "\r\nRetry-After: ";
    append_number(out, *response.retry_after_seconds);
  }
  if (!response.allow.empty()) {
    out += "\r\nAllow: ";
    out += response.allow;
  }
  if (!options.request_id.empty()) {
    out += "\r\nX-Request-Id: ";
    out += options.request_id;
  }
  if (!options.keep_alive)
    out += "\r\nConnection: close";
  else if (options.http_1_0)
    out += "\r\nConnection: keep-alive";
  out += "\r\n";
  out += options.more_headers;
  out += response.more_headers;
  out += "\r\n";
}

std::uint64_t body_bytes(const Response& response) {
  std::uint64_t bytes = response.body.size();
  for (const auto part : response.binary) bytes += part.size();
  return bytes;
}

Coding compressed(Response& response, Coding coding, std::uint64_t least) {
  const std::uint64_t bytes = body_bytes(response);
  if (coding == Coding::kIdentity || bytes < least) return Coding::kIdentity;
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(response.body))};
  parts.insert(parts.end(), response.binary.begin(), response.binary.end());
  std::string made = encoded(coding, parts);
  if (made.size() >= bytes) return Coding::kIdentity;
  response.body = std::move(made);
  response.binary.clear();
  return coding;
}

}  // namespace millrace::server::http
