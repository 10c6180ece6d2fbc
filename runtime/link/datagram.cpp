#include "runtime/link/datagram.hpp"

#include <bit>
#include <cassert>
#include <cstring>

#include "runtime/link/checksum.hpp"

namespace millrace::runtime::link {

namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

constexpr std::uint32_t kMagic = 0x4b4c524du;  // the bytes "MRLK"
constexpr std::uint8_t kLastFlag = 1;

// Offsets of the header's fields.
enum At : std::size_t {
  kAtMagic = 0,
  kAtVersion = 4,
  kAtType = 5,
  kAtFlags = 6,
  kAtTag = 7,
  kAtSource = 8,
  kAtDestination = 10,
  kAtGeneration = 12,
  kAtEpoch = 16,
  kAtNumber = 20,
  kAtSequence = 24,
  kAtOffset = 32,
  kAtLength = 36,
  kAtNext = 40,
  kAtLimit = 44,
  kAtArrived = 48,
  kAtPayloadCrc = 56,
  kAtHeaderCrc = 60,
};

template <class T>
void store(std::span<std::byte, kHeaderBytes> header, At at, T value) {
  std::memcpy(header.data() + at, &value, sizeof value);
}

template <class T>
T load(std::span<const std::byte> header, At at) {
  T value{};
  std::memcpy(&value, header.data() + at, sizeof value);
  return value;
}

/// Whether datagrams of this type contain the receiver's incarnation. Its bytes are those that hold the
/// frame's sequence in data datagrams.
constexpr bool has_incarnation(Type type) {
  return type == Type::kState || type == Type::kGreeting || type == Type::kReceiverClosed ||
         type == Type::kReceiverOpened;
}

/// Whether all fields have values that the datagram's type allows.
bool fields_are_valid(const Datagram& d, std::uint8_t flags, std::uint32_t length) {
  const bool no_data = d.sequence == 0 && flags == 0 && length == 0;
  const bool no_state = d.next == 0 && d.arrived == 0;
  switch (d.type) {
    case Type::kData:
      return flags <= kLastFlag && length >= 1 && length <= kMostPayloadBytes && no_state && d.limit == 0;
    case Type::kState:
      return no_data && d.incarnation != 0 && d.number == 0 && d.offset == 0;
    case Type::kGreeting:
      return no_data && no_state && d.packet_bytes >= 1 && d.packet_bytes <= kMostPayloadBytes &&
             d.credits >= 1 && d.credits <= kMostCredits;
    case Type::kReceiverClosed:
    case Type::kReceiverOpened:
      if (d.incarnation == 0) return false;
      [[fallthrough]];
    case Type::kSenderClosed:
      return no_data && no_state && d.number == 0 && d.offset == 0 && d.limit == 0;
  }
  return false;
}

}  // namespace

void encode_header(const Datagram& datagram, std::span<std::byte, kHeaderBytes> header) {
  const bool greets = datagram.type == Type::kGreeting;
  assert(datagram.payload.size() <= kMostPayloadBytes);
  store(header, kAtMagic, kMagic);
  store(header, kAtVersion, kWireVersion);
  store(header, kAtType, static_cast<std::uint8_t>(datagram.type));
  store(header, kAtFlags, datagram.last ? kLastFlag : std::uint8_t{0});
  store(header, kAtTag, datagram.channel.tag);
  store(header, kAtSource, datagram.channel.source);
  store(header, kAtDestination, datagram.channel.destination);
  store(header, kAtGeneration, datagram.generation);
  store(header, kAtEpoch, datagram.epoch);
  store(header, kAtNumber, datagram.number);
  store(header, kAtSequence,
        has_incarnation(datagram.type) ? std::uint64_t{datagram.incarnation} : datagram.sequence);
  store(header, kAtOffset, greets ? datagram.packet_bytes : datagram.offset);
  store(header, kAtLength, static_cast<std::uint32_t>(datagram.payload.size()));
  store(header, kAtNext, datagram.next);
  store(header, kAtLimit, greets ? datagram.credits : datagram.limit);
  store(header, kAtArrived, datagram.arrived);
  store(header, kAtPayloadCrc, crc32c(datagram.payload));
  store(header, kAtHeaderCrc, crc32c(header.first<kAtHeaderCrc>()));
}

Refusal parse(std::span<const std::byte> bytes, Datagram& datagram) {
  if (bytes.size() < kHeaderBytes) return Refusal::kTooShort;
  const auto header = bytes.first<kHeaderBytes>();
  if (load<std::uint32_t>(header, kAtMagic) != kMagic) return Refusal::kMagic;
  if (load<std::uint8_t>(header, kAtVersion) != kWireVersion) return Refusal::kVersion;
  if (load<std::uint32_t>(header, kAtHeaderCrc) != crc32c(header.first<kAtHeaderCrc>()))
    return Refusal::kHeaderCrc;
  const auto type = load<std::uint8_t>(header, kAtType);
  if (type < static_cast<std::uint8_t>(Type::kData) ||
      type > static_cast<std::uint8_t>(Type::kReceiverOpened))
    return Refusal::kType;

  datagram = {};
  datagram.type = static_cast<Type>(type);
  datagram.channel.source = load<std::uint16_t>(header, kAtSource);
  datagram.channel.destination = load<std::uint16_t>(header, kAtDestination);
  datagram.channel.tag = load<std::uint8_t>(header, kAtTag);
  datagram.generation = load<std::uint32_t>(header, kAtGeneration);
  datagram.epoch = load<std::uint32_t>(header, kAtEpoch);
  datagram.number = load<std::uint32_t>(header, kAtNumber);
  datagram.sequence = load<std::uint64_t>(header, kAtSequence);
  if (has_incarnation(datagram.type)) {
    datagram.incarnation = static_cast<std::uint32_t>(datagram.sequence);
    datagram.sequence -= datagram.incarnation;  // the upper half must be 0
  }
  const bool greets = datagram.type == Type::kGreeting;
  (greets ? datagram.packet_bytes : datagram.offset) = load<std::uint32_t>(header, kAtOffset);
  (greets ? datagram.credits : datagram.limit) = load<std::uint32_t>(header, kAtLimit);
  datagram.next = load<std::uint32_t>(header, kAtNext);
  datagram.arrived = load<std::uint64_t>(header, kAtArrived);
  const auto flags = load<std::uint8_t>(header, kAtFlags);
  datagram.last = (flags & kLastFlag) != 0;
  const auto length = load<std::uint32_t>(header, kAtLength);
  if (!fields_are_valid(datagram, flags, length)) return Refusal::kField;
  if (bytes.size() - kHeaderBytes != length) return Refusal::kLength;
  datagram.payload = bytes.subspan(kHeaderBytes);
  if (load<std::uint32_t>(header, kAtPayloadCrc) != crc32c(datagram.payload)) return Refusal::kPayloadCrc;
  return Refusal::kNone;
}

}  // namespace millrace::runtime::link
