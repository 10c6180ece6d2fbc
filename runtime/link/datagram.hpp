// The datagrams of a UDP link: their fields, and their form on the wire. README.md specifies every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::runtime::link {

inline constexpr std::uint8_t kWireVersion = 2;
inline constexpr std::size_t kHeaderBytes = 64;
/// The longest payload that fits into a UDP datagram over IPv4 after this protocol's header.
inline constexpr std::uint32_t kMostPayloadBytes = 65'507 - kHeaderBytes;
/// The most packets that a channel may have on their way, so that numbers can be compared modulo 2^32.
inline constexpr std::uint32_t kMostCredits = 1U << 16U;

enum class Type : std::uint8_t {
  kData = 1,            // from sender to receiver: one packet of a frame
  kState = 2,           // from receiver to sender: which packets arrived, and how many more may be sent
  kGreeting = 3,        // from sender to receiver: asks for a kState
  kSenderClosed = 4,    // from sender to receiver: the sender goes out of service
  kReceiverClosed = 5,  // from receiver to sender: the receiver goes out of service
  kReceiverOpened = 6,  // from receiver to sender: asks for a kGreeting that names the receiver's incarnation
};

/// Identifies a channel. `source` is the endpoint (a card's number) that sends data; the datagrams of its receiver have
/// the same channel.
struct ChannelId {
  std::uint16_t source = 0, destination = 0;
  std::uint8_t tag = 0;
  bool operator==(const ChannelId&) const = default;
};

/// A datagram. Each type uses only the fields whose comment names it; the others are 0.
struct Datagram {
  Type type = Type::kData;
  ChannelId channel;
  std::uint32_t generation = 0;  // how often the sender has gone into service
  std::uint32_t epoch = 0;       // epoch of the frames that the end of the link handles
  std::uint32_t number = 0;      // data: the packet's number in this generation and epoch; greeting: the
                                 // lowest number that is not acknowledged
  std::uint64_t sequence = 0;    // data: the frame's sequence
  std::uint32_t incarnation =
      0;                     // state, receiver closed, receiver opened: how often the receiver has gone into
                             // service, above 0; greeting: the receiver's incarnation, or 0 if unknown
  std::uint32_t offset = 0;  // data: offset of the payload in the frame's packed form
  bool last = false;         // data: whether the packet is the frame's last
  std::uint32_t packet_bytes = 0;      // greeting: payload bytes of a packet
  std::uint32_t credits = 0;           // greeting: most packets on their way
  std::uint32_t next = 0;              // state: all packets with smaller numbers have arrived
  std::uint32_t limit = 0;             // state: packets with smaller numbers may be sent
  std::uint64_t arrived = 0;           // state: bit i says that packet next + 1 + i has arrived
  std::span<const std::byte> payload;  // data: 1 to kMostPayloadBytes bytes
};

/// Why parse() refuses bytes, in the order of the checks.
enum class Refusal : std::uint8_t {
  kNone,
  kTooShort,    // shorter than a header
  kMagic,       // not a datagram of a Millrace link
  kVersion,     // another version of the protocol
  kHeaderCrc,   // the header was damaged
  kType,        // unknown type
  kField,       // a field has a value that its type excludes
  kLength,      // the datagram does not end where its header says
  kPayloadCrc,  // the payload was damaged
};

/// Writes the header of `datagram` to `header`. The payload's CRC is computed; the payload itself is not copied.
void encode_header(const Datagram& datagram, std::span<std::byte, kHeaderBytes> header);

/// Reads a datagram. `datagram.payload` points into `bytes`. If bytes are refused, `datagram` is unspecified. A datagram
/// that parse() accepts and encode_header() writes again has the same bytes.
Refusal parse(std::span<const std::byte> bytes, Datagram& datagram);

/// Whether `a` comes before `b`, if the two differ by less than 2^31: serial numbers as in RFC 1982.
constexpr bool precedes(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

}  // namespace millrace::runtime::link
