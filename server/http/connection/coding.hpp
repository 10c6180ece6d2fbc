// Content codings: gzip and deflate, both ways (RFC 9110, 8.4.1). Bytes in, bytes out.
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

/// Of a Content-Encoding header; nothing for a coding, or a chain of them, that is not offered.
std::optional<Coding> parse_coding(std::string_view text);

/// As it stands in Content-Encoding: "gzip".
std::string_view to_string(Coding coding);

/// The body as it was before `coding`. Never makes more than `most` bytes, whatever the body says of itself:
/// kResourceExhausted beyond. kInvalidInput where it is damaged, cut short, or followed by more. "deflate" is
/// zlib's format, and also the bare one, which some clients send.
Result<std::vector<std::byte>> decoded(Coding coding, std::span<const std::byte> body, std::uint64_t most);

/// The coding an Accept-Encoding header prefers: gzip before deflate at equal weight; identity where it
/// names neither.
Coding preferred_coding(std::string_view accept_encoding);

/// The parts, one after the other, in `coding` (not kIdentity).
std::string encoded(Coding coding, std::span<const std::span<const std::byte>> parts);

}  // namespace millrace::server::http
