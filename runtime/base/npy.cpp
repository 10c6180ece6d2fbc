#include "runtime/base/npy.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/base/file.hpp"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the formats Millrace reads are little-endian");

constexpr std::uint64_t kLimitBytes = 4ULL << 30U;
constexpr char kMagic[] = "\x93NUMPY";

Error bad(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, path.string() + ": not a usable .npy file: " + what);
}

/// Returns the text after `'key':` in the header's dictionary literal, or nothing if the key is absent.
std::optional<std::string_view> value_of(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  auto at = header.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find(':', at + quoted.size());
  if (at == std::string_view::npos) return std::nullopt;
  auto rest = header.substr(at + 1);
  const auto start = rest.find_first_not_of(' ');
  if (start == std::string_view::npos) return std::nullopt;
  return rest.substr(start);
}

std::optional<std::vector<std::uint64_t>> parse_shape(std::string_view text) {
  if (text.empty() || text.front() != '(') return std::nullopt;
  const auto close = text.find(')');
  if (close == std::string_view::npos) return std::nullopt;
  text = text.substr(1, close - 1);
  std::vector<std::uint64_t> shape;
  while (true) {
    const auto start = text.find_first_not_of(" ,");
    if (start == std::string_view::npos) return shape;
    text.remove_prefix(start);
    std::uint64_t dim = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (code != std::errc() || shape.size() >= 32) return std::nullopt;
    shape.push_back(dim);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() != ',' && text.front() != ' ') return std::nullopt;
  }
}

/// Returns the bytes of one element of a simple little-endian type ("<f4" -> 4), or nothing for other types.
std::optional<std::uint64_t> bytes_of(std::string_view descr) {
  if (descr.size() != 3) return std::nullopt;
  const char order = descr[0], kind = descr[1], size = descr[2];
  if (std::string_view("biuf").find(kind) == std::string_view::npos) return std::nullopt;
  if (size != '1' && size != '2' && size != '4' && size != '8') return std::nullopt;
  if (order != '<' && !(order == '|' && size == '1')) return std::nullopt;
  return static_cast<std::uint64_t>(size - '0');
}

std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& shape, std::uint64_t start) {
  for (const auto dim : shape) {
    if (dim != 0 && start > kLimitBytes / dim) return std::nullopt;
    start *= dim;
  }
  return start;
}

}  // namespace

std::uint64_t NpyArray::elements() const {
  std::uint64_t n = 1;
  for (const auto dim : shape) n *= dim;
  return n;
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const auto bytes, read_file(path, kLimitBytes));
  return parse_npy(bytes, path);
}

Result<NpyArray> parse_npy(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, 6) != 0)
    return bad(path, "the file does not begin with NumPy's magic bytes; write it with numpy.save");
  const auto major = std::to_integer<unsigned>(bytes[6]);
  if (major < 1 || major > 3)
    return bad(path, "format version " + std::to_string(major) + " is not 1, 2 or 3");
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (bytes.size() < prefix) return bad(path, "it ends inside its header");
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, major == 1 ? 2 : 4);
  if (bytes.size() - prefix < length) return bad(path, "it ends inside its header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + prefix, length);

  NpyArray array;
  const auto descr = value_of(header, "descr");
  if (!descr || descr->empty() || descr->front() != '\'')
    return bad(path, "'descr' is missing or a structured type");
  array.descr = std::string(descr->substr(1, descr->find('\'', 1) - 1));
  const auto element = bytes_of(array.descr);
  if (!element)
    return bad(path, "element type '" + array.descr + "' is not a little-endian bool, integer or float");
  const auto order = value_of(header, "fortran_order");
  if (!order || !order->starts_with("False"))
    return bad(path, "'fortran_order' is not False; save the array in C order (numpy.ascontiguousarray)");
  const auto shape_text = value_of(header, "shape");
  const auto shape = shape_text ? parse_shape(*shape_text) : std::nullopt;
  if (!shape) return bad(path, "'shape' is missing or not a tuple of whole numbers");
  array.shape = *shape;
  const auto expected = product(array.shape, *element);
  const std::uint64_t actual = bytes.size() - prefix - length;
  if (!expected || *expected != actual)
    return bad(path, "its shape needs " +
                         (expected ? std::to_string(*expected) : std::string("over 4 GiB of")) +
                         " bytes of data, but the file holds " + std::to_string(actual));
  array.data.assign(bytes.begin() + static_cast<std::ptrdiff_t>(prefix + length), bytes.end());
  return array;
}

Status write_npy(const std::filesystem::path& path, const NpyArray& array) {
  std::string header = "{'descr': '" + array.descr + "', 'fortran_order': False, 'shape': (";
  for (const auto dim : array.shape) header += std::to_string(dim) + ", ";
  if (array.shape.size() > 1) header.resize(header.size() - 2);
  if (array.shape.size() == 1) header.resize(header.size() - 1);
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max())
    return Error(ErrorCode::kInvalidInput, path.string() + ": shape has too many axes for .npy version 1");

  std::vector<std::byte> bytes(10 + header.size() + array.data.size());
  std::memcpy(bytes.data(), kMagic, 6);
  bytes[6] = std::byte{1};
  bytes[7] = std::byte{0};
  const auto length = static_cast<std::uint16_t>(header.size());
  std::memcpy(bytes.data() + 8, &length, 2);
  std::memcpy(bytes.data() + 10, header.data(), header.size());
  if (!array.data.empty())
    std::memcpy(bytes.data() + 10 + header.size(), array.data.data(), array.data.size());
  return write_file_atomically(path, bytes);
}

}  // namespace millrace
