// Compares the time of a run on an emulated card with the time of a message between two processes on this machine.
//
// The two processes are pinned to a common core, or to one core each. Each round measures in this order:
//   socketpair   a message and its echo through a bare AF_UNIX socketpair
//   futex        a word of shared memory and its echo, with futex(2) alone: no emulator can be faster
//   xrt          xrt::run start() and wait() of an empty kernel on an emulated card
//   lenet        a frame of LeNet-5 (random weights) over one, two and three cards, including both copies
// Prints JSON: medians and 99th percentiles in microseconds, and the medians of the rounds' ratios.
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
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../integration/emulated_host.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/emulator/protocol.hpp"

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

/// A child process that sends every message back until it is killed.
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
      if (send(ends[0], message, sizeof message, 0) <= 0 || recv(ends[0], message, sizeof message, 0) <= 0)
        std::exit(1);
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

// The following functions measure LeNet-5, cut over one or several cards.

kernels::Requantise to_int8() {
  kernels::Requantise requantise;
  requantise.multiplier = {1};
  requantise.offset = {128};
  requantise.shift = {8};
  requantise.lowest = -128;
  requantise.highest = 127;
  return requantise;
}

class LenetBuilder {
 public:
  LenetBuilder() { tensor("in", 28, 28, 1); }
  void convolution(std::uint32_t kernel, std::uint32_t padding, std::uint32_t channels) {
    const auto shape = program_.tensors.back().shape;
    kernels::Convolution c;
    c.window.kernel_h = c.window.kernel_w = kernel;
    c.window.pad_top = c.window.pad_left = c.window.pad_bottom = c.window.pad_right = padding;
    c.out_channels = channels;
    c.weights.edit().resize(std::size_t{channels} * kernel * kernel * shape[2]);
    for (auto& weight : c.weights.edit())
      weight = static_cast<std::int16_t>(static_cast<std::int8_t>(random_()));
    c.bias.assign(channels, 0);
    c.accumulator.bits = 32;
    c.requantise = to_int8();
    const auto size = shape[0] + 2 * padding - kernel + 1;
    block("conv" + std::to_string(program_.blocks.size()), c, size, size, channels);
  }
  void pool() {
    const auto shape = program_.tensors.back().shape;
    kernels::MaxPool p;
    p.window.kernel_h = p.window.kernel_w = p.window.stride_h = p.window.stride_w = 2;
    block("pool" + std::to_string(program_.blocks.size()), p, shape[0] / 2, shape[1] / 2, shape[2]);
  }
  kernels::Program finish() {
    program_.name = "lenet5";
    program_.inputs = {0};
    program_.outputs = {static_cast<kernels::TensorIndex>(program_.tensors.size() - 1)};
    return program_;
  }

 private:
  void tensor(const std::string& name, std::uint32_t height, std::uint32_t width, std::uint32_t channels) {
    kernels::Tensor t;
    t.name = name;
    t.shape = {height, width, channels};
    program_.tensors.push_back(t);
  }
  void block(const std::string& name, kernels::Operation operation, std::uint32_t h, std::uint32_t w,
             std::uint32_t c) {
    const auto from = static_cast<kernels::TensorIndex>(program_.tensors.size() - 1);
    tensor(name, h, w, c);
    program_.blocks.push_back({name, {}, {from}, {from + 1}, std::move(operation)});
  }
  kernels::Program program_;
  std::mt19937 random_{1};
};

kernels::Program lenet() {
  LenetBuilder builder;
  builder.convolution(5, 2, 6);
  builder.pool();
  builder.convolution(5, 0, 16);
  builder.pool();
  builder.convolution(5, 0, 120);
  builder.convolution(1, 0, 84);
  builder.convolution(1, 0, 10);
  return builder.finish();
}

