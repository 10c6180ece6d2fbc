// Parses and writes the header of a Millrace datagram, which server/udp/README.md defines. The functions are pure, so
// any thread may call them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::server::udp::wire {

inline constexpr std::uint16_t kMagic = 0x524D;  // the characters 'M' 'R'
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kMaxHeaderBytes = kHeaderBytes + kTagBytes;
inline constexpr std::size_t kMaxDatagramBytes = 65507;  // longest datagram over IPv4
inline constexpr std::uint32_t kMinFragmentBytes = 256;
inline constexpr std::uint32_t kMaxFragmentBytes = 65000;
inline constexpr std::uint32_t kDefaultFragmentBytes = 1200;
inline constexpr std::uint32_t kBurst = 64;  // fragments that are sent at once or asked for with one NACK

enum class Type : std::uint8_t {
  kReq = 1,
  kRsp,
  kAck,
  kNack,
  kErr,
  kBusy,
  kHello,
  kCookie,
  kPing,
  kPong,
};

inline constexpr std::uint8_t kFlagTagged = 1;
inline constexpr std::uint8_t kFlagFromServer = 2;

struct Header {
  Type type = Type::kReq;
  bool from_server = false;
  std::uint8_t key_id = 0;  // 0: the datagram has no tag
  std::uint64_t client_id = 0;
  std::uint64_t request_id = 0;
  std::uint16_t frag_index = 0;
  std::uint16_t frag_count = 1;
  std::uint32_t total_len = 0;
  std::uint32_t model = 0;
  std::uint32_t time_us = 0;

  bool tagged() const { return key_id != 0; }
  std::size_t bytes() const { return tagged() ? kMaxHeaderBytes : kHeaderBytes; }
  bool operator==(const Header&) const = default;
};

/// A parsed datagram. Its spans point into the bytes that were parsed.
struct Datagram {
  Header header;
  std::span<const std::byte> head;  // the first 40 bytes
  std::span<const std::byte> tag;   // 16 bytes, or empty without a tag
  std::span<const std::byte> payload;
};

/// Why a datagram is malformed.
enum class Refusal {
  kNone,
  kTooShort,
  kBadMagic,
  kBadVersion,
  kBadType,
  kBadFlags,
  kBadHeaderLength,
  kBadFragment,
  kBadLength,
};
inline constexpr std::array<std::string_view, 9> kRefusalNames = {
    "none", "too_short", "magic", "version", "type", "flags", "header_length", "fragment", "length"};
constexpr std::string_view to_string(Refusal refusal) {
  return kRefusalNames[static_cast<std::size_t>(refusal)];
}

/// Parses a datagram and checks everything that does not depend on the sender: constants, header length, and whether
/// fragment numbers, total length and payload agree. `out` is valid only if kNone is returned.
Refusal parse(std::span<const std::byte> bytes, Datagram& out);

/// Writes the 40 bytes of the header, deriving the flags and header_len from `header`. Does not write the tag.
void write_header(const Header& header, std::span<std::byte, kHeaderBytes> out);

/// How a message of `total` bytes is divided into `count` fragments.
struct Layout {
  std::uint32_t total = 0;
  std::uint32_t size = 0;  // bytes of every fragment except the last
  std::uint16_t count = 0;

  std::uint64_t offset(std::uint32_t index) const { return std::uint64_t{index} * size; }
  std::uint32_t length(std::uint32_t index) const {
    return index + 1U < count ? size : static_cast<std::uint32_t>(total - offset(index));
  }
  bool operator==(const Layout&) const = default;
};

/// Divides a message into fragments of `size` bytes. Returns false if more than 65,535 fragments would be needed.
/// `total` and `size` must be at least 1.
bool make_layout(std::uint32_t total, std::uint32_t size, Layout& out);

/// Derives the message's layout from one fragment. Returns false if the fragment's numbers contradict each other.
bool layout_of(const Header& header, std::size_t payload_bytes, Layout& out);

}  // namespace millrace::server::udp::wire
