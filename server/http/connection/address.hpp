// Parses the addresses in settings and in the Host header of requests.
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

/// Parses HOST:PORT: "127.0.0.1:8000", "localhost:0" or "[::1]:8000". Error messages begin with `what`, the name of the
/// setting ("--http").
Result<HostPort> parse_host_port(std::string_view text, std::string_view what);

/// Whether `text` is a valid value of the Host header: HOST or HOST:PORT, where HOST is a name, an IPv4 address, or
/// an address in brackets (RFC 9110, 7.2). HOST is empty for targets without a host.
bool is_host(std::string_view text);

struct UnixPath {
  std::string path;
};

/// A listening socket that the service manager passed to this process. `name` is systemd's FileDescriptorName=.
struct Passed {
  std::string name;
};

struct ListenAddress {
  std::variant<HostPort, UnixPath, Passed> at = HostPort{"127.0.0.1", 0};
  bool tls = false;
  bool admin = false;  // the listener answers admin routes
};

/// Parses "HOST:PORT", "unix:PATH" or "systemd:NAME", each with an optional prefix "tls:". Error messages begin with
/// `what`, the name of the setting.
Result<ListenAddress> parse_listen_address(std::string_view text, std::string_view what);

/// Returns the address as text that parse_listen_address() can parse.
std::string to_string(const ListenAddress& address);

}  // namespace millrace::server::http
