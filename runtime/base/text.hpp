// Checks and escapes names and texts that come from outside; writes numbers for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// Whether the text consists of 1 to `most` characters A-Z a-z 0-9 _ - . and does not begin with a hyphen or a dot.
/// Such a name is valid as a file name, a compute unit and a metric's label.
bool is_name(std::string_view text, std::size_t most = 128);

/// Returns the length in bytes of the first UTF-8 character of a non-empty text, or 0 if that is malformed.
std::size_t character_bytes(std::string_view text);

/// Whether the text is well-formed UTF-8 (RFC 3629: shortest forms, no surrogates), as JSON and protobuf need.
bool is_utf8(std::string_view text);

/// Escapes control characters (C0, DEL, C1) and bytes that are not UTF-8 as \n, \t or \x1b, so that the text is safe on
/// a terminal and in a log line. If `lines` is true, keeps newlines.
std::string printable(std::string_view text, bool lines = false);

/// Returns a number for people, with at most 8 significant digits, such as "161.13281" or "1e+09".
std::string number_text(double value);

}  // namespace millrace
