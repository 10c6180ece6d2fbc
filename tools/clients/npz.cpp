#include "tools/clients/npz.hpp"

#include <zlib.h>

#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::clients {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kArchiveLimit = 4ULL << 30U;
constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kDirectoryEnd = 0x06054b50;
constexpr std::uint32_t kIn64Bits = 0xFFFFFFFF;  // the number stands in the extra field with this id:
constexpr std::uint16_t kExtra64 = 1;
constexpr std::size_t kMostEntries = 1024;
constexpr std::uint16_t kStored = 0, kDeflated = 8;

Error bad_archive(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorCode::kInvalidInput,
               path.string() + ": not a usable .npz file: " + what + "; write it with numpy.savez");
}

/// Reads a little-endian number. The caller must have checked that the number lies inside `bytes`.
template <class T>
T number(Bytes bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Entry {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t checksum = 0;  // CRC-32 of the unpacked bytes
  std::uint64_t packed = 0, size = 0, offset = 0;
};

/// Reads the extra field of a directory entry. If the field holds 64-bit sizes and offsets, replaces the entry's
/// 32-bit ones by these. Returns false if the field is damaged.
bool read_extra(Bytes extra, Entry& entry) {
  while (extra.size() >= 4) {
    const auto id = number<std::uint16_t>(extra, 0), length = number<std::uint16_t>(extra, 2);
    if (extra.size() - 4U < length) return false;
    if (id == kExtra64) {
      std::size_t at = 4;
      for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
        if (*value != kIn64Bits) continue;
        if (at + 8 > 4U + length) return false;
        *value = number<std::uint64_t>(extra, at);
        at += 8;
      }
    }
    extra = extra.subspan(4U + length);
  }
  return true;
}

/// Reads the archive's directory, which stands at the file's end. Returns nothing if the directory is damaged.
std::optional<std::vector<Entry>> read_directory(Bytes file) {
  constexpr std::size_t kEndBytes = 22, kEntryBytes = 46, kLongestComment = 65535;
  if (file.size() < kEndBytes) return std::nullopt;
  std::size_t end = file.size() - kEndBytes;
  const std::size_t least = end > kLongestComment ? end - kLongestComment : 0;
  while (number<std::uint32_t>(file, end) != kDirectoryEnd)
    if (end-- == least) return std::nullopt;
  const auto count = number<std::uint16_t>(file, end + 10);
  std::uint64_t at = number<std::uint32_t>(file, end + 16);
  std::vector<Entry> entries;
  for (std::uint16_t i = 0; i < count; ++i) {
    if (at > file.size() || file.size() - at < kEntryBytes || entries.size() >= kMostEntries)
      return std::nullopt;
    const Bytes here = file.subspan(at);
    if (number<std::uint32_t>(here, 0) != kDirectoryEntry) return std::nullopt;
    Entry entry;
    entry.flags = number<std::uint16_t>(here, 8);
    entry.method = number<std::uint16_t>(here, 10);
    entry.checksum = number<std::uint32_t>(here, 16);
    entry.packed = number<std::uint32_t>(here, 20);
    entry.size = number<std::uint32_t>(here, 24);
    entry.offset = number<std::uint32_t>(here, 42);
    const std::size_t name = number<std::uint16_t>(here, 28), extra = number<std::uint16_t>(here, 30),
                      comment = number<std::uint16_t>(here, 32);
    if (here.size() < kEntryBytes + name + extra + comment) return std::nullopt;
    entry.name.assign(reinterpret_cast<const char*>(here.data()) + kEntryBytes, name);
    if (!read_extra(here.subspan(kEntryBytes + name, extra), entry)) return std::nullopt;
    at += kEntryBytes + name + extra + comment;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Returns the bytes of an entry as they are in the file, or nothing if it does not lie inside the file.
std::optional<Bytes> packed_bytes(Bytes file, const Entry& entry) {
  constexpr std::size_t kHeaderBytes = 30;
  if (entry.offset > file.size() || file.size() - entry.offset < kHeaderBytes) return std::nullopt;
  const Bytes here = file.subspan(entry.offset);
  if (number<std::uint32_t>(here, 0) != kLocalHeader) return std::nullopt;
  const std::size_t begin = kHeaderBytes + number<std::uint16_t>(here, 26) + number<std::uint16_t>(here, 28);
  if (here.size() < begin || here.size() - begin < entry.packed) return std::nullopt;
  return here.subspan(begin, entry.packed);
}

/// Unpacks deflated bytes, which must give exactly `size` bytes.
std::optional<std::vector<std::byte>> inflated(Bytes packed, std::uint64_t size) {
  // Deflate packs at most 1032 bytes into one. Refuse a size that cannot be true, before memory is allocated for it.
  constexpr std::uint64_t kMostRatio = 1032;
  if (size > kArchiveLimit || size / kMostRatio > packed.size() ||
      packed.size() > std::numeric_limits<uInt>::max() || size > std::numeric_limits<uInt>::max())
    return std::nullopt;
  std::vector<std::byte> out(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) return std::nullopt;
  return out;
}

}  // namespace

Result<std::map<std::string, NpyArray>> read_npz(const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const auto file, read_file(path, kArchiveLimit));
  const auto entries = read_directory(file);
  if (!entries || entries->empty())
    return bad_archive(path, "the file is not a zip archive, or its directory is damaged");
  std::map<std::string, NpyArray> arrays;
  for (const Entry& entry : *entries) {
    const std::string shown = "entry '" + printable(entry.name) + "'";
    constexpr std::string_view kSuffix = ".npy";
    if (!entry.name.ends_with(kSuffix)) return bad_archive(path, shown + " is not a .npy file");
    if ((entry.flags & 1U) != 0) return bad_archive(path, shown + " is encrypted");
    const auto packed = packed_bytes(file, entry);
    if (!packed) return bad_archive(path, shown + " lies outside the file");
    std::optional<std::vector<std::byte>> bytes;
    if (entry.method == kStored && entry.packed == entry.size)
      bytes.emplace(packed->begin(), packed->end());
    else if (entry.method == kDeflated)
      bytes = inflated(*packed, entry.size);
    if (!bytes) return bad_archive(path, shown + " is damaged, or compressed by a method other than deflate");
    if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes->data()), bytes->size()) != entry.checksum)
      return bad_archive(path, shown + " is damaged: its checksum does not match its bytes");
    MILLRACE_ASSIGN(NpyArray array, parse_npy(*bytes, path.string() + ":" + printable(entry.name)));
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    if (!arrays.emplace(name, std::move(array)).second) return bad_archive(path, shown + " stands twice");
  }
  return arrays;
}

}  // namespace millrace::clients
