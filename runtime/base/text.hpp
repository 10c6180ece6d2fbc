// What names and texts from outside may hold.
#pragma once

#include <cstddef>
#include <string_view>

namespace millrace {

/// 1 to `most` of A-Z a-z 0-9 _ - . and neither - nor . first: what can stand as a file name, an environment variable's
/// part, a compute unit and a metric's label.
bool is_name(std::string_view text, std::size_t most = 128);

/// Well-formed UTF-8 (RFC 3629: shortest forms, no surrogates): what JSON and protobuf carry.
bool is_utf8(std::string_view text);

}  // namespace millrace
