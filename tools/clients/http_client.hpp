// A blocking HTTP client for the commands that talk to a server. Keeps one connection open and limits every wait.
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
  std::string path = {};  // for kUnix only
};

/// Parses "http://HOST[:PORT]" or "https://HOST[:PORT]" (default port 8000; HOST can be an IPv6 address in brackets),
/// or "unix:PATH" (HTTP through a Unix socket). Returns kUnsupported for udp, and kInvalidInput for anything else,
/// including a path after the host. `udp` says whether the caller accepts "udp://" URLs and only affects messages.
enum class Udp { kNotTaken, kTakenByCaller };
Result<Url> parse_url(std::string_view text, Udp udp = Udp::kNotTaken);

/// Returns the URL as text that parse_url() accepts.
std::string to_string(const Url& url);

/// Returns the value of the Host header for requests to the URL.
std::string host_header(const Url& url);

/// A client's credentials, and the certificates that it trusts.
struct Access {
  std::string ca_file = {};  // PEM file, for https; empty: the system's certificates
  bool verify = true;        // false: accept any certificate
  std::string token = {};    // sent as "Authorization: Bearer" unless empty
};

/// Returns kInvalidInput if the token has characters that server/auth does not allow, as they could break the header.
Status check_token(std::string_view token);

/// Percent-encodes a path segment for a request's target.
std::string percent_encoded(std::string_view segment);

class HttpClient {
 public:
  struct Answer {
    unsigned status = 0;
    std::string body;
    std::optional<std::size_t> inference_header_length;
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// Connects within `timeout`, which also limits every later exchange. Returns kUnavailable if no server answers,
  /// kEnvironment if the server's certificate is rejected, and kInvalidInput or kNotFound if token or CA file are
  /// unusable.
  static Result<std::unique_ptr<HttpClient>> connect(const Url& url, std::chrono::milliseconds timeout,
                                                     const Access& access = {});
  virtual ~HttpClient() = default;

  /// Sets the time limit of later exchanges.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  /// Sends a request and returns the answer, whatever its status. If the server has closed the kept connection,
  /// connects again once. Returns kUnavailable if the connection breaks, and kDeadlineExceeded after the timeout.
  virtual Result<Answer> get(std::string_view target) = 0;
  virtual Result<Answer> post(std::string_view target, std::span<const std::byte> body,
                              const Headers& headers = {}) = 0;
};

}  // namespace millrace::clients
