#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

/// The character at the start of a text (Unicode 15, table 3-7). If it is not valid, `bytes` are to be replaced.
struct Character {
  std::size_t bytes = 1;
  bool valid = false;
};

Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  unsigned char low = 0x80,
                high = 0xBF;  // of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF)
    length = 3;
  else if (lead >= 0xF0 && lead <= 0xF4)
    length = 4;
  else
    return {1, false};
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size() || at(i) < low || at(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

/// How many bytes at the start need no escape: mostly all.
std::size_t plain_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x20 &&
         static_cast<unsigned char>(text[at]) < 0x80 && text[at] != '"' && text[at] != '\\')
    ++at;
  return at;
}

void append_ascii(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
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

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    if (const std::size_t plain = plain_prefix(text); plain > 0) {
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      continue;
    }
    const Character character = first_character(text);
    if (!character.valid)
      out += "\xEF\xBF\xBD";
    else if (character.bytes > 1)
      out += text.substr(0, character.bytes);
    else
      append_ascii(out, text.front());
    text.remove_prefix(character.bytes);
  }
  out += '"';
}

std::string_view clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t begin = bytes;  // where the character begins that the cut would split
  while (begin > 0 && bytes - begin < 3 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U)
    --begin;
  const bool inside = begin < bytes && first_character(text.substr(begin)).bytes > bytes - begin;
  return text.substr(0, inside ? begin : bytes);
}

}  // namespace millrace::server::http
