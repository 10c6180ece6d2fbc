// Compares one UDP request with a bare exchange of the same datagrams in the same run. The request goes from the client
// library through the listener to a pipeline that does nothing, and back. Prints JSON.
//
//   bench_udp [--iterations N] [--rounds N]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "millrace/client.hpp"
#include "server/udp/listener.hpp"
#include "server/udp/socket.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using millrace::Status;
namespace udp = millrace::server::udp;
namespace pipeline = millrace::runtime::pipeline;

constexpr std::uint32_t kFragment = 1200;
constexpr std::uint32_t kHeader = 40;
constexpr std::uint32_t kOutput = 40;
constexpr int kClientCpu = 0;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_udp: %s\n", what.c_str());
  std::exit(1);
}

void pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<unsigned>(cpu), &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0)
    fail("cannot pin to CPU " + std::to_string(cpu));
}

class NullPipeline final : public pipeline::Pipeline {
 public:
  explicit NullPipeline(std::uint32_t input_bytes) {
    plan_.model.name = "null";
    plan_.model.inputs.push_back({"in", "UINT8", {1, input_bytes}});
    plan_.model.outputs.push_back({"out", "UINT8", {1, kOutput}});
  }
  const millrace::runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(pipeline::Frame& frame) override {
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(pipeline::Frame&) override {}
  bool ready() const override { return true; }
  pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

 private:
  millrace::runtime::plan::Deployment plan_;
};

class Directory final : public udp::ModelDirectory {
 public:
  explicit Directory(pipeline::Pipeline& p) : model_(*udp::ServedModel::make(1, p)) {}
  Outcome by_handle(std::uint32_t, std::shared_ptr<udp::ServedModel>& out) override {
    out = model_;
    return Outcome::kFound;
  }
  std::shared_ptr<udp::ServedModel> by_name(std::string_view, std::string_view) override { return model_; }

 private:
  std::shared_ptr<udp::ServedModel> model_;
};

struct Shape {
  std::uint32_t input_bytes;
  std::size_t fragments() const { return (input_bytes + kFragment - 1) / kFragment; }
  std::size_t datagram(std::size_t i) const {
    return kHeader + (i + 1 < fragments() ? kFragment : input_bytes - (fragments() - 1) * kFragment);
  }
};

/// A client and a server that only exchange datagrams, with one system call per datagram or per message. Their sockets
/// have the same time-outs as Millrace's, because the kernel starts a timer for every receive with a time-out.
class Bare {
 public:
  Bare(const Shape& shape, bool batched, int server_cpu) : shape_(shape), batched_(batched) {
    server_ = bound(server_address_, udp::Socket::kPoll);
    client_ = bound(client_address_, millrace::client::Options().retry);
    connect_to(server_, client_address_);
    connect_to(client_, server_address_);
    thread_ = std::jthread([this, server_cpu](const std::stop_token& stop) {
      pin(server_cpu);
      const auto going = [&] { return !stop.stop_requested(); };
      while (going())
        if (receive(server_, shape_.fragments(), going)) send(server_, 1, kHeader + kOutput);
    });
  }
  ~Bare() {
    thread_.request_stop();
    send(client_, shape_.fragments(), 0);
    thread_.join();
    ::close(server_);
    ::close(client_);
  }

  void exchange() {
    send(client_, shape_.fragments(), 0);
    int timeouts = 0;
    if (!receive(client_, 1, [&] { return ++timeouts < 1000; })) fail("the bare exchange lost a datagram");
  }

