// Reads the xclbin container. Offsets are those of axlf, axlf_header and axlf_section_header in XRT's
// xclbin.h. That header is not included, because its layout never changes, and untrusted bytes are easier to
// check by offset than by cast.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/digest.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr std::size_t kSignatureLength = 8;
constexpr std::size_t kKeyBlock = 40;
constexpr std::size_t kKeyBlockBytes = 256;
constexpr std::size_t kLength = 304;
constexpr std::size_t kPlatform = 352;
constexpr std::size_t kPlatformBytes = 64;
constexpr std::size_t kUuid = 416;
constexpr std::size_t kSectionCount = 448;
constexpr std::size_t kSectionTable = 456;
constexpr std::size_t kSectionHeaderBytes = 40;
constexpr std::size_t kSectionNameBytes = 16;
constexpr std::uint32_t kMaxSections = 0x10000;

// Millrace's checksum in m_keyBlock: this mark, then the sha256 of the whole container, computed with zeros
// in place of the digest. The rest of the block is 0xff. Other tools fill the whole block with 0xff.
constexpr char kMark[] = "millrace:sha256";
constexpr std::size_t kMarkBytes = sizeof kMark;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kDigest = kKeyBlock + kMarkBytes;

template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string text_at(std::span<const std::byte> bytes, std::size_t offset, std::size_t limit) {
  const char* begin = reinterpret_cast<const char*>(bytes.data() + offset);
  return {begin, strnlen(begin, limit)};
}

std::array<std::byte, kDigestBytes> checksum(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, kDigestBytes> zeros{};
  Sha256 sha;
  sha.update(bytes.first(kDigest)).update(zeros).update(bytes.subspan(kDigest + kDigestBytes));
  return sha.finish();
}

Error corrupt(const std::string& why) {
  return Error(ErrorCode::kCorrupt, "xclbin: " + why);
}

/// Returns whether the container has Millrace's checksum, or an error if the checksum is wrong.
Result<bool> check_key_block(std::span<const std::byte> bytes) {
  const auto block = bytes.subspan(kKeyBlock, kKeyBlockBytes);
  const auto all = [](std::span<const std::byte> part, std::byte value) {
    return std::all_of(part.begin(), part.end(), [value](std::byte b) { return b == value; });
  };
  if (all(block, std::byte{0xff}) || all(block, std::byte{0})) return false;  // has no checksum of Millrace
  const std::string altered = "altered or damaged (its checksum does not match); compile the model again";
  if (std::memcmp(block.data(), kMark, kMarkBytes) != 0) return corrupt(altered);
  const auto expected = checksum(bytes);
  if (!std::equal(expected.begin(), expected.end(), bytes.begin() + kDigest)) return corrupt(altered);
  return true;
}

