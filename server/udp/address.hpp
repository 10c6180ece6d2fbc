// The address that a datagram comes from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

namespace millrace::server::udp {

struct Address {
  std::array<std::byte, 16> ip{};  // IPv4 in the first four bytes, network order
  std::uint32_t scope = 0;         // IPv6 link-local addresses only
  std::uint16_t port = 0;          // host order
  bool v6 = false;
  bool operator==(const Address&) const = default;
};

/// The client whose turns in a queue the datagram uses. All client ids of another machine (an IPv4 address,
/// an IPv6 /64) share its turns, as over HTTP, so nobody gains by using more ids. On this machine each client
/// id has its own.
inline std::uint64_t share_of(const Address& from, std::uint64_t client_id) {
  std::uint64_t network = 0;
  if (from.v6) {
    constexpr std::array<std::byte, 16> kLoopback = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0},
                                                     std::byte{0}, std::byte{0}, std::byte{0}, std::byte{1}};
    std::memcpy(&network, from.ip.data(), sizeof network);
    return from.ip == kLoopback ? client_id : network;
  }
  if (from.ip[0] == std::byte{127}) return client_id;
  for (std::size_t i = 0; i < 4; ++i) network = network << 8U | std::to_integer<std::uint64_t>(from.ip[i]);
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

}  // namespace millrace::server::udp