 private:
  static int bound(sockaddr_in& address, std::chrono::microseconds receive_timeout) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const int buffer = 4 << 20;
    const timeval wait{receive_timeout.count() / 1000000, receive_timeout.count() % 1000000};
    if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) fail("no socket");
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    return fd;
  }
  static void connect_to(int fd, const sockaddr_in& peer) {
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) fail("cannot connect");
  }

  void send(int fd, std::size_t count, std::size_t bytes) {
    if (!batched_ || count == 1) {
      for (std::size_t i = 0; i < count; ++i)
        (void)::send(fd, bytes_.data(), bytes != 0 ? bytes : shape_.datagram(i), 0);
      return;
    }
    std::array<mmsghdr, 64> messages{};
    std::array<iovec, 64> parts;
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {bytes_.data(), shape_.datagram(i)};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    (void)::sendmmsg(fd, messages.data(), static_cast<unsigned>(count), 0);
  }
  static int receive_one(int fd) {
    std::array<char, 2048> room;
    return ::recv(fd, room.data(), room.size(), 0) > 0 ? 1 : 0;
  }
  static int receive_some(int fd, std::size_t most) {
    static thread_local std::array<std::array<char, 2048>, 64> rooms;
    std::array<mmsghdr, 64> messages{};
    std::array<iovec, 64> parts;
    for (std::size_t i = 0; i < most; ++i) {
      parts[i] = {rooms[i].data(), rooms[i].size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    return ::recvmmsg(fd, messages.data(), static_cast<unsigned>(most), MSG_WAITFORONE, nullptr);
  }

  /// Receives `count` datagrams. Calls again() after each time-out. Returns false as soon as again() returns false.
  template <class Again>
  bool receive(int fd, std::size_t count, Again again) {
    for (std::size_t got = 0; got < count;) {
      const int n = batched_ && count > 1 ? receive_some(fd, count - got) : receive_one(fd);
      if (n > 0)
        got += static_cast<std::size_t>(n);
      else if (!again())
        return false;
    }
    return true;
  }

  const Shape shape_;
  const bool batched_;
  int server_ = -1, client_ = -1;
  sockaddr_in server_address_{}, client_address_{};
  std::array<char, 2048> bytes_{};
  std::jthread thread_;
};

class Served {
 public:
  Served(const Shape& shape, bool tagged, int server_cpu)
      : pipeline_(shape.input_bytes), directory_(pipeline_), input_(shape.input_bytes) {
    udp::wire::KeyRing keys;
    millrace::client::Options with;
    if (tagged) {
      with.key_id = 1;
      with.key.assign(32, std::byte{7});
      if (!keys.add(1, with.key)) fail("key");
    }
    auto bound = udp::Listener::bind({}, std::move(keys), directory_);
    if (!bound) fail(bound.error().message());
    listener_ = std::move(bound).value();
    pin(server_cpu);  // the listener's thread inherits the CPU of the thread that starts the listener
    listener_->serve();
    pin(kClientCpu);
    if (const auto s = millrace::client::connect("udp://" + listener_->address(), with, client_); !s.ok())
      fail(s.message);
  }

  void exchange() {
    const millrace::client::Input input(input_);
    if (const auto s = client_->infer("null", "", std::span(&input, 1), 5s, outputs_); !s.ok())
      fail(s.message);
  }

 private:
  NullPipeline pipeline_;
  Directory directory_;
  std::vector<std::byte> input_;
  std::vector<std::vector<std::byte>> outputs_;
  std::unique_ptr<udp::Listener> listener_;
  std::unique_ptr<millrace::client::Client> client_;
};

struct Percentiles {
  double p50 = 0, p99 = 0;
};

template <class Exchange>
Percentiles measure(Exchange& exchange, int iterations) {
  for (int i = 0; i < iterations / 10; ++i) exchange.exchange();
  std::vector<double> us;
  us.reserve(static_cast<std::size_t>(iterations));
  for (int i = 0; i < iterations; ++i) {
    const auto start = Clock::now();
    exchange.exchange();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us[us.size() * 99 / 100]};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Series {
  std::vector<double> p50, p99;
  void add(const Percentiles& p) {
    p50.push_back(p.p50);
    p99.push_back(p.p99);
  }
};

double ratio(const Series& of, const Series& to) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < of.p50.size(); ++i) ratios.push_back(of.p50[i] / to.p50[i]);
  return median(ratios);
}

void report(const char* placement, const Shape& shape, int rounds, int iterations, int server_cpu,
            bool first) {
  Bare bare(shape, false, server_cpu), batched(shape, true, server_cpu);
  Served plain(shape, false, server_cpu), tagged(shape, true, server_cpu);
  Series a, b, c, d;
  for (int round = 0; round < rounds; ++round) {
    a.add(measure(bare, iterations));
    c.add(measure(plain, iterations));
    b.add(measure(batched, iterations));
    d.add(measure(tagged, iterations));
  }
  const auto series = [](const char* name, const Series& s) {
    std::printf("     \"%s\": {\"p50_us\": %.2f, \"p99_us\": %.2f},\n", name, median(s.p50), median(s.p99));
  };
  std::printf(
      "%s    {\"placement\": \"%s\", \"input_bytes\": %u, \"fragments\": %zu, \"output_bytes\": %u,\n",
      first ? "" : ",\n", placement, shape.input_bytes, shape.fragments(), kOutput);
  series("bare", a);
  series("bare_batched", b);
  series("millrace", c);
  series("millrace_tagged", d);
  std::printf("     \"ratio_p50\": %.3f, \"ratio_p50_batched\": %.3f, \"ratio_p50_tagged\": %.3f}",
              ratio(c, a), ratio(c, b), ratio(d, a));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int iterations = 20000, rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--iterations" && option != "--rounds"))
      fail("usage: bench_udp [--iterations N] [--rounds N]");
    (option == "--rounds" ? rounds : iterations) = std::max(1, std::atoi(argv[++i]));
  }
  std::printf("{\"benchmark\": \"udp\", \"rounds\": %d, \"iterations\": %d, \"results\": [\n", rounds,
              iterations);
  pin(kClientCpu);
  bool first = true;
  for (const bool same : {true, false}) {
    if (!same && std::thread::hardware_concurrency() < 2) continue;
    for (const std::uint32_t bytes : {1024U, 16384U}) {
      report(same ? "same-core" : "cross-core", Shape{bytes}, rounds, iterations, same ? 0 : 1, first);
      first = false;
    }
  }
  std::printf("\n]}\n");
}
