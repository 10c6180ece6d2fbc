#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "transport.hpp"

namespace millrace::client {
namespace {

std::uint64_t element_bytes(std::string_view datatype) {
  static constexpr std::array<std::pair<std::string_view, std::uint64_t>, 13> kSizes{{{"BOOL", 1},
                                                                                      {"UINT8", 1},
                                                                                      {"UINT16", 2},
                                                                                      {"UINT32", 4},
                                                                                      {"UINT64", 8},
                                                                                      {"INT8", 1},
                                                                                      {"INT16", 2},
                                                                                      {"INT32", 4},
                                                                                      {"INT64", 8},
                                                                                      {"FP16", 2},
                                                                                      {"FP32", 4},
                                                                                      {"FP64", 8},
                                                                                      {"BF16", 2}}};
  for (const auto& [name, bytes] : kSizes)
    if (name == datatype) return bytes;
  return 0;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::uint64_t TensorInfo::bytes() const {
  std::uint64_t bytes = element_bytes(datatype);
  for (const std::int64_t n : shape) {
    if (n <= 0 || bytes > std::numeric_limits<std::uint64_t>::max() / static_cast<std::uint64_t>(n)) return 0;
    bytes *= static_cast<std::uint64_t>(n);
  }
  return bytes;
}

namespace {

Status parse_udp(const std::string& text, std::string_view rest, HostPort& out) {
  const auto bad = [&](const char* why) { return Status{Code::kInvalid, "URL '" + text + "': " + why}; };
  if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad("HOST:PORT is missing");
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  unsigned number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size() || number == 0 || number > 65535)
    return bad("the port must be 1 to 65535");
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return bad("an IPv6 address must stand in brackets");
  out.host = host;
  out.port = port;
  return {};
}

}  // namespace

Status connect(const std::string& url, const Options& options, std::unique_ptr<Client>& out) {
  std::string_view rest = url;
  if (!take(rest, "udp://")) return connect_http(url, options, out);
  HostPort at;
  if (Status s = parse_udp(url, rest, at); !s.ok()) return s;
  return connect_udp(at, options, out);
}

}  // namespace millrace::client
