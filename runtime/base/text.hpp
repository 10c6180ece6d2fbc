// What names and texts from outside may hold.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// 1 to `most` of A-Z a-z 0-9 _ - . and neither - nor . first: what can stand as a file name, an environment
/// variable's part, a compute unit and a metric's label.
bool is_name(std::string_view text, std::size_t most = 128);

/// Well-formed UTF-8 (RFC 3629: shortest forms, no surrogates): what JSON and protobuf carry.
bool is_utf8(std::string_view text);

/// `text` without what a terminal obeys, what ends a line and what is no text: control characters (C0, DEL,
/// C1) and bytes that are not UTF-8 stand as \n, \t, \x1b. Everything else, other languages' letters too,
/// stays. `lines`: newlines stay.
std::string printable(std::string_view text, bool lines = false);

}  // namespace millrace
