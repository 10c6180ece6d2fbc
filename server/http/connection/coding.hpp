// Content codings: decodes and encodes gzip and deflate (RFC 9110, 8.4.1). Bytes in, bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::http {

enum class Coding { kIdentity, kGzip, kDeflate };

/// Reads Content-Encoding. Nothing if it names another coding, or several.
std::optional<Coding> parse_coding(std::string_view text);

/// As Content-Encoding writes it: "gzip".
std::string_view to_string(Coding coding);

/// Takes `coding` off the body. Never makes more than `most` bytes, whatever the body announces:
/// kResourceExhausted beyond. kInvalidInput if the body is damaged, cut short, or followed by more. "deflate" is
/// zlib's format, or the bare one, which some clients send.
Result<std::vector<std::byte>> decoded(Coding coding, std::span<const std::byte> body, std::uint64_t most);

/// The coding that Accept-Encoding prefers: gzip before deflate at equal weight; identity if it names neither.
Coding preferred_coding(std::string_view accept_encoding);

/// Puts the parts, one after the other, into `coding`, which is not kIdentity.
std::string encoded(Coding coding, std::span<const std::span<const std::byte>> parts);

}  // namespace millrace::server::http
