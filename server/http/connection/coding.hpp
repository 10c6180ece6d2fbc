// Decodes and encodes the content codings gzip and deflate (RFC 9110, 8.4.1).
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

/// Parses the header Content-Encoding. Returns nothing for several codings and for a coding that Coding lacks.
std::optional<Coding> parse_coding(std::string_view text);

/// Returns the name of the coding in the header Content-Encoding: "gzip".
std::string_view to_string(Coding coding);

/// Decodes a body. Returns kResourceExhausted if the result would exceed `most` bytes, whatever size the body
/// announces, and kInvalidInput if the body is damaged, cut short or followed by more bytes. "deflate" means zlib's
/// format (RFC 1950), but the bare format (RFC 1951), which some clients send, is accepted too.
Result<std::vector<std::byte>> decoded(Coding coding, std::span<const std::byte> body, std::uint64_t most);

/// Returns the coding that the header Accept-Encoding prefers: gzip if gzip and deflate have the same weight, and
/// identity if the header accepts neither.
Coding preferred_coding(std::string_view accept_encoding);

/// Returns the concatenated parts, encoded. `coding` must not be kIdentity.
std::string encoded(Coding coding, std::span<const std::span<const std::byte>> parts);

}  // namespace millrace::server::http
