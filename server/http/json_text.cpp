#include "server/http/json_text.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"

namespace millrace::server::http {
namespace {

/// `text` must begin with invalid UTF-8. Returns how many bytes one replacement character replaces: a character that
/// is cut short, or a single byte that cannot begin a character (Unicode 15, "maximal subparts").
std::size_t invalid_bytes(std::string_view text) {
  for (std::size_t kept = std::min<std::size_t>(3, text.size()); kept > 1; --kept)
    for (std::size_t lost = 1; lost + kept <= 4; ++lost)
      if (character_bytes(std::string(text.substr(0, kept)).append(lost, '\x80')) == kept + lost) return kept;
  return 1;
}

/// Returns the number of bytes at the start of `text` that need no escape.
std::size_t plain_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x20 &&
         static_cast<unsigned char>(text[at]) < 0x80 && text[at] != '"' && text[at] != '\\')
    ++at;
  return at;
}

void append_ascii(std::string& out, char c) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t", kLetters = "\"\\nrt", kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (const auto at = kEscaped.find(c); at != std::string_view::npos)
    (out += '\\') += kLetters[at];
  else if (byte < 0x20)
    ((out += "\\u00") += kHex[byte >> 4U]) += kHex[byte & 15U];
  else
    out += c;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    if (const std::size_t plain = plain_prefix(text); plain > 0) {
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      continue;
    }
    std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      out += "\xEF\xBF\xBD";
      bytes = invalid_bytes(text);
    } else if (bytes > 1) {
      out += text.substr(0, bytes);
    } else {
      append_ascii(out, text.front());
    }
    text.remove_prefix(bytes);
  }
  out += '"';
}

std::string_view clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t begin = bytes;  // start of the character at the cut
  while (begin > 0 && bytes - begin < 3 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U)
    --begin;
  return text.substr(0, character_bytes(text.substr(begin)) > bytes - begin ? begin : bytes);
}

}  // namespace millrace::server::http
