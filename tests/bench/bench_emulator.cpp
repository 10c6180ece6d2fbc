// What a run on an emulated card costs, against what any hop between two processes costs on this machine.
//
// One process here, one there, pinned alike: both on one core, or on two. Each round measures, one after the other:
//   socketpair   a message there and back through a bare AF_UNIX socketpair
//   futex        a word of shared memory there and back, with futex(2) alone: the floor of what the emulator uses
//   xrt          xrt::run start() and wait() of the empty kernel on an emulated card
// Prints JSON: medians and 99th percentiles in microseconds, and the median over the rounds of xrt / socketpair.
//
//   bench_emulator [ROUNDS [ITERATIONS]]
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "../integration/emulated_host.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/emulator/futex.hpp"

namespace {

using namespace millrace;
using Clock = std::chrono::steady_clock;

void pin(pid_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  sched_setaffinity(thread, sizeof set, &set);
}

void pin_process(pid_t process, int core) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task"))
    pin(std::stoi(task.path().filename()), core);
}

struct Times {
  double median_us = 0, p99_us = 0;
};

Times measure(int iterations, const std::function<void()>& once) {
  for (int i = 0; i < iterations / 10; ++i) once();
  std::vector<double> times(static_cast<std::size_t>(iterations));
  for (auto& time : times) {
    const auto begin = Clock::now();
    once();
    time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

/// A process that answers until it is killed.
class Peer {
 public:
  Peer(int core, const std::function<void()>& serve) : process_(fork()) {
    if (process_ != 0) return;
    pin(0, core);
    serve();
    _exit(0);
  }
  ~Peer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_;
};

Times socketpair_round_trip(int core, int iterations) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) std::exit(1);
  char message[64] = {};
  Times times;
  {
    const Peer peer(core, [&] {
      while (recv(ends[1], message, sizeof message, 0) > 0 && send(ends[1], message, sizeof message, 0) > 0) {
      }
    });
    times = measure(iterations, [&] {
      if (send(ends[0], message, sizeof message, 0) <= 0 || recv(ends[0], message, sizeof message, 0) <= 0) std::exit(1);
    });
  }
  close(ends[0]);
  close(ends[1]);
  return times;
}

Times futex_round_trip(int core, int iterations) {
  using runtime::emulator::Word;
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* there = static_cast<Word*>(memory);
  auto* back = there + 16;
  const auto await = [](Word& word, std::uint32_t old) {
    while (word.load() == old) runtime::emulator::futex_wait(word, old);
  };
  Times times;
  {
    const Peer peer(core, [&] {
      for (std::uint32_t n = 0;; ++n) {
        await(*there, n);
        back->store(n + 1);
        runtime::emulator::futex_wake(*back, 1);
      }
    });
    std::uint32_t n = 0;
    times = measure(iterations, [&] {
      there->store(n + 1);
      runtime::emulator::futex_wake(*there, 1);
      await(*back, n);
      ++n;
    });
  }
  munmap(memory, 4096);
  return times;
}

Times xrt_round_trip(int core, int iterations) {
  const auto image = tests::load(0, tests::empty_kernel_image());
  pin_process(tests::card_process("fpga0"), core);
  xrt::kernel kernel(tests::device(0), image, "millrace_nop");
  xrt::run run(kernel);
  run.set_arg(0, 1u);
  return measure(iterations, [&] {
    run.start();
    if (run.wait(std::chrono::milliseconds(1000)) != ERT_CMD_STATE_COMPLETED) std::exit(1);
  });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run_placement(const char* name, int card_core, int rounds, int iterations, bool last) {
  const std::pair<const char*, Times (*)(int, int)> kinds[] = {
      {"socketpair", socketpair_round_trip}, {"futex", futex_round_trip}, {"xrt", xrt_round_trip}};
  std::vector<double> medians[3], tails[3], ratios;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      const auto times = kinds[kind].second(card_core, iterations);
      medians[kind].push_back(times.median_us);
      tails[kind].push_back(times.p99_us);
    }
    ratios.push_back(medians[2].back() / medians[0].back());
  }
  std::printf("  \"%s\": {", name);
  for (std::size_t kind = 0; kind < 3; ++kind)
    std::printf("\"%s_us\": %.2f, \"%s_p99_us\": %.2f, ", kinds[kind].first, median(medians[kind]), kinds[kind].first,
                median(tails[kind]));
  std::printf("\"xrt_to_socketpair\": %.2f, \"each_round\": [", median(ratios));
  for (std::size_t i = 0; i < ratios.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", ratios[i]);
  std::printf("]}%s\n", last ? "" : ",");
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const int iterations = count > 2 ? std::atoi(arguments[2]) : 20000;
  if (rounds < 1 || iterations < 100) {
    std::fprintf(stderr, "usage: bench_emulator [ROUNDS >= 1 [ITERATIONS >= 100]]\n");
    return 2;
  }
  const auto status = runtime::emulator::select_backend(tests::test_cluster());
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.error().message().c_str());
    return 3;
  }
  pin(0, 0);
  std::printf("{\n  \"rounds\": %d, \"iterations\": %d,\n", rounds, iterations);
  run_placement("one_core", 0, rounds, iterations, false);
  run_placement("two_cores", 1, rounds, iterations, true);
  std::printf("}\n");
  std::fflush(stdout);
  return 0;
}
