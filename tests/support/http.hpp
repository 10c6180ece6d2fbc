// A blocking HTTP/1.1 client on a bare socket that sends exactly the bytes a test gives it.
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
  /// Connects to 127.0.0.1. `limit` bounds every later read. Throws std::runtime_error.
  explicit HttpConnection(std::uint16_t port, std::chrono::seconds limit = std::chrono::seconds(30));
  /// Connects to `address`, such as "127.0.0.1:43211" or "unix:/run/millrace.sock". connected() says whether
  /// that succeeded.
  explicit HttpConnection(const std::string& address, std::chrono::seconds limit = std::chrono::seconds(30));
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept;
  HttpConnection& operator=(HttpConnection&& other) noexcept;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return connected_; }

  /// Returns false if the other side accepts no more bytes.
  bool send(std::string_view bytes);
  /// The next response; nullopt if the connection ended, the limit passed, or the answer is not HTTP with a
  /// Content-Length.
  std::optional<HttpResponse> receive();
  /// The response to a HEAD request, which has no body whatever its Content-Length.
  std::optional<HttpResponse> receive_head();
  /// Returns true if the other side closes without sending more.
  bool closed_by_server();
  /// Shuts down the sending direction.
  void half_close();
  void close();

  /// Sends one request and returns its answer. `headers` are full lines, each ending in "\r\n".
  std::optional<HttpResponse> request(std::string_view method, std::string_view target,
                                      std::string_view body = {}, std::string_view headers = {});

 private:
  bool read_more();
  std::optional<HttpResponse> receive(bool with_body);

  int fd_ = -1;
  bool connected_ = false, timed_out_ = false;
  std::string buffered_;
};

/// The bytes of a request.
std::string get(std::string_view target, std::string_view headers = {});
std::string post(std::string_view target, std::string_view body, std::string_view headers = {});

/// The bytes of values, as they are sent.
template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

}  // namespace millrace::tests
