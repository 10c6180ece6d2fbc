#include "tools/clients/picture.hpp"

#include <limits>
#include <memory>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace millrace::clients {
namespace {

constexpr std::uint64_t kMaxPixels = 100'000'000;

Error bad_picture(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, what);
}

}  // namespace

Result<Picture> decode_picture(std::span<const std::byte> file, std::uint32_t channels) {
  if (file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return bad_picture("over 2 GiB");
  const auto* bytes = reinterpret_cast<const stbi_uc*>(file.data());
  const int size = static_cast<int>(file.size());
  int width = 0, height = 0, own_channels = 0;
  // Read the size from the header before decoding, because a small file can claim a huge picture.
  if (stbi_info_from_memory(bytes, size, &width, &height, &own_channels) == 0)
    return bad_picture("not a picture that can be read (PNG, JPEG, BMP, PGM/PPM, TGA, GIF): " +
                       std::string(stbi_failure_reason()));
  if (width <= 0 || height <= 0 ||
      static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height) > kMaxPixels)
    return bad_picture("a picture of " + std::to_string(width) + "x" + std::to_string(height) +
                       " is over 100 megapixels");
  const std::unique_ptr<stbi_uc, void (*)(void*)> decoded(
      stbi_load_from_memory(bytes, size, &width, &height, &own_channels, static_cast<int>(channels)),
      stbi_image_free);
  if (decoded == nullptr) return bad_picture("damaged picture: " + std::string(stbi_failure_reason()));
  Picture out;
  out.width = static_cast<std::uint32_t>(width);
  out.height = static_cast<std::uint32_t>(height);
  out.channels = channels;
  const std::size_t count = std::size_t{out.width} * out.height * channels;
  out.samples.assign(decoded.get(), decoded.get() + count);
  return out;
}

Result<Picture> resize(const Picture& picture, std::uint32_t width, std::uint32_t height) {
  Picture out{width, height, picture.channels, {}};
  out.samples.resize(std::size_t{width} * height * picture.channels);
  if (stbir_resize_uint8(picture.samples.data(), static_cast<int>(picture.width),
                         static_cast<int>(picture.height), 0, out.samples.data(), static_cast<int>(width),
                         static_cast<int>(height), 0, static_cast<int>(picture.channels)) == 0)
    return Error(ErrorCode::kResourceExhausted, "out of memory while resizing the picture");
  return out;
}

}  // namespace millrace::clients
