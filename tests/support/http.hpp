// A blocking HTTP/1.1 client on a bare socket that sends exactly the bytes that the test passes to it.
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
  std::map<std::string, std::string> headers;  // by name in lower case
  std::string body;
  std::string head;  // the status line and the headers as received
};

class HttpConnection {
 public:
  /// Connects to 127.0.0.1. Every later read fails after `limit`. Throws std::runtime_error if it cannot connect.
  explicit HttpConnection(std::uint16_t port, std::chrono::seconds limit = std::chrono::seconds(30));
  /// Tries to connect to `address`, such as "127.0.0.1:43211" or "unix:/run/millrace.sock". Then check connected().
  explicit HttpConnection(const std::string& address, std::chrono::seconds limit = std::chrono::seconds(30));
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept;
  HttpConnection& operator=(HttpConnection&& other) noexcept;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return connected_; }

  /// Sends the bytes. Returns false if the server accepts no more bytes.
  bool send(std::string_view bytes);
  /// Waits for the next response. Returns nullopt if the connection ends, the time limit passes, or the response is not
  /// HTTP with a Content-Length.
  std::optional<HttpResponse> receive();
  /// Waits for the response to a HEAD request, which has no body even if it has a Content-Length.
  std::optional<HttpResponse> receive_head();
  /// Waits, and returns true if the server closes the connection without sending more.
  bool closed_by_server();
  /// Shuts down the sending direction; responses can still be received.
  void half_close();
  void close();

  /// Sends one request and returns the response. `headers` are whole lines, each of which ends in "\r\n".
  std::optional<HttpResponse> request(std::string_view method, std::string_view target,
                                      std::string_view body = {}, std::string_view headers = {});

 private:
  bool read_more();
  std::optional<HttpResponse> receive(bool with_body);

  int fd_ = -1;
  bool connected_ = false, timed_out_ = false;
  std::string buffered_;
};

/// Returns the bytes of a GET or POST request.
std::string get(std::string_view target, std::string_view headers = {});
std::string post(std::string_view target, std::string_view body, std::string_view headers = {});

/// Returns the values in the binary form that a request contains.
template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

}  // namespace millrace::tests
