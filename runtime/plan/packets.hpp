// How frames are cut into packets between cards, and how many bytes a packet takes on a cable
// (kernels/rtl/README.md, "A packet").
#pragma once

#include <cstdint>

namespace millrace::runtime::plan {

/// Payload of a packet. The last packet of a frame may have less.
inline constexpr std::uint32_t kPacketBytes = 1024;

/// A packet on the wire has a header of 32 bytes, the payload filled up to whole words, and a word with the
/// CRC.
inline constexpr std::uint32_t kPacketWordBytes = 8;
inline constexpr std::uint32_t kPacketOverheadBytes = 32 + kPacketWordBytes;

constexpr std::uint64_t packet_bytes_on_wire(std::uint64_t payload) {
  return (payload + kPacketWordBytes - 1) / kPacketWordBytes * kPacketWordBytes + kPacketOverheadBytes;
}

constexpr std::uint64_t frame_bytes_on_wire(std::uint64_t frame_bytes,
                                            std::uint64_t packet_bytes = kPacketBytes) {
  if (packet_bytes == 0) return 0;
  const std::uint64_t rest = frame_bytes % packet_bytes;
  return frame_bytes / packet_bytes * packet_bytes_on_wire(packet_bytes) +
         (rest > 0 ? packet_bytes_on_wire(rest) : 0);
}

}  // namespace millrace::runtime::plan
