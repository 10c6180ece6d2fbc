// Addresses of clients, and the interface that sends datagrams to them. A socket or, in tests, a fake implements it.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace millrace::server::udp {

/// A client's address as the system stores it: a sockaddr_in6, or a sockaddr_in followed by zero bytes. In both
/// structs the family and the port have the same offsets.
struct Address {
  sockaddr_in6 system{};

  bool is_v6() const { return system.sin6_family == AF_INET6; }
  std::uint16_t port() const { return ntohs(system.sin6_port); }
  void set_port(std::uint16_t port) { system.sin6_port = htons(port); }

  /// Returns the bytes of the IP address, in network order.
  std::span<const std::byte> ip() const {
    const auto all = std::as_bytes(std::span(&system, 1));
    return is_v6() ? all.subspan(offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr))
                   : all.subspan(offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  }
  /// Whether only this machine can reach the address.
  bool is_loopback() const {
    return is_v6() ? IN6_IS_ADDR_LOOPBACK(&system.sin6_addr) : ip().front() == std::byte{127};
  }
  bool operator==(const Address& other) const {
    return std::memcmp(&system, &other.system, sizeof system) == 0;
  }
};

/// Identifies the client whose share of a queue the datagram uses; clients with different shares take turns. All
/// client ids of another machine (an IPv4 address or an IPv6 /64 network) have one share, as over HTTP, so nobody
/// gains by using more ids. On this machine, each client id has a share of its own.
inline std::uint64_t share_of(const Address& from, std::uint64_t client_id) {
  if (from.is_loopback()) return client_id;
  std::uint64_t network = 0;
  if (from.is_v6())
    std::memcpy(&network, from.ip().data(), sizeof network);
  else
    for (const std::byte byte : from.ip()) network = network << 8U | std::to_integer<std::uint64_t>(byte);
  return network;
}

struct AddressHash {
  std::size_t operator()(const Address& a) const {
    std::array<std::uint64_t, 3> words;  // all of sockaddr_in6 except its scope
    std::memcpy(words.data(), &a.system, sizeof words);
    std::uint64_t mixed = words[0] ^ (words[1] * 0x9E3779B97F4A7C15U) ^ (words[2] << 32U | words[2] >> 32U);
    mixed ^= mixed >> 29U;
    return static_cast<std::size_t>(mixed * 0xBF58476D1CE4E5B9U);
  }
};

/// One datagram to send: the head (header and tag), then the payload.
struct Piece {
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  std::size_t bytes() const { return head.size() + payload.size(); }
};

class Sender {
 public:
  virtual ~Sender() = default;

  /// Sends all pieces to `to`, in order. A piece that the kernel does not accept at once is lost, as any datagram may
  /// be. The bytes may be freed once send() returns. Any thread may call it; it never blocks.
  virtual void send(const Address& to, std::span<const Piece> pieces) = 0;
};

}  // namespace millrace::server::udp
