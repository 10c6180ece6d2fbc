#include "server/http/connection/address.hpp"

#include <sys/un.h>

#include <algorithm>
#include <boost/url/authority_view.hpp>
#include <charconv>

namespace millrace::server::http {
namespace {

constexpr std::string_view kTls = "tls:", kUnix = "unix:", kSystemd = "systemd:";
constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::string_view what) {
  const auto bad = [&] {
    return Error(ErrorCode::kInvalidInput,
                 std::string(what) + " '" + std::string(text.substr(0, 200)) +
                     "' is not HOST:PORT; examples: 127.0.0.1:8000, localhost:0, [::1]:8000");
  };
  const auto parsed = boost::urls::parse_authority({text.data(), text.size()});
  if (!parsed || parsed->has_userinfo() || parsed->host_address().empty() || parsed->port().empty())
    return bad();
  const std::string port(parsed->port());
  HostPort out{parsed->host_address(), 0};
  if (std::from_chars(port.data(), port.data() + port.size(), out.port).ec != std::errc()) return bad();
  return out;
}

bool is_host(std::string_view text) {
  // RFC 3986, 3.2.2 allows these characters in a host name: unreserved characters, sub-delims and
  // percent-encoded characters, and colons in brackets.
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=%";
  const bool bracketed = text.starts_with('[');
  if (bracketed) text.remove_prefix(1);
  const auto end = std::min(text.find(bracketed ? ']' : ':'), text.size());
  const auto stray = [&](char c) {
    return kLetters.find(c) == std::string_view::npos && !(bracketed && c == ':');
  };
  if (std::any_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), stray)) return false;
  text.remove_prefix(end);
  if (bracketed && (end == 0 || text.empty())) return false;
  if (bracketed) text.remove_prefix(1);
  return text.empty() ||
         (text.front() == ':' && text.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

Result<ListenAddress> parse_listen_address(std::string_view text, std::string_view what) {
  const auto bad = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput,
                 std::string(what) + " '" + std::string(text.substr(0, 200)) + "': " + why);
  };
  ListenAddress out;
  std::string_view rest = text;
  if (rest.starts_with(kTls)) {
    out.tls = true;
    rest.remove_prefix(kTls.size());
  }
  if (rest.starts_with(kUnix)) {
    rest.remove_prefix(kUnix.size());
    if (rest.empty()) return bad("unix: needs the path of the socket to create");
    if (rest.size() > kLongestPath)
      return bad("the path has " + std::to_string(rest.size()) + " bytes; a Unix socket's path has at most " +
                 std::to_string(kLongestPath) + "; choose a shorter path");
    if (rest.find('\0') != std::string_view::npos) return bad("the path contains a NUL");
    out.at = UnixPath{std::string(rest)};
    return out;
  }
  if (rest.starts_with(kSystemd)) {
    rest.remove_prefix(kSystemd.size());
    if (rest.empty()) return bad("systemd: needs the FileDescriptorName of a socket unit");
    out.at = Passed{std::string(rest)};
    return out;
  }
  MILLRACE_ASSIGN(out.at, parse_host_port(rest, what));
  return out;
}

std::string to_string(const ListenAddress& address) {
  std::string out = address.tls ? std::string(kTls) : std::string();
  if (const auto* path = std::get_if<UnixPath>(&address.at)) return out.append(kUnix) + path->path;
  if (const auto* passed = std::get_if<Passed>(&address.at)) return out.append(kSystemd) + passed->name;
  const auto& host = std::get<HostPort>(address.at);
  const bool v6 = host.host.find(':') != std::string::npos;
  return out + (v6 ? "[" + host.host + "]" : host.host) + ":" + std::to_string(host.port);
}

}  // namespace millrace::server::http
