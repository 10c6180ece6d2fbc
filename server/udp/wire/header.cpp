#include "server/udp/wire/header.hpp"

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp::wire {

bool make_layout(std::uint32_t total, std::uint32_t size, Layout& out) {
  const std::uint64_t count = (std::uint64_t{total} + size - 1) / size;
  if (count > 0xFFFF) return false;
  out = Layout{total, size, static_cast<std::uint16_t>(count)};
  return true;
}

bool layout_of(const Header& header, std::size_t payload_bytes, Layout& out) {
  const std::uint64_t total = header.total_len;
  const std::uint64_t count = header.frag_count;
  if (count == 1) {
    if (payload_bytes != total) return false;
    out = Layout{header.total_len, header.total_len, 1};
    return true;
  }
  std::uint64_t size = payload_bytes;
  if (header.frag_index + 1U == count) {
    // The last fragment gives only its own length. The length of the others follows from its offset.
    if (payload_bytes == 0 || payload_bytes > total || (total - payload_bytes) % (count - 1) != 0)
      return false;
    size = (total - payload_bytes) / (count - 1);
  }
  if (size == 0 || size > kMaxDatagramBytes || (count - 1) * size >= total || total > count * size)
    return false;
  out = Layout{header.total_len, static_cast<std::uint32_t>(size), header.frag_count};
  return true;
}

Refusal parse(std::span<const std::byte> bytes, Datagram& out) {
  if (bytes.size() < kHeaderBytes) return Refusal::kTooShort;
  if (load<std::uint16_t>(bytes, 0) != kMagic) return Refusal::kBadMagic;
  if (load<std::uint8_t>(bytes, 2) != kVersion) return Refusal::kBadVersion;
  const auto type = load<std::uint8_t>(bytes, 3);
  if (type < static_cast<std::uint8_t>(Type::kReq) || type > static_cast<std::uint8_t>(Type::kPong))
    return Refusal::kBadType;
  const auto flags = load<std::uint8_t>(bytes, 4);
  const auto key_id = load<std::uint8_t>(bytes, 5);
  const bool tagged = (flags & kFlagTagged) != 0;
  if ((flags & ~(kFlagTagged | kFlagFromServer)) != 0 || tagged != (key_id != 0)) return Refusal::kBadFlags;
  const auto header_len = load<std::uint16_t>(bytes, 6);
  if (header_len != (tagged ? kMaxHeaderBytes : kHeaderBytes) || bytes.size() < header_len)
    return Refusal::kBadHeaderLength;

  Header& h = out.header;
  h.type = static_cast<Type>(type);
  h.from_server = (flags & kFlagFromServer) != 0;
  h.key_id = key_id;
  h.client_id = load<std::uint64_t>(bytes, 8);
  h.request_id = load<std::uint64_t>(bytes, 16);
  h.frag_index = load<std::uint16_t>(bytes, 24);
  h.frag_count = load<std::uint16_t>(bytes, 26);
  h.total_len = load<std::uint32_t>(bytes, 28);
  h.model = load<std::uint32_t>(bytes, 32);
  h.time_us = load<std::uint32_t>(bytes, 36);
  out.head = bytes.first(kHeaderBytes);
  out.tag = tagged ? bytes.subspan(kHeaderBytes, kTagBytes) : std::span<const std::byte>();
  out.payload = bytes.subspan(header_len);

  const bool message = h.type == Type::kReq || h.type == Type::kRsp;
  if (h.frag_index >= h.frag_count || (!message && h.frag_count != 1)) return Refusal::kBadFragment;
  Layout layout;
  if (!layout_of(h, out.payload.size(), layout) || (message && h.total_len == 0)) return Refusal::kBadLength;
  return Refusal::kNone;
}

void write_header(const Header& header, std::span<std::byte, kHeaderBytes> out) {
  const auto flags = static_cast<std::uint8_t>((header.tagged() ? kFlagTagged : 0) |
                                               (header.from_server ? kFlagFromServer : 0));
  store<std::uint16_t>(out, 0, kMagic);
  store<std::uint8_t>(out, 2, kVersion);
  store<std::uint8_t>(out, 3, static_cast<std::uint8_t>(header.type));
  store<std::uint8_t>(out, 4, flags);
  store<std::uint8_t>(out, 5, header.key_id);
  store<std::uint16_t>(out, 6, static_cast<std::uint16_t>(header.bytes()));
  store<std::uint64_t>(out, 8, header.client_id);
  store<std::uint64_t>(out, 16, header.request_id);
  store<std::uint16_t>(out, 24, header.frag_index);
  store<std::uint16_t>(out, 26, header.frag_count);
  store<std::uint32_t>(out, 28, header.total_len);
  store<std::uint32_t>(out, 32, header.model);
  store<std::uint32_t>(out, 36, header.time_us);
}

}  // namespace millrace::server::udp::wire
