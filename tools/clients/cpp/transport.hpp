// What the two transports share. Not public.
#pragma once

#include <string>

#include "millrace/client.hpp"

namespace millrace::client {

struct Url {
  enum class Scheme { kHttp, kUdp } scheme = Scheme::kHttp;
  std::string host;
  std::string port;
};
Status parse_url(const std::string& text, Url& out);

Status connect_http(const Url& url, const Options& options, std::unique_ptr<Client>& out);
Status connect_udp(const Url& url, const Options& options, std::unique_ptr<Client>& out);

using Clock = std::chrono::steady_clock;

}  // namespace millrace::client
