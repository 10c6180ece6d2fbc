// Converts a socket address to text, and to a key that is equal for all connections of one client.
#pragma once

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::server::http {

/// Returns the TCP endpoint, or nothing if the address does not belong to TCP. In this file, an address must be as long
/// as its family requires.
std::optional<boost::asio::ip::tcp::endpoint> tcp_endpoint(const sockaddr& address);

/// Returns the address as text: "127.0.0.1:4711", "[::1]:4711" or "a Unix socket".
std::string text_of(const sockaddr& address);

/// Returns the same number for all connections of one machine, identified by its IPv4 address or its IPv6 /64 network.
/// The dispatcher uses the number to let waiting clients take turns. An address of the form ::ffff:a.b.c.d counts as
/// IPv4. Returns `otherwise` for connections from this machine and through Unix sockets, which many clients share.
std::uint64_t client_key(const sockaddr& peer, std::uint64_t otherwise);

}  // namespace millrace::server::http
