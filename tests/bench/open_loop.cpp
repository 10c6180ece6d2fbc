#include "open_loop.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace millrace::bench {

struct OpenLoop::Connection {
  int socket = -1;
  bool busy = false;
  Clock::time_point due;
  std::uint32_t request = 0;
  std::string received;
};

namespace {

constexpr std::string_view kLength = "Content-Length: ";

}  // namespace

OpenLoop::OpenLoop(std::uint16_t port, std::vector<std::string> requests, std::uint32_t connections,
                   OnResult on_result)
    : port_(port),
      requests_(std::move(requests)),
      on_result_(std::move(on_result)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      connections_(connections) {
  for (std::uint32_t i = connections; i-- > 0;) {
    if (!connect(connections_[i])) throw std::runtime_error("cannot connect");
    free_.push_back(i);
  }
}

OpenLoop::~OpenLoop() {
  for (const Connection& connection : connections_)
    if (connection.socket >= 0) ::close(connection.socket);
  ::close(poll_);
}

bool OpenLoop::connect(Connection& connection) {
  if (connection.socket >= 0) ::close(connection.socket);
  connection.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection.socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  const int on = 1;
  ::setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<std::uint32_t>(&connection - connections_.data());
  return ::epoll_ctl(poll_, EPOLL_CTL_ADD, connection.socket, &event) == 0;
}

void OpenLoop::send(Connection& connection, Clock::time_point due) {
  connection.busy = true;
  connection.due = due;
  connection.request = static_cast<std::uint32_t>(sent_++ % requests_.size());
  connection.received.clear();
  // A whole request fits into the socket's buffer, so one send() suffices.
  const std::string& request = requests_[connection.request];
  if (::send(connection.socket, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    finish(connection, 0, {});
}

void OpenLoop::finish(Connection& connection, int status, std::string_view body) {
  connection.busy = false;
  on_result_({connection.due, Clock::now(), connection.request, status, body});
  if (status == 0 && !connect(connection)) throw std::runtime_error("the server is gone");
  free_.push_back(static_cast<std::uint32_t>(&connection - connections_.data()));
}

void OpenLoop::readable(Connection& connection) {
  std::array<char, 16384> part;
  const ssize_t got = ::recv(connection.socket, part.data(), part.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (!connection.busy) return static_cast<void>(connect(connection));  // the server closed it while idle
  if (got <= 0) return finish(connection, 0, {});
  std::string& all = connection.received;
  all.append(part.data(), static_cast<std::size_t>(got));
  const auto head = all.find("\r\n\r\n");
  if (head == std::string::npos) return;
  const auto at = all.find(kLength);
  const std::size_t length =
      at < head ? static_cast<std::size_t>(std::atoll(all.c_str() + at + kLength.size())) : 0;
  if (all.size() < head + 4 + length) return;
  finish(connection, std::atoi(all.c_str() + 9), std::string_view(all).substr(head + 4, length));
}

void OpenLoop::wait(std::chrono::milliseconds bound) {
  std::array<epoll_event, 256> events;
  const int count = ::epoll_wait(poll_, events.data(), events.size(), static_cast<int>(bound.count()));
  for (int i = 0; i < count; ++i) readable(connections_[events[static_cast<std::size_t>(i)].data.u32]);
}

std::uint64_t OpenLoop::run(double per_second, std::chrono::milliseconds duration) {
  const auto begin = Clock::now(), end = begin + duration;
  const std::uint64_t before = sent_;
  for (auto now = begin; now < end; now = Clock::now()) {
    Clock::time_point due = now;
    while (!free_.empty()) {
      if (per_second > 0)
        due = begin + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(static_cast<double>(sent_ - before) / per_second));
      if (due > now || due >= end) break;
      const std::uint32_t next = free_.back();
      free_.pop_back();
      send(connections_[next], due);
    }
    const auto idle = due > now && !free_.empty() ? due - now : std::chrono::milliseconds(10);
    wait(
        std::min(std::chrono::duration_cast<std::chrono::milliseconds>(idle), std::chrono::milliseconds(10)));
  }
  const auto patience = Clock::now() + std::chrono::seconds(60);
  while (free_.size() < connections_.size() && Clock::now() < patience) wait(std::chrono::milliseconds(10));
  return sent_ - before;
}

}  // namespace millrace::bench
