#include "tests/support/http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace millrace::tests {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

HttpConnection::HttpConnection(std::uint16_t port, std::chrono::seconds limit) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd_ < 0 || ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  const timeval timeout{static_cast<time_t>(limit.count()), 0};
  const int on = 1;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

HttpConnection::~HttpConnection() {
  ::close(fd_);
}

void HttpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // the answer, or its absence, tells
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void HttpConnection::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

std::optional<HttpResponse> HttpConnection::receive() {
  const auto read_more = [this] {
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) buffered_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  };
  std::size_t end = 0;
  while ((end = buffered_.find("\r\n\r\n")) == std::string::npos)
    if (!read_more()) return std::nullopt;

  HttpResponse response;
  const std::string head = buffered_.substr(0, end);
  if (!head.starts_with("HTTP/1.1 ")) return std::nullopt;
  response.status = std::atoi(head.c_str() + 9);
  for (std::size_t at = head.find("\r\n"); at != std::string::npos;) {
    const std::size_t next = head.find("\r\n", at + 2);
    const std::string line = head.substr(at + 2, next == std::string::npos ? next : next - at - 2);
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos)
      response.headers[lower(line.substr(0, colon))] = line.substr(line.find_first_not_of(' ', colon + 1));
    at = next;
  }
  const auto length = response.headers.find("content-length");
  const std::size_t body =
      length == response.headers.end() ? 0 : std::strtoull(length->second.c_str(), nullptr, 10);
  while (buffered_.size() < end + 4 + body)
    if (!read_more()) return std::nullopt;
  response.body = buffered_.substr(end + 4, body);
  buffered_.erase(0, end + 4 + body);
  return response;
}

std::optional<HttpResponse> HttpConnection::request(std::string_view method, std::string_view target,
                                                    std::string_view body, std::string_view headers) {
  std::string text;
  text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: localhost\r\n").append(headers);
  if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text.append("\r\n").append(body);
  send(text);
  return receive();
}

}  // namespace millrace::tests
