// Writes small pieces of JSON directly as text, for code in which building a document tree would be too slow.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::server::http {

/// Appends `text` quoted and escaped. The result is valid JSON for any bytes: each byte or truncated
/// character that is not UTF-8 becomes U+FFFD (Unicode 15, "maximal subparts").
void append_json_string(std::string& out, std::string_view text);

/// Returns the first `bytes` bytes of `text`, or up to three fewer, so that no UTF-8 character is cut in two.
std::string_view clipped(std::string_view text, std::size_t bytes);

/// Appends the shortest text from which the same number can be parsed. `value` must not be NaN or infinite.
template <class Number>
void append_number(std::string& out, Number value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace millrace::server::http
