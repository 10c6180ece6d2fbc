// Whose turn it is: which connections are one client's. Pure.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace millrace::server::http {

/// The same number for all connections of one machine: an IPv4 address, also where a socket for both gives it
/// as an IPv6 one (::ffff:a.b.c.d), or an IPv6 /64. What comes from this machine, or through a Unix socket,
/// may be anybody's: `otherwise` for it. `peer` is as long as its family says.
std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise);

}  // namespace millrace::server::http
