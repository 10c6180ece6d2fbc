// Which connections belong to one client: clients that wait for a slot take turns. Pure.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace millrace::server::http {

/// The same number for all connections of one machine, known by its IPv4 address or its IPv6 /64. An IPv4 address
/// that a dual-stack socket gives as ::ffff:a.b.c.d counts as IPv4. Connections from this machine and through Unix
/// sockets may be anybody's: `otherwise` for them. `peer` is as long as its family says.
std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise);

}  // namespace millrace::server::http
