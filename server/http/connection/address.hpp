// Addresses as settings and requests write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/result.hpp"

namespace millrace::server::http {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

/// Reads "127.0.0.1:8000", "localhost:0", "[::1]:8000". kInvalidInput names `what` ("--http") and the expected
/// form.
Result<HostPort> parse_host_port(std::string_view text, std::string_view what);

/// Whether the header Host of a request may hold `text`: HOST or HOST:PORT, where HOST is a name, an IPv4
/// address, or an address in brackets (RFC 9110, 7.2). It may also be empty, for targets without a host.
bool is_host(std::string_view text);

struct UnixPath {
  std::string path;
};

/// A listening socket that the service manager passed; `name` is systemd's FileDescriptorName=.
struct Passed {
  std::string name;
};

struct ListenAddress {
  std::variant<HostPort, UnixPath, Passed> at = HostPort{"127.0.0.1", 0};
  bool tls = false;
  bool admin = false;  // a listener for admin routes
};

/// Reads "HOST:PORT", "unix:PATH" or "systemd:NAME", each also with "tls:" in front. kInvalidInput names `what`.
Result<ListenAddress> parse_listen_address(std::string_view text, std::string_view what);

/// The text that parse_listen_address() reads.
std::string to_string(const ListenAddress& address);

}  // namespace millrace::server::http
