// A blocking HTTP/1.1 client on a bare socket: says exactly the bytes a test wants said, and nothing clever.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::tests {

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class HttpConnection {
 public:
  /// Connects to 127.0.0.1; `limit` bounds every later read. Throws std::runtime_error.
  explicit HttpConnection(std::uint16_t port, std::chrono::seconds limit = std::chrono::seconds(30));
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void send(std::string_view bytes);
  /// The next response; nothing where the connection ended, the limit passed, or it is not HTTP with a
  /// Content-Length.
  std::optional<HttpResponse> receive();
  /// Nothing more will be sent.
  void half_close();

  /// One request and its answer. `headers` are full lines, each ending in "\r\n".
  std::optional<HttpResponse> request(std::string_view method, std::string_view target,
                                      std::string_view body = {}, std::string_view headers = {});

 private:
  int fd_ = -1;
  std::string buffered_;
};

}  // namespace millrace::tests
