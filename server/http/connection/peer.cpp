#include "server/http/connection/peer.hpp"

#include <netinet/in.h>

#include <cstring>
#include <sstream>

namespace millrace::server::http {

namespace ip = boost::asio::ip;

std::optional<ip::tcp::endpoint> tcp_endpoint(const sockaddr& address) {
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return std::nullopt;
  ip::tcp::endpoint out;
  std::memcpy(out.data(), &address,
              address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return out;
}

std::string text_of(const sockaddr& address) {
  const auto endpoint = tcp_endpoint(address);
  if (!endpoint) return address.sa_family == AF_UNIX ? "a Unix socket" : "an unknown address";
  std::ostringstream out;
  out << *endpoint;
  return out.str();
}

std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise) {
  const auto endpoint = tcp_endpoint(peer);
  if (!endpoint) return otherwise;
  ip::address address = endpoint->address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = ip::make_address_v4(ip::v4_mapped, address.to_v6());
  if (address.is_loopback()) return otherwise;
  if (address.is_v4()) return address.to_v4().to_uint();
  const auto bytes = address.to_v6().to_bytes();
  std::uint64_t network = 0;
  std::memcpy(&network, bytes.data(), sizeof network);
  return network;
}

}  // namespace millrace::server::http
