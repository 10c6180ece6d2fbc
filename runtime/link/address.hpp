// Addresses of UDP sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace::runtime::link {

/// An IPv4 address and a UDP port, both in the machine's byte order.
struct Address {
  std::uint32_t host = 0;
  std::uint16_t port = 0;
  bool operator==(const Address&) const = default;
};

/// Parses "10.1.2.3:5000".
Result<Address> parse_address(std::string_view text);
std::string to_string(const Address& address);

}  // namespace millrace::runtime::link
