#include "runtime/base/socket_address.hpp"

#include <arpa/inet.h>

#include <charconv>
#include <system_error>

namespace millrace {

Result<SocketAddress> parse_socket_address(std::string_view text) {
  const Error wrong(
      ErrorCode::kInvalidInput,
      "address '" + std::string(text) + "' is not an IPv4 address and a port, such as 10.1.2.3:5000");
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  SocketAddress address;
  const auto port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  in_addr host{};
  if (error != std::errc() || end != port.data() + port.size() ||
      inet_pton(AF_INET, std::string(text.substr(0, colon)).c_str(), &host) != 1)
    return wrong;
  address.host = ntohl(host.s_addr);
  return address;
}

std::string to_string(const SocketAddress& address) {
  const in_addr host{htonl(address.host)};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &host, text, sizeof text);
  return std::string(text) + ":" + std::to_string(address.port);
}

}  // namespace millrace
