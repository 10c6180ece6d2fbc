// Drives all connections on one thread with epoll. Requests are composed before the run, so that the run
// measures the server rather than the client.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>

#include "tools/clients/tls_client.hpp"
#include "tools/load/channel.hpp"
#include "tools/load/response.hpp"
#include "tools/load/run.hpp"

namespace millrace::load {
namespace {

/// How often deadlines are checked, and how long to wait before reconnecting a lost connection.
constexpr auto kTick = std::chrono::milliseconds(20);

enum class State { kDown, kConnecting, kShaking, kIdle, kSending, kReceiving };

struct Connection {
  Channel channel;
  State state = State::kDown;
  bool waits_for_room = false;  // registered with epoll for EPOLLOUT
  Slot slot;
  const std::string* request = nullptr;
  std::size_t written = 0;
  ResponseReader reader;
  Clock::time_point deadline{};  // of connecting or of the request; in state kDown: when to reconnect
};

class HttpRun {
 public:
  HttpRun(std::span<const std::string> requests, const Settings& settings)
      : requests_(requests), settings_(settings), connections_(settings.connections) {}

  Status open(const Address& address) {
    host_ = address.url.host;
    if (address.url.scheme == clients::Url::Scheme::kHttps) {
      MILLRACE_ASSIGN(tls_, clients::tls_context(address.access));
      ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    }
    MILLRACE_TRY(find(address.url));
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (epoll_.get() < 0 || timer_.get() < 0)
      return Error(ErrorCode::kEnvironment, std::string("no descriptors: ") + std::strerror(errno));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
    return connect_all();
  }

  Tally run() {
    ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    schedule_.emplace(Clock::now(), settings_.warmup, settings_.duration, settings_.rate);
    auto tick = Clock::now() + kTick;
    std::optional<Slot> next;
    while (true) {
      auto now = Clock::now();
      while (!idle_.empty()) {
        if (!next) next = schedule_->take(now);
        if (!next || next->intended > now) break;
        Connection& connection = *idle_.front();
        idle_.pop_front();
        begin(connection, *next, now);
        next.reset();
        now = Clock::now();
      }
      if (next && now >= schedule_->end()) {
        tally_.failed("unsent");
        next.reset();
      }
      if (!next && busy_ == 0 && schedule_->over(now)) break;
      wait(next && !idle_.empty() ? next->intended : tick);
      if (now = Clock::now(); now >= tick) {
        tick = now + kTick;
        look_at_deadlines(now);
      }
    }
    tally_.finish(*schedule_);
    return std::move(tally_);
  }

 private:
  // The functions below open connections.

  Status find(const clients::Url& url) {
    if (url.scheme == clients::Url::Scheme::kUnix) {
      sockaddr_un path{};
      path.sun_family = AF_UNIX;
      assert(url.path.size() < sizeof path.sun_path);  // parse_url() has checked the length
      url.path.copy(path.sun_path, sizeof path.sun_path - 1);
      address_bytes_ = sizeof path;
      std::memcpy(&address_, &path, sizeof path);
      return {};
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0)
      return Error(ErrorCode::kUnavailable, "cannot resolve " + url.host + ": " + ::gai_strerror(error));
    const bool chosen = choose(found);
    ::freeaddrinfo(found);
    if (chosen) return {};
    return Error(ErrorCode::kUnavailable,
                 "cannot connect to " + clients::to_string(url) + ": " + std::strerror(errno));
  }

  /// Chooses the first of the host's addresses at which a server accepts connections.
  bool choose(const addrinfo* found) {
    for (; found != nullptr; found = found->ai_next) {
      const Descriptor probe(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (probe.get() < 0 || ::connect(probe.get(), found->ai_addr, found->ai_addrlen) != 0) continue;
      address_bytes_ = found->ai_addrlen;
      std::memcpy(&address_, found->ai_addr, address_bytes_);
      return true;
    }
    return false;
  }

  Status connect_all() {
    const auto end = Clock::now() + settings_.timeout;
    for (Connection& connection : connections_) {
      if (connect(connection, Clock::now())) continue;
      const bool descriptors = errno == EMFILE || errno == ENFILE;
      return Error(descriptors ? ErrorCode::kEnvironment : ErrorCode::kUnavailable,
                   "cannot make " + std::to_string(connections_.size()) +
                       " connections: " + std::strerror(errno) +
                       (descriptors ? "; raise the limit (ulimit -n) or use fewer connections" : ""));
    }
    while (idle_.size() < connections_.size()) {
      wait(Clock::now() + kTick);
      if (lost_ > 0 || Clock::now() > end)
        return Error(ErrorCode::kUnavailable, "only " + std::to_string(idle_.size()) + " of " +
                                                  std::to_string(connections_.size()) +
                                                  " connections could be made");
    }
    return {};
  }

  /// Starts to connect. Returns false, with errno set, if connecting fails at once.
  bool connect(Connection& connection, Clock::time_point now) {
    const int fd = ::socket(address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    connection.channel.open(fd, tls_.get(), host_);
    const int on = 1;
    if (address_.ss_family != AF_UNIX) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address_), address_bytes_) != 0 &&
        errno != EINPROGRESS)
      return false;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT;
    event.data.ptr = &connection;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return false;
    connection.waits_for_room = true;
    connection.state = State::kConnecting;
    connection.deadline = now + settings_.timeout;
    return true;
  }

