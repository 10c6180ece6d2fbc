// Addresses of sockets: as text, and as the key that tells which connections belong to one client. Pure.
#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::server::http {

/// Nothing if the address is not of TCP. Here and below, `address` is as long as its family says.
std::optional<boost::asio::ip::tcp::endpoint> tcp_endpoint(const sockaddr& address);

/// "127.0.0.1:4711", "[::1]:4711", "a Unix socket".
std::string text_of(const sockaddr& address);

/// The same number for all connections of one machine, which is known by its IPv4 address or its IPv6 /64. Clients
/// that wait for a slot take turns by it. An IPv4 address that a dual-stack socket gives as ::ffff:a.b.c.d counts as
/// IPv4. Connections from this machine and through Unix sockets may be anybody's, so their key is `otherwise`.
std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise);

}  // namespace millrace::server::http
