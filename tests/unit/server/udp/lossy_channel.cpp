#include "tests/unit/server/udp/lossy_channel.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <queue>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace millrace::tests {
namespace {

using Clock = std::chrono::steady_clock;

int loopback_socket(sockaddr_in& bound) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof bound;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&bound), length) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    throw std::runtime_error("lossy channel: no socket");
  const int buffer = 4 << 20;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  return fd;
}

class Channel final : public LossyChannel {
 public:
  Channel(std::uint16_t server_port, const Badness& badness, std::uint64_t seed)
      : badness_(badness), random_(seed) {
    front_ = loopback_socket(front_address_);
    server_ = front_address_;
    server_.sin_port = htons(server_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Channel() override {
    thread_.request_stop();
    thread_.join();
    ::close(front_);
    for (const auto& [port, fd] : backs_) ::close(fd);
  }

  std::uint16_t port() const override { return ntohs(front_address_.sin_port); }
  std::uint64_t lost() const override { return lost_; }
  std::uint64_t duplicated() const override { return duplicated_; }
  std::uint64_t delayed() const override { return delayed_; }
  std::uint64_t corrupted() const override { return corrupted_; }
  std::uint64_t bytes_to_server() const override { return to_server_; }
  std::uint64_t bytes_from_server() const override { return from_server_; }

 private:
  struct Held {
    Clock::time_point due;
    int fd;
    sockaddr_in to;
    std::vector<char> bytes;
    bool operator<(const Held& other) const { return due > other.due; }
  };

  bool happens(double chance) { return std::uniform_real_distribution<>(0, 1)(random_) < chance; }

  /// Counts a datagram to the server. Returns whether lose_from and lose_count require that the datagram is lost.
  bool in_the_gap() {
    const std::uint64_t index = to_server_seen_++;
    return index >= badness_.lose_from && index - badness_.lose_from < badness_.lose_count;
  }

  void pass(int fd, const sockaddr_in& to, std::vector<char> bytes) {
    if ((fd != front_ && in_the_gap()) || happens(badness_.loss)) {
      ++lost_;
      return;
    }
    if (happens(badness_.corrupt)) {
      ++corrupted_;
      bytes[random_() % bytes.size()] ^= static_cast<char>(1U << (random_() % 8));
    }
    const int copies = happens(badness_.duplicate) ? 2 : 1;
    if (copies == 2) ++duplicated_;
    for (int i = 0; i < copies; ++i) {
      if (happens(badness_.delay)) {
        ++delayed_;
        held_.push(
            {Clock::now() + std::chrono::microseconds(random_() % badness_.max_delay_us), fd, to, bytes});
      } else {
        send(fd, to, bytes);
      }
    }
  }

  void send(int fd, const sockaddr_in& to, const std::vector<char>& bytes) {
    (fd == front_ ? from_server_ : to_server_) += bytes.size();
    (void)::sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }

  int back_for(const sockaddr_in& client) {
    const auto [at, fresh] = backs_.try_emplace(client.sin_port, -1);
    if (fresh) {
      sockaddr_in ignored;
      at->second = loopback_socket(ignored);
      clients_[at->second] = client;
    }
    return at->second;
  }

  void drain(int fd) {
    char buffer[65536];
    while (true) {
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const auto n = ::recvfrom(fd, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (n <= 0) return;
      std::vector<char> bytes(buffer, buffer + n);
      if (fd == front_)
        pass(back_for(from), server_, std::move(bytes));
      else
        pass(front_, clients_.at(fd), std::move(bytes));
    }
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> wait{{front_, POLLIN, 0}};
      for (const auto& [port, fd] : backs_) wait.push_back({fd, POLLIN, 0});
      auto limit = std::chrono::nanoseconds(std::chrono::milliseconds(20));
      if (!held_.empty())
        limit = std::clamp<std::chrono::nanoseconds>(held_.top().due - Clock::now(),
                                                     std::chrono::nanoseconds(0), limit);
      const timespec time{0, limit.count()};
      ::ppoll(wait.data(), wait.size(), &time, nullptr);
      for (const pollfd& p : wait)
        if (p.revents != 0) drain(p.fd);
      while (!held_.empty() && held_.top().due <= Clock::now()) {
        send(held_.top().fd, held_.top().to, held_.top().bytes);
        held_.pop();
      }
    }
  }

  const Badness badness_;
  std::mt19937_64 random_;
  int front_ = -1;
  sockaddr_in front_address_{}, server_{};
  std::map<in_port_t, int> backs_;
  std::map<int, sockaddr_in> clients_;
  std::priority_queue<Held> held_;
  std::uint64_t to_server_seen_ = 0;
  std::atomic<std::uint64_t> lost_{0}, duplicated_{0}, delayed_{0}, corrupted_{0}, to_server_{0},
      from_server_{0};
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<LossyChannel> LossyChannel::open(std::uint16_t server_port, const Badness& badness,
                                                 std::uint64_t seed) {
  return std::make_unique<Channel>(server_port, badness, seed);
}

}  // namespace millrace::tests