  void connected(Connection& connection) {
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(connection.channel.socket(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return lose(connection);
    if (connection.channel.secure()) {
      connection.state = State::kShaking;
      return shake(connection);
    }
    watch_for_room(connection, false);
    rest(connection);
  }

  void shake(Connection& connection) {
    const Channel::Outcome outcome = connection.channel.handshake();
    if (outcome == Channel::Outcome::kClosed) return lose(connection);
    watch_for_room(connection, outcome == Channel::Outcome::kWantsWrite);
    if (outcome == Channel::Outcome::kDone) rest(connection);
  }

  void rest(Connection& connection) {
    connection.state = State::kIdle;
    idle_.push_back(&connection);
  }

  void lose(Connection& connection) {
    ++lost_;
    if (connection.state == State::kIdle) std::erase(idle_, &connection);
    connection.channel.close();
    connection.state = State::kDown;
    connection.deadline = Clock::now() + kTick;
  }

  void watch_for_room(Connection& connection, bool wanted) {
    if (connection.waits_for_room == wanted) return;
    connection.waits_for_room = wanted;
    epoll_event event{};
    event.events = EPOLLIN | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.channel.socket(), &event);
  }

  // The functions below send requests and receive responses.

  void begin(Connection& connection, const Slot& slot, Clock::time_point now) {
    ++busy_;
    tally_.sent(slot, now);
    connection.slot = slot;
    connection.request = &requests_[slot.index % requests_.size()];
    connection.written = 0;
    connection.reader.reset();
    connection.deadline = now + settings_.timeout;
    connection.state = State::kSending;
    send(connection);
  }

  void send(Connection& connection) {
    const std::string& request = *connection.request;
    while (connection.written < request.size()) {
      std::size_t n = 0;
      const auto outcome = connection.channel.write(std::string_view(request).substr(connection.written), n);
      if (outcome == Channel::Outcome::kClosed)
        break;  // the server may have sent an answer (413, 429) before it closed, so read it
      if (outcome != Channel::Outcome::kDone) return watch_for_room(connection, true);
      connection.written += n;
    }
    watch_for_room(connection, false);
    connection.state = State::kReceiving;
  }

  void receive(Connection& connection) {
    do {
      std::size_t n = 0;
      const auto outcome = connection.channel.read(room_, n);
      if (outcome == Channel::Outcome::kWantsRead || outcome == Channel::Outcome::kWantsWrite) return;
      if (connection.state == State::kIdle) return lose(connection);
      if (outcome == Channel::Outcome::kClosed) return fail(connection, "connection");
      switch (connection.reader.feed({room_.data(), n})) {
        case ResponseReader::State::kMore:
          break;
        case ResponseReader::State::kMalformed:
          return fail(connection, "protocol");
        case ResponseReader::State::kDone:
          return finish(connection);
      }
    } while (connection.channel.holds_bytes());
  }

  void finish(Connection& connection) {
    --busy_;
    if (connection.reader.status() == 200)
      tally_.succeeded(connection.slot, Clock::now());
    else
      tally_.failed(std::to_string(connection.reader.status()));
    if (!connection.reader.closes() && connection.state != State::kSending) return rest(connection);
    if (!connect(connection, Clock::now())) lose(connection);
  }

  void fail(Connection& connection, const char* why) {
    --busy_;
    tally_.failed(why);
    lose(connection);
  }

  // The functions below wait for events.

  void wait(Clock::time_point until) {
    if (until != armed_) {
      armed_ = until;
      const auto ns = std::max<std::int64_t>(
          1, std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count());
      itimerspec when{};
      when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
      ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
    }
    std::array<epoll_event, 128> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) handle(events[static_cast<std::size_t>(i)]);
  }

  void handle(const epoll_event& event) {
    if (event.data.ptr == nullptr) {
      std::uint64_t ignored = 0;
      if (::read(timer_.get(), &ignored, sizeof ignored) < 0) return;
      armed_ = {};
      return;
    }
    auto& connection = *static_cast<Connection*>(event.data.ptr);
    if (connection.state == State::kConnecting) return connected(connection);
    if (connection.state == State::kShaking) return shake(connection);
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive(connection);
    if (connection.state == State::kSending && (event.events & EPOLLOUT) != 0) send(connection);
  }

  void look_at_deadlines(Clock::time_point now) {
    for (Connection& connection : connections_) {
      if (connection.state == State::kIdle || now < connection.deadline) continue;
      if (connection.state == State::kDown) {
        if (!connect(connection, now)) lose(connection);
      } else if (connection.state == State::kConnecting || connection.state == State::kShaking) {
        lose(connection);
      } else {
        fail(connection, "timeout");
      }
    }
  }

  std::span<const std::string> requests_;
  const Settings& settings_;
  std::string host_;
  std::shared_ptr<ssl_ctx_st> tls_;  // null: no TLS
  Descriptor epoll_, timer_;         // destroyed after the connections that they watch
  sockaddr_storage address_{};
  socklen_t address_bytes_ = 0;
  std::vector<Connection> connections_;
  std::deque<Connection*> idle_;
  std::uint32_t busy_ = 0;
  std::uint64_t lost_ = 0;
  std::optional<Schedule> schedule_;
  Clock::time_point armed_{};  // the time to which the timer is set
  std::array<char, 65536> room_{};
  Tally tally_;
};

}  // namespace

Result<Tally> run_http(const Address& address, std::span<const std::string> requests,
                       const Settings& settings) {
  const auto run = std::make_unique<HttpRun>(requests, settings);
  MILLRACE_TRY(run->open(address));
  return run->run();
}

}  // namespace millrace::load
