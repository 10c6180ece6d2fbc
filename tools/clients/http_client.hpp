// A blocking HTTP client with a bound on every wait, for the commands that talk to a server. One connection,
// kept open.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::clients {

struct Url {
  enum class Scheme { kHttp, kHttps, kUnix };
  Scheme scheme = Scheme::kHttp;
  std::string host, port;
  std::string path = {};  // kUnix
};

/// "http://HOST[:PORT]", "https://HOST[:PORT]", port 8000 where none is given; HOST may be an IPv6 address in
/// brackets. "unix:PATH": HTTP through a Unix socket. kInvalidInput for anything else, a path behind a host
/// included; kUnsupported for udp. `udp`: whether the caller itself takes "udp://" as well, for messages.
enum class Udp { kNotTaken, kTakenByCaller };
Result<Url> parse_url(std::string_view text, Udp udp = Udp::kNotTaken);

/// As parse_url() takes it.
std::string to_string(const Url& url);

/// The value of a request's Host header.
std::string host_header(const Url& url);

/// How to be let in, and whom to trust.
struct Access {
  std::string ca_file = {};  // PEM, for https; empty: those the system trusts
  bool verify = true;        // false: whoever answers is trusted
  std::string token = {};    // sent as "Authorization: Bearer", where not empty
};

/// kInvalidInput where a token has what no token has (server/auth): it must not break a header.
Status check_token(std::string_view token);

/// A path segment as it may stand in a target.
std::string percent_encoded(std::string_view segment);

class HttpClient {
 public:
  struct Answer {
    unsigned status = 0;
    std::string body;
    std::optional<std::size_t> inference_header_length;
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// Connects within `timeout`, which also bounds every later exchange. kUnavailable where nobody answers;
  /// kEnvironment where the server's certificate is not accepted; kInvalidInput, kNotFound for a token or a
  /// CA file that is none.
  static Result<std::unique_ptr<HttpClient>> connect(const Url& url, std::chrono::milliseconds timeout,
                                                     const Access& access = {});
  virtual ~HttpClient() = default;

  /// Bounds the exchanges from now on.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  /// An exchange; connects again once where the server closed the kept connection. Any status is an answer.
  /// kUnavailable where the connection breaks, kDeadlineExceeded where the time passes.
  virtual Result<Answer> get(std::string_view target) = 0;
  virtual Result<Answer> post(std::string_view target, std::span<const std::byte> body,
                              const Headers& headers = {}) = 0;
};

}  // namespace millrace::clients
