// Who a datagram comes from.
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
