#include "server/http/connection/response_head.hpp"

#include <boost/beast/http/status.hpp>

#include "server/http/json_text.hpp"

namespace millrace::server::http {

void write_response_head(std::string& out, const Response& response, const HeadOptions& options) {
  const auto line = [&](std::string_view name, const auto& value) {
    out += "\r\n";
    out += name;
    out += ": ";
    if constexpr (std::is_convertible_v<decltype(value), std::string_view>)
      out += value;
    else
      append_number(out, value);
  };
  out = options.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  append_number(out, response.status);
  out += ' ';
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  out.append(reason.data(), reason.size());
  line("Date", options.date);
  line("Content-Type", response.content_type);
  line("Content-Length", body_bytes(response));
  if (response.inference_header_length)
    line("Inference-Header-Content-Length", *response.inference_header_length);
  if (options.coding != Coding::kIdentity) line("Content-Encoding", to_string(options.coding));
  if (options.varies || options.coding != Coding::kIdentity) line("Vary", "Accept-Encoding");
  if (response.retry_after_seconds) line("Retry-After", *response.retry_after_seconds);
  if (!response.allow.empty()) line("Allow", response.allow);
  if (!options.request_id.empty()) line("X-Request-Id", options.request_id);
  if (!options.keep_alive)
    line("Connection", "close");
  else if (options.http_1_0)
    line("Connection", "keep-alive");
  out += "\r\n";
  out += options.more_headers;
  out += response.more_headers;
  out += "\r\n";
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

std::string imf_fixdate(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  // The names of days and months are English because the program never calls setlocale().
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

}  // namespace millrace::server::http
