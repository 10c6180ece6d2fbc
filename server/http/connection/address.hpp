// Where a server can be reached, as it is written in settings and in requests.
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

/// "127.0.0.1:8000", "localhost:0", "[::1]:8000". kInvalidInput names `what` ("--http") and the form
/// expected.
Result<HostPort> parse_host_port(std::string_view text, std::string_view what);

/// Whether a request's header Host may say this: HOST or HOST:PORT, the host a name, an IPv4 address or one
/// in brackets (RFC 9110, 7.2). Also nothing at all, for targets without a host.
bool is_host(std::string_view text);

struct UnixPath {
  std::string path;
};

/// A listening socket that the service manager passed (systemd's FileDescriptorName=).
struct Passed {
  std::string name;
};

struct ListenAddress {
  std::variant<HostPort, UnixPath, Passed> at = HostPort{"127.0.0.1", 0};
  bool tls = false;
  bool admin = false;  // the listener for admin routes
};

/// "HOST:PORT", "unix:PATH", "systemd:NAME", each also with "tls:" before it. kInvalidInput names `what`.
Result<ListenAddress> parse_listen_address(std::string_view text, std::string_view what);

/// As it was written.
std::string to_string(const ListenAddress& address);

}  // namespace millrace::server::http
