// Small pieces of JSON written by hand, where a document tree would cost more than the text.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace millrace::server::http {

/// Appends `text` (UTF-8) quoted and escaped.
void append_json_string(std::string& out, std::string_view text);

/// Appends a number in its shortest form that reads back the same; not for NaN and infinities.
template <class Number>
void append_number(std::string& out, Number value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

}  // namespace millrace::server::http
