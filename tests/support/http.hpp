// A blocking HTTP/1.1 client on a bare socket: says exactly the bytes a test wants said, and nothing clever.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::tests {

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string head;  // status line and headers as received
};

class HttpConnection {
 public:
  /// Connects to 127.0.0.1; `limit` bounds every later read. Throws std::runtime_error.
  explicit HttpConnection(std::uint16_t port, std::chrono::seconds limit = std::chrono::seconds(30));
  /// "127.0.0.1:43211" or "unix:/run/millrace.sock"; connected() says whether it succeeded.
  explicit HttpConnection(const std::string& address, std::chrono::seconds limit = std::chrono::seconds(30));
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept;
  HttpConnection& operator=(HttpConnection&& other) noexcept;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return connected_; }

  /// False where the other side takes no more.
  bool send(std::string_view bytes);
  /// The next response; nothing where the connection ended, the limit passed, or it is not HTTP with a
  /// Content-Length.
  std::optional<HttpResponse> receive();
  /// The answer to a HEAD: it has no body, whatever its Content-Length says.
  std::optional<HttpResponse> receive_head();
  /// True where the other side closes without sending more.
  bool closed_by_server();
  /// Nothing more will be sent.
  void half_close();
  void close();

  /// One request and its answer. `headers` are full lines, each ending in "\r\n".
  std::optional<HttpResponse> request(std::string_view method, std::string_view target,
                                      std::string_view body = {}, std::string_view headers = {});

 private:
  bool read_more();
  std::optional<HttpResponse> receive(bool with_body);

  int fd_ = -1;
  bool connected_ = false, timed_out_ = false;
  std::string buffered_;
};

/// Requests as bytes.
std::string get(std::string_view target, std::string_view headers = {});
std::string post(std::string_view target, std::string_view body, std::string_view headers = {});

/// The bytes of values, as they travel.
template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

}  // namespace millrace::tests