/// Formats 32 hexadecimal digits as a uuid.
std::string uuid_text(const std::string& hex) {
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace

const XclbinSection* XclbinView::find(std::uint32_t kind) const {
  for (const auto& section : sections)
    if (section.kind == kind) return &section;
  return nullptr;
}

Result<XclbinView> parse_xclbin(std::span<const std::byte> bytes) {
  if (bytes.size() < 8 || std::memcmp(bytes.data(), "xclbin2\0", 8) != 0)
    return Error(ErrorCode::kInvalidInput, "xclbin: not an xclbin (it does not begin with 'xclbin2')");
  if (bytes.size() < kSectionTable) return corrupt("truncated: its header is not whole");
  const auto signature = read_at<std::int32_t>(bytes, kSignatureLength);
  const auto length = read_at<std::uint64_t>(bytes, kLength);
  const std::uint64_t behind = signature > 0 ? static_cast<std::uint64_t>(signature) : 0;
  if (length > bytes.size() || length + behind != bytes.size())
    return corrupt((length + behind > bytes.size() ? "truncated: " : "altered: ") +
                   std::to_string(bytes.size()) + " bytes are there, its header says " +
                   std::to_string(length + behind));
  MILLRACE_ASSIGN(const bool has_checksum, check_key_block(bytes));

  const auto count = read_at<std::uint32_t>(bytes, kSectionCount);
  const std::uint64_t table_end = kSectionTable + std::uint64_t{count} * kSectionHeaderBytes;
  if (count > kMaxSections || table_end > length)
    return corrupt("damaged: its section table extends beyond the end of the file");
  XclbinView view;
  view.has_checksum = has_checksum;
  view.uuid = uuid_text(to_hex(bytes.subspan(kUuid, 16)));
  view.platform = text_at(bytes, kPlatform, kPlatformBytes);
  view.sections.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kSectionTable + i * kSectionHeaderBytes;
    XclbinSection section;
    section.kind = read_at<std::uint32_t>(bytes, at);
    section.name = text_at(bytes, at + 4, kSectionNameBytes);
    const auto offset = read_at<std::uint64_t>(bytes, at + 24);
    const auto size = read_at<std::uint64_t>(bytes, at + 32);
    if (offset < table_end || offset > length || size > length - offset)
      return corrupt("damaged: section " + std::to_string(i) + " (kind " + std::to_string(section.kind) +
                     ") reaches outside it");
    section.bytes = bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    view.sections.push_back(std::move(section));
  }
  return view;
}

Result<std::uint64_t> memory_bytes(const XclbinView& view) {
  // The layout of mem_topology and mem_data (xclbin.h): a count and, from offset 8 on, one entry of 40 bytes for each
  // bank.
  constexpr std::size_t kRows = 8, kRowBytes = 40, kUsed = 1, kSize = 8;
  // The types of entries that are not memory: streams, remapped host memory, and processor kernels.
  constexpr std::array<std::uint8_t, 4> kNoMemory = {3, 4, 9, 11};
  const XclbinSection* section = view.find(kSectionMemoryTopology);
  if (section == nullptr || section->bytes.size() < sizeof(std::int32_t)) return std::uint64_t{0};
  const auto bytes = section->bytes;
  const auto count = read_at<std::int32_t>(bytes, 0);
  if (count <= 0) return std::uint64_t{0};
  if (bytes.size() < kRows + static_cast<std::size_t>(count) * kRowBytes)
    return corrupt("damaged: MEM_TOPOLOGY is shorter than its " + std::to_string(count) + " banks");
  std::uint64_t kibibytes = 0;
  for (std::size_t row = kRows; row < kRows + static_cast<std::size_t>(count) * kRowBytes; row += kRowBytes) {
    const auto type = std::to_integer<std::uint8_t>(bytes[row]);
    if (bytes[row + kUsed] == std::byte{0} ||
        std::find(kNoMemory.begin(), kNoMemory.end(), type) != kNoMemory.end())
      continue;
    const auto size = read_at<std::uint64_t>(bytes, row + kSize);
    if (size > (std::uint64_t{1} << 53U) - kibibytes)
      return corrupt("damaged: MEM_TOPOLOGY lists more memory than 64 bits can address");
    kibibytes += size;
  }
  return kibibytes * 1024;
}

void seal_xclbin(std::span<std::byte> container) {
  std::fill_n(container.begin() + kKeyBlock, kKeyBlockBytes, std::byte{0xff});
  std::memcpy(container.data() + kKeyBlock, kMark, kMarkBytes);
  const auto digest = checksum(container);
  std::copy(digest.begin(), digest.end(), container.begin() + kDigest);
}

std::string uuid_from_digest(const std::string& content_digest) {
  std::string hex = content_digest.substr(0, 32);
  hex.resize(32, '0');
  hex[12] = '8';  // the uuid's version
  const char variant = hex[16];
  const int nibble = variant >= 'a' ? variant - 'a' + 10 : variant - '0';
  hex[16] = "89ab"[nibble & 3];
  return uuid_text(hex);
}

}  // namespace millrace::runtime::plan
