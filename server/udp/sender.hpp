// The addresses of clients, and the interface that sends datagrams to them: the socket, or a test's fake.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace millrace::server::udp {

struct Address {
  std::array<std::byte, 16> ip{};  // IPv4 in the first four bytes, network order
  std::uint32_t scope = 0;         // IPv6 link-local addresses only
  std::uint16_t port = 0;          // host order
  bool v6 = false;
  bool operator==(const Address&) const = default;

  /// Whether only this machine reaches the address.
  bool is_loopback() const {
    if (!v6) return ip[0] == std::byte{127};
    std::array<std::byte, 16> loopback{};
    loopback.back() = std::byte{1};
    return ip == loopback;
  }
};

/// The client whose turns in a queue the datagram uses. All client ids of another machine (an IPv4 address,
/// an IPv6 /64) share its turns, as over HTTP, so nobody gains by using more ids. On this machine each client
/// id has its own.
inline std::uint64_t share_of(const Address& from, std::uint64_t client_id) {
  if (from.is_loopback()) return client_id;
  std::uint64_t network = 0;
  std::memcpy(&network, from.ip.data(), from.v6 ? 8 : 4);
  return network;
}

struct AddressHash {
  std::size_t operator()(const Address& a) const {
    std::uint64_t high = 0, low = 0;
    std::memcpy(&high, a.ip.data(), 8);
    std::memcpy(&low, a.ip.data() + 8, 8);
    std::uint64_t mixed = (high ^ (low * 0x9E3779B97F4A7C15U)) + (std::uint64_t{a.port} << 32U) + a.scope;
    mixed ^= mixed >> 29U;
    return static_cast<std::size_t>(mixed * 0xBF58476D1CE4E5B9U);
  }
};

/// One datagram: the head (header and tag), then the payload.
struct Piece {
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  std::size_t bytes() const { return head.size() + payload.size(); }
};

class Sender {
 public:
  virtual ~Sender() = default;

  /// Sends all pieces to `to`, in order. A piece that the kernel does not take at once is lost, as any
  /// datagram may be. The bytes may be freed afterwards. Any thread; never blocks.
  virtual void send(const Address& to, std::span<const Piece> pieces) = 0;
};

}  // namespace millrace::server::udp
