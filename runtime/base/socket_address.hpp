// Addresses of UDP sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace {

/// An IPv4 address and a UDP port, both in the machine's byte order.
struct SocketAddress {
  std::uint32_t host = 0;
  std::uint16_t port = 0;
  bool operator==(const SocketAddress&) const = default;
};

/// Parses "10.1.2.3:5000". Accepts port 0, which stands for any free port where a socket is opened. Returns kInvalidInput
/// for any other text.
Result<SocketAddress> parse_socket_address(std::string_view text);
std::string to_string(const SocketAddress& address);

}  // namespace millrace
