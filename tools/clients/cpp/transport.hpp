// Functions that the HTTP client and the UDP client share. Not part of the public interface.
#pragma once

#include <string>

#include "millrace/client.hpp"

namespace millrace::client {

struct HostPort {
  std::string host, port;
};

/// Connects over HTTP. `url` must not be a udp URL.
Status connect_http(const std::string& url, const Options& options, std::unique_ptr<Client>& out);
Status connect_udp(const HostPort& at, const Options& options, std::unique_ptr<Client>& out);

using Clock = std::chrono::steady_clock;

}  // namespace millrace::client
