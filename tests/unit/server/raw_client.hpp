// A client that sends exactly the bytes a test wrote, and reads whole answers.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::server::test {

struct Answer {
  int status = 0;                              // 0: the connection closed before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string head;  // status line and headers as received
};

class RawClient {
 public:
  /// `address`: "127.0.0.1:43211".
  explicit RawClient(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), buffer_(std::move(other.buffer_)) {}
  RawClient& operator=(RawClient&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(connected_, other.connected_);
    std::swap(timed_out_, other.timed_out_);
    buffer_.swap(other.buffer_);
    return *this;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// One answer; status 0 where the connection ended first.
  Answer receive() {
    Answer answer;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return answer;
    answer.head = buffer_.substr(0, end + 4);
    parse_head(answer);
    std::size_t length = 0;
    if (const auto found = answer.headers.find("content-length"); found != answer.headers.end())
      length = std::stoul(found->second);
    while (buffer_.size() < end + 4 + length)
      if (!more()) return {};
    answer.body = buffer_.substr(end + 4, length);
    buffer_.erase(0, end + 4 + length);
    return answer;
  }

  Answer exchange(std::string_view bytes) {
    send(bytes);
    return receive();
  }

  /// True where the server closes without sending more.
  bool closed_by_server() { return buffer_.empty() && !more() && buffer_.empty() && !timed_out_; }

  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  bool more() {
    char chunk[65536];
    const ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
    timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<std::size_t>(got));
    return true;
  }

  static void parse_head(Answer& answer) {
    std::string_view rest = answer.head;
    bool first = true;
    while (!rest.empty()) {
      const auto end = rest.find("\r\n");
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 2);
      if (line.empty()) return;
      if (std::exchange(first, false)) {
        answer.status = std::stoi(std::string(line.substr(9, 3)));
        continue;
      }
      const auto colon = line.find(": ");
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      answer.headers[name] = line.substr(colon + 2);
    }
  }

  int fd_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string buffer_;
};

inline std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}

inline std::string post(std::string_view target, std::string_view body, std::string_view headers = {}) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// The bytes of values, as they travel.
template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

}  // namespace millrace::server::test
