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
  line("Content-Length", options.content_length);
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

std::array<char, 29> imf_fixdate(std::chrono::sys_seconds time) {
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);

  std::array<char, 29> out{};
  std::string_view("___, __ ___ ____ __:__:__ GMT").copy(out.data(), out.size());
  const auto put = [&](std::size_t at, std::size_t digits, auto value) {
    auto rest = static_cast<unsigned long>(value);
    for (std::size_t i = digits; i-- > 0; rest /= 10) out[at + i] = static_cast<char>('0' + rest % 10);
  };
  kDays.copy(out.data(), 3, std::chrono::weekday(day).c_encoding() * 3U);
  put(5, 2, static_cast<unsigned>(date.day()));
  kMonths.copy(out.data() + 8, 3, (static_cast<unsigned>(date.month()) - 1) * 3U);
  put(12, 4, static_cast<int>(date.year()));
  put(17, 2, clock.hours().count());
  put(20, 2, clock.minutes().count());
  put(23, 2, clock.seconds().count());
  return out;
}

}  // namespace millrace::server::http