/// Measures frames of LeNet-5 over a chain of `cards` cards. The process of card i runs on core cores[i].
Times lenet_frame(std::uint32_t cards, const int (&cores)[3], int iterations) {
  using Kind = runtime::plan::PortKind;
  const auto whole = lenet();
  const std::vector<std::vector<std::uint32_t>> cuts[] = {
      {{0, 1, 2, 3, 4, 5, 6}}, {{0, 1, 2, 3}, {4, 5, 6}}, {{0, 1}, {2, 3}, {4, 5, 6}}};
  std::vector<xrt::uuid> images;
  std::vector<std::unique_ptr<tests::Control>> controls;
  for (std::uint32_t i = 0; i < cards; ++i) {
    const auto part = kernels::extract(whole, cuts[cards - 1][i], "part" + std::to_string(i));
    images.push_back(
        tests::load(i, tests::container(tests::image_data(
                           part, {{"in0", i == 0 ? Kind::kIngress : Kind::kLinkReceive},
                                  {"out0", i + 1 == cards ? Kind::kEgress : Kind::kLinkSend}}))));
    controls.push_back(std::make_unique<tests::Control>(i, images[i]));
    std::uint32_t row = 0;
    const auto bind = [&](std::uint32_t connector) {
      controls[i]->enable(row, false);
      controls[i]->link(row, connector, 0, 1024, 8);
      controls[i]->enable(row++);
    };
    if (i > 0) bind(0);
    if (i + 1 < cards) bind(i);  // connector i has the cable to the next card
    controls[i]->epoch(1);
    pin_process(tests::card_process("fpga" + std::to_string(i)), cores[i]);
  }
  tests::IngressUnit in(0, images[0], "p_in0", 28 * 28);
  tests::EgressUnit out(cards - 1, images[cards - 1], "p_out0", 10);
  const auto frame = tests::random_frame(28 * 28, 1);
  std::uint64_t sequence = 0;
  return measure(iterations, [&] {
    out.start(1, sequence);
    in.start(frame, 1, sequence++);
    if (out.wait() != ERT_CMD_STATE_COMPLETED || in.wait() != ERT_CMD_STATE_COMPLETED) std::exit(1);
    if (out.trailer().status != runtime::plan::abi::FrameStatus::kOk) std::exit(1);
  });
}

/// Kills a card's process `times` times. Measures the time until the waiting run fails, and the time of the next load.
void card_loss(int times, std::vector<double>& error_us, std::vector<double>& reload_us) {
  using Kind = runtime::plan::PortKind;
  const auto image = tests::container(
      tests::image_data(tests::lookup_program(64, 1), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}}));
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  };
  for (int i = 0; i < times; ++i) {
    const auto load_begin = Clock::now();
    const auto uuid = tests::load(3, image);
    reload_us.push_back(since(load_begin));
    tests::Control control(3, uuid);
    control.epoch(1);
    tests::EgressUnit out(3, uuid, "p_out0", 64);
    out.start(1, 0);
    const auto process = tests::card_process("fpga3");
    const auto begin = Clock::now();
    kill(process, SIGKILL);
    if (out.wait() != ERT_CMD_STATE_ERROR) std::exit(1);
    error_us.push_back(since(begin));
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Measures all cases and prints them under `name`. The echo process, the first and the third card run on core
/// `card_core`; the second card runs on core 0.
void run_placement(const char* name, int card_core, int rounds, int iterations) {
  const int cores[3] = {card_core, 0, card_core};
  std::map<std::string, std::vector<double>> results;
  for (int round = 0; round < rounds; ++round) {
    const auto note = [&](const std::string& what, const Times& times) {
      results[what + "_us"].push_back(times.median_us);
      results[what + "_p99_us"].push_back(times.p99_us);
      return times.median_us;
    };
    const auto socketpair = note("socketpair", socketpair_round_trip(card_core, iterations));
    note("futex", futex_round_trip(card_core, iterations));
    results["xrt_to_socketpair"].push_back(note("xrt", xrt_round_trip(card_core, iterations)) / socketpair);
    double lenet[4] = {};
    for (std::uint32_t cards = 1; cards <= 3; ++cards)
      lenet[cards] =
          note("lenet_" + std::to_string(cards) + "_cards", lenet_frame(cards, cores, iterations / 4));
    results["added_per_card_us"].push_back((lenet[3] - lenet[1]) / 2);
    results["added_per_card_to_socketpair"].push_back((lenet[3] - lenet[1]) / 2 / socketpair);
  }
  std::printf("  \"%s\": {\n", name);
  for (const auto& [what, values] : results) {
    std::printf("    \"%s\": {\"median\": %.2f, \"rounds\": [", what.c_str(), median(values));
    for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
    std::printf("]}%s\n", what == results.rbegin()->first ? "" : ",");
  }
  std::printf("  },\n");
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
  run_placement("one_core", 0, rounds, iterations);
  run_placement("two_cores", 1, rounds, iterations);
  std::vector<double> error_us, reload_us;
  card_loss(50, error_us, reload_us);
  std::printf(
      "  \"killed_card\": {\"error_us\": %.0f, \"error_worst_us\": %.0f, \"load_with_new_process_us\": "
      "%.0f}\n}\n",
      median(error_us), *std::max_element(error_us.begin(), error_us.end()), median(reload_us));
  std::fflush(stdout);
  return 0;
}
