// Decodes and resizes pictures with the stb library. Private to tools/clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::clients {

struct Picture {
  std::uint32_t width = 0, height = 0, channels = 0;
  std::vector<std::uint8_t> samples;  // [height, width, channels]
};

/// Decodes a picture and converts it to 1 (grey), 3 or 4 channels. Returns kInvalidInput if the file is not a picture,
/// is damaged, or has more than 100 megapixels.
Result<Picture> decode_picture(std::span<const std::byte> file, std::uint32_t channels);

Result<Picture> resize(const Picture& picture, std::uint32_t width, std::uint32_t height);

}  // namespace millrace::clients
