// Compares a message over a UDP link (runtime/link) with a bare exchange of UDP datagrams of the same size, between two
// processes over loopback.
//
// The two processes are pinned to a common core, or to one core each. Each round measures in this order:
//   ping   a datagram of 4 KiB and its echo, with send(2) and recv(2) on connected sockets
//   link   a message of 4 KiB and its echo, each as one packet of a channel with 64 credits
// Prints JSON: medians in microseconds, and the median of the rounds' ratios.
//
//   bench_link [ROUNDS [ITERATIONS]]
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/link/udp_cable.hpp"

namespace {

using namespace millrace::runtime::link;

constexpr std::uint32_t kBytes = 4096, kCredits = 64, kLoopback = 0x7f000001;

void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// A child process that serves until it is killed.
class Peer {
 public:
  Peer(int core, const std::function<void()>& serve) : process_(fork()) {
    require(process_ >= 0, "fork");
    if (process_ != 0) return;
    pin(core);
    serve();
    std::exit(1);
  }
  ~Peer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

 private:
  pid_t process_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double measure(int iterations, const std::function<void()>& once) {
  for (int i = 0; i < iterations / 10; ++i) once();
  std::vector<double> times(static_cast<std::size_t>(iterations));
  for (double& time : times) {
    const auto begin = Clock::now();
    once();
    time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  return median(times);
}

/// Opens a UDP socket at any port of the loopback interface.
int open_socket(sockaddr_in& address) {
  const int file = socket(AF_INET, SOCK_DGRAM, 0);
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(kLoopback);
  socklen_t size = sizeof address;
  require(file >= 0 && bind(file, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
              getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "socket");
  return file;
}

double ping(int core, int iterations) {
  sockaddr_in near_address{}, far_address{};
  const int near_file = open_socket(near_address), far_file = open_socket(far_address);
  require(connect(near_file, reinterpret_cast<const sockaddr*>(&far_address), sizeof far_address) == 0 &&
              connect(far_file, reinterpret_cast<const sockaddr*>(&near_address), sizeof near_address) == 0,
          "connect");
  std::vector<char> bytes(kBytes);
  const Peer peer(core, [&] {
    for (;;) {
      require(recv(far_file, bytes.data(), bytes.size(), 0) == kBytes, "recv");
      require(send(far_file, bytes.data(), bytes.size(), 0) == kBytes, "send");
    }
  });
  const double result = measure(iterations, [&] {
    require(send(near_file, bytes.data(), bytes.size(), 0) == kBytes, "send");
    require(recv(near_file, bytes.data(), bytes.size(), 0) == kBytes, "recv");
  });
  close(near_file);
  close(far_file);
  return result;
}

/// One end of a cable with a channel in each direction.
struct End {
  End(std::uint16_t local, std::uint16_t peer)
      : cable(std::move(*UdpCable::open({kLoopback, 0}, local, peer))),
        sender(cable->end().add_sender(0, kBytes, kCredits, {})),
        receiver(cable->end().add_receiver(0, kBytes, kCredits, {})) {}

  void start(const millrace::SocketAddress& peer) {
    cable->set_peer(peer);
    receiver.start(1, 0);
    sender.start(1, 0, Clock::now());
  }

  template <class Done>
  void serve_until(Done done) {
    for (;;) {
      const Time now = Clock::now();
      cable->send(now);
      if (done()) return;
      const auto wait = std::clamp<std::chrono::nanoseconds>(
          cable->next_time() - now, std::chrono::nanoseconds(0), std::chrono::milliseconds(900));
      const timespec limit{0, static_cast<long>(wait.count())};
      pollfd file{cable->descriptor(), POLLIN, 0};
      if (ppoll(&file, 1, &limit, nullptr) > 0) cable->receive(Clock::now());
    }
  }
  void receive_message(std::vector<std::byte>& bytes) {
    Packet packet;
    serve_until([&] { return receiver.peek(packet); });
    std::copy(packet.payload.begin(), packet.payload.end(), bytes.begin());
    receiver.take();
  }
  void send_message(const std::vector<std::byte>& bytes) {
    if (sender.credit() == 0) serve_until([&] { return sender.credit() > 0; });
    sender.push(++sequence, 0, true, bytes);
    cable->send(Clock::now());
  }

  std::unique_ptr<UdpCable> cable;
  Sender& sender;
  Receiver& receiver;
  std::uint64_t sequence = 0;
};

double link(int core, int iterations) {
  End near(0, 1), far(1, 0);
  std::vector<std::byte> bytes(kBytes);
  const Peer peer(core, [&] {
    far.start(near.cable->address());
    for (;;) {
      far.receive_message(bytes);
      far.send_message(bytes);
    }
  });
  near.start(far.cable->address());
  return measure(iterations, [&] {
    near.send_message(bytes);
    near.receive_message(bytes);
  });
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const int iterations = count > 2 ? std::atoi(arguments[2]) : 5000;
  std::printf("{");
  for (const int cores : {1, 2}) {
    if (cores > sysconf(_SC_NPROCESSORS_ONLN)) break;
    pin(0);
    std::vector<double> bare, own, ratios;
    for (int round = 0; round < rounds; ++round) {
      bare.push_back(ping(cores - 1, iterations));
      own.push_back(link(cores - 1, iterations));
      ratios.push_back(own.back() / bare.back());
    }
    std::printf("%s\"cores_%d\": {\"ping_us\": %.2f, \"link_us\": %.2f, \"ratio\": %.3f}",
                cores == 1 ? "" : ", ", cores, median(bare), median(own), median(ratios));
  }
  std::printf("}\n");
}
