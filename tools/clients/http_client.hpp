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
  std::string host, port;
};

/// "http://HOST[:PORT]", port 8000 where none is given; HOST may be an IPv6 address in brackets.
/// kInvalidInput for anything else, a path included; kUnsupported for https, unix and udp.
Result<Url> parse_url(std::string_view text);

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

  /// Connects within `timeout`, which also bounds every later exchange. kUnavailable where nobody answers.
  static Result<std::unique_ptr<HttpClient>> connect(const Url& url, std::chrono::milliseconds timeout);
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
