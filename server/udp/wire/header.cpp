#include "server/udp/wire/header.hpp"

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp::wire {
namespace {

/// The header's fields in the order in which they are sent.
struct RawHeader {
  std::uint16_t magic;
  std::uint8_t version;
  Type type;
  std::uint8_t flags, key_id;
  std::uint16_t header_len;
  std::uint64_t client_id, request_id;
  std::uint16_t frag_index, frag_count;
  std::uint32_t total_len, model, time_us;
};
static_assert(sizeof(RawHeader) == kHeaderBytes);

}  // namespace

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
    // The last fragment states only its own length. The length of the other fragments follows from the last
    // fragment's offset.
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
  const auto raw = load<RawHeader>(bytes, 0);
  if (raw.magic != kMagic) return Refusal::kBadMagic;
  if (raw.version != kVersion) return Refusal::kBadVersion;
  if (raw.type < Type::kReq || raw.type > Type::kPong) return Refusal::kBadType;
  const bool tagged = (raw.flags & kFlagTagged) != 0;
  if ((raw.flags & ~(kFlagTagged | kFlagFromServer)) != 0 || tagged != (raw.key_id != 0))
    return Refusal::kBadFlags;
  if (raw.header_len != (tagged ? kMaxHeaderBytes : kHeaderBytes) || bytes.size() < raw.header_len)
    return Refusal::kBadHeaderLength;

  out.header = {raw.type,       (raw.flags & kFlagFromServer) != 0,
                raw.key_id,     raw.client_id,
                raw.request_id, raw.frag_index,
                raw.frag_count, raw.total_len,
                raw.model,      raw.time_us};
  out.head = bytes.first(kHeaderBytes);
  out.tag = tagged ? bytes.subspan(kHeaderBytes, kTagBytes) : std::span<const std::byte>();
  out.payload = bytes.subspan(raw.header_len);

  const Header& h = out.header;
  const bool message = h.type == Type::kReq || h.type == Type::kRsp;
  if (h.frag_index >= h.frag_count || (!message && h.frag_count != 1)) return Refusal::kBadFragment;
  Layout layout;
  if (!layout_of(h, out.payload.size(), layout) || (message && h.total_len == 0)) return Refusal::kBadLength;
  return Refusal::kNone;
}

void write_header(const Header& header, std::span<std::byte, kHeaderBytes> out) {
  const auto flags = static_cast<std::uint8_t>((header.tagged() ? kFlagTagged : 0) |
                                               (header.from_server ? kFlagFromServer : 0));
  store(out, 0,
        RawHeader{kMagic, kVersion, header.type, flags, header.key_id,
                  static_cast<std::uint16_t>(header.bytes()), header.client_id, header.request_id,
                  header.frag_index, header.frag_count, header.total_len, header.model, header.time_us});
}

}  // namespace millrace::server::udp::wire
