#include "server/http/connection/client_key.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace millrace::server::http {
namespace {

std::uint64_t key_of(const in_addr& address, std::uint64_t otherwise) {
  const std::uint32_t v4 = ntohl(address.s_addr);
  return v4 >> 24U == 127 ? otherwise : v4;
}

}  // namespace

std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise) {
  if (peer.sa_family == AF_INET)
    return key_of(reinterpret_cast<const sockaddr_in&>(peer).sin_addr, otherwise);
  if (peer.sa_family != AF_INET6) return otherwise;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&v6)) return otherwise;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    in_addr v4{};
    std::memcpy(&v4, &v6.s6_addr[12], sizeof v4);
    return key_of(v4, otherwise);
  }
  std::uint64_t network = 0;
  std::memcpy(&network, &v6, sizeof network);
  return network;
}

}  // namespace millrace::server::http
