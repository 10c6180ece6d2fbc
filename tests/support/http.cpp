#include "tests/support/http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace millrace::tests {
namespace {

constexpr std::string_view kUnix = "unix:";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void parse_head(const std::string& head, HttpResponse& response) {
  response.status = std::atoi(head.c_str() + 9);
  for (std::size_t at = head.find("\r\n"); at != std::string::npos;) {
    const std::size_t next = head.find("\r\n", at + 2);
    const std::string line = head.substr(at + 2, next == std::string::npos ? next : next - at - 2);
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos)
      response.headers[lower(line.substr(0, colon))] = line.substr(line.find_first_not_of(' ', colon + 1));
    at = next;
  }
}

}  // namespace

HttpConnection::HttpConnection(std::uint16_t port, std::chrono::seconds limit)
    : HttpConnection("127.0.0.1:" + std::to_string(port), limit) {
  if (connected_) return;
  close();
  throw std::runtime_error("cannot connect to port " + std::to_string(port));
}

HttpConnection::HttpConnection(const std::string& address, std::chrono::seconds limit) {
  const bool local = address.starts_with(kUnix);
  fd_ = ::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  if (local) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof to.sun_path - 1, kUnix.size());
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  } else {
    const auto colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  const timeval timeout{static_cast<time_t>(limit.count()), 0};
  const int on = 1;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

HttpConnection::~HttpConnection() {
  close();
}

HttpConnection::HttpConnection(HttpConnection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      connected_(other.connected_),
      timed_out_(other.timed_out_),
      buffered_(std::move(other.buffered_)) {}

HttpConnection& HttpConnection::operator=(HttpConnection&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(connected_, other.connected_);
  std::swap(timed_out_, other.timed_out_);
  buffered_.swap(other.buffered_);
  return *this;
}

bool HttpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void HttpConnection::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

void HttpConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool HttpConnection::read_more() {
  char bytes[65536];
  ssize_t n = 0;
  do n = ::recv(fd_, bytes, sizeof bytes, 0);
  while (n < 0 && errno == EINTR);  // interrupted, for example by SIGSTOP and SIGCONT
  timed_out_ = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  if (n > 0) buffered_.append(bytes, static_cast<std::size_t>(n));
  return n > 0;
}

bool HttpConnection::closed_by_server() {
  return buffered_.empty() && !read_more() && !timed_out_;
}

std::optional<HttpResponse> HttpConnection::receive() {
  return receive(true);
}

std::optional<HttpResponse> HttpConnection::receive_head() {
  return receive(false);
}

std::optional<HttpResponse> HttpConnection::receive(bool with_body) {
  std::size_t end = 0;
  while ((end = buffered_.find("\r\n\r\n")) == std::string::npos)
    if (!read_more()) return std::nullopt;

  HttpResponse response;
  response.head = buffered_.substr(0, end + 4);
  if (!response.head.starts_with("HTTP/1.")) return std::nullopt;
  parse_head(response.head.substr(0, end), response);
  const auto length = response.headers.find("content-length");
  const std::size_t body =
      length == response.headers.end() || !with_body ? 0 : std::strtoull(length->second.c_str(), nullptr, 10);
  while (buffered_.size() < end + 4 + body)
    if (!read_more()) return std::nullopt;
  response.body = buffered_.substr(end + 4, body);
  buffered_.erase(0, end + 4 + body);
  if (buffered_.empty()) std::string().swap(buffered_);  // free the buffer, because some tests measure memory
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

std::string get(std::string_view target, std::string_view headers) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n" + std::string(headers) + "\r\n";
}

std::string post(std::string_view target, std::string_view body, std::string_view headers) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace millrace::tests
