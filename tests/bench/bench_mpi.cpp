// Compares a stream of runtime/mpi with bare MPI_Send and MPI_Recv: the time of a message from one rank to the other,
// half of a round trip. mpirun starts two ranks (tools/bench). Rank 0 prints JSON.
//
// Both kinds of message are measured in turn, in the same run, in two ways. "polled": the thread that waits polls the
// stream itself, as MPI_Recv does. "session": the session's progress threads receive the messages and answer, as they
// do in a server.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/mpi/communicator.hpp"
#include "runtime/mpi/session.hpp"
#include "runtime/mpi/stream.hpp"

namespace millrace {
namespace {

namespace mpi = runtime::mpi;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15, kMessages = 2'000;
constexpr int kBareTag = 7;
constexpr std::size_t kSizes[] = {1'024, 3'136, 4'096, 16'384, 65'536};  // 3,136: an input of LeNet-5

double half_round_trip_us(Clock::duration all) {
  return std::chrono::duration<double, std::micro>(all).count() / kMessages / 2;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Exchanges messages with the other rank and returns the time that one message takes.
class Exchange {
 public:
  Exchange(mpi::Session& session, std::size_t bytes, int index)
      : session_(session),
        first_(session.rank() == 0),
        bare_(bytes),
        sender_(other(), 100 + 2 * index + (first_ ? 0 : 1), bytes, 1),
        receiver_(other(), 100 + 2 * index + (first_ ? 1 : 0), bytes, 1,
                  [this](const mpi::FrameHeader&, std::span<const std::byte>, std::uint32_t buffer) {
                    receiver_.release(buffer);
                    if (first_ && left_.fetch_sub(1) == 1) return done_.store(true);
                    static_cast<void>(sender_.send({}));
                    session_.nudge(other());
                  }) {}

  double bare() {
    const auto begin = Clock::now();
    for (int i = 0; i < kMessages; ++i) {
      if (first_) send();
      MPI_Recv(bare_.data(), static_cast<int>(bare_.size()), MPI_BYTE, other(), kBareTag, mpi::communicator(),
               MPI_STATUS_IGNORE);
      if (!first_) send();
    }
    return half_round_trip_us(Clock::now() - begin);
  }

  double polled() {
    const auto begin = start();
    // Rank 1 answers every message. It ends after it has received as many messages as rank 0 sends.
    for (int received = 0; received < kMessages;) received += receiver_.poll() ? 1 : 0;
    return half_round_trip_us(Clock::now() - begin);
  }

  /// Measures while rank 1 answers on its progress thread. Only rank 0 calls this function.
  double with_session() {
    const auto begin = start();
    while (!done_.load()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return half_round_trip_us(Clock::now() - begin);
  }

  mpi::Receiver& receiver() { return receiver_; }

 private:
  int other() const { return 1 - session_.rank(); }
  void send() {
    MPI_Send(bare_.data(), static_cast<int>(bare_.size()), MPI_BYTE, other(), kBareTag, mpi::communicator());
  }
  Clock::time_point start() {
    left_.store(kMessages);
    done_.store(false);
    const auto begin = Clock::now();
    if (first_) static_cast<void>(sender_.send({}));
    return begin;
  }

  mpi::Session& session_;
  const bool first_;
  std::vector<std::byte> bare_;
  std::atomic<int> left_{0};
  std::atomic<bool> done_{false};
  mpi::Sender sender_;
  mpi::Receiver receiver_;  // last, because its handler uses the members above
};

void barrier() {
  MPI_Barrier(mpi::communicator());
}

struct Times {
  std::vector<double> bare, stream;
};

void print(const char* way, std::size_t bytes, const Times& times) {
  const double bare = median(times.bare), stream = median(times.stream);
  std::printf(
      "{\"benchmark\":\"mpi\",\"way\":\"%s\",\"bytes\":%zu,\"bare_us\":%.3f,\"stream_us\":%.3f,\"ratio\":%."
      "3f}\n",
      way, bytes, bare, stream, stream / bare);
  std::fflush(stdout);
}

int run() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) {
    std::cerr << "bench_mpi: start it with mpirun -n 2\n";
    return 2;
  }
  runtime::plan::Cluster cluster;
  cluster.name = "two ranks";
  cluster.hosts = {{"0", true}, {"1", true}};
  mpi::SessionOptions options;
  options.spin = std::chrono::milliseconds(1);  // as if the machine had cores to spare
  auto joined = mpi::Session::join({rank, "", "", {}}, cluster, options);
  if (!joined.ok()) {
    std::cerr << "bench_mpi: " << joined.error().message() << '\n';
    return exit_code(joined.error().code());
  }
  mpi::Session& session = **joined;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (const std::size_t bytes : kSizes)
    exchanges.push_back(std::make_unique<Exchange>(session, bytes, static_cast<int>(exchanges.size())));

  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    Times times;
    for (int round = 0; round < kRounds; ++round) {
      barrier();
      times.bare.push_back(exchanges[i]->bare());
      barrier();
      times.stream.push_back(exchanges[i]->polled());
    }
    if (session.rank() == 0) print("polled", kSizes[i], times);
  }

  session.start({});
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    session.watch(exchanges[i]->receiver());
    Times times;
    for (int round = 0; round < kRounds; ++round) {
      barrier();
      times.bare.push_back(exchanges[i]->bare());
      barrier();
      if (session.rank() == 0) times.stream.push_back(exchanges[i]->with_session());
      barrier();
    }
    session.unwatch(exchanges[i]->receiver());
    if (session.rank() == 0) print("session", kSizes[i], times);
  }
  const Status ended = session.rank() == 0 ? session.end_job() : session.wait_for_end([] { return false; });
  session.stop();
  exchanges.clear();
  return ended.ok() ? 0 : exit_code(ended.error().code());
}

}  // namespace
}  // namespace millrace

int main() {
  return millrace::run();
}
