// Measures a LeNet-5 frame through Pipeline::infer() over one, two and three emulated cards, and compares it with a
// round trip through a bare socketpair.
//
// All three pipelines stay open, on six cards in total. Each repetition measures these counters, in microseconds:
//   socketpair, one_card, two_cards, three_cards   median times
//   added_per_card      (three_cards - one_card) / 2
//   added_round_trips   added_per_card / socketpair; exit code 1 if the median is above 2
//   worst_round_trips   the time that the second or the third card adds, the larger one, divided by socketpair
// With "one_core", every thread and process runs on core 0. With "two_cores", the cards and the other end of the
// socketpair run on core 1. --benchmark_format=json prints JSON; read the line with the median of the repetitions.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/lenet.hpp"

namespace {

using namespace millrace;
using Clock = std::chrono::steady_clock;
namespace pipeline = runtime::pipeline;

constexpr int kIterations = 1500;
constexpr int kRounds = 5;

double median_us(const std::function<void()>& once) {
  for (int i = 0; i < kIterations / 10; ++i) once();
  std::vector<double> times(kIterations);
  for (double& time : times) {
    const auto begin = Clock::now();
    once();
    time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  std::nth_element(times.begin(), times.begin() + kIterations / 2, times.end());
  return times[kIterations / 2];
}

/// A child process that sends every byte back. The constructor forks, so this process must have only one thread.
class Echo {
 public:
  Echo() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      for (char byte = 0; read(ends[1], &byte, 1) == 1 && write(ends[1], &byte, 1) == 1;) continue;
      _exit(0);
    }
    close(ends[1]);
    end_ = ends[0];
  }
  ~Echo() {
    close(end_);
    waitpid(process_, nullptr, 0);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  void round_trip() const {
    char byte = 1;
    if (write(end_, &byte, 1) != 1 || read(end_, &byte, 1) != 1) std::abort();
  }

 private:
  pid_t process_ = 0;
  int end_ = -1;
};

/// Pins every thread of this process to core 0. Pins children to core 0 if `one_core` is true, otherwise to core 1.
void place_all(bool one_core) {
  const auto place_tasks = [](const std::filesystem::path& process, unsigned core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    std::error_code gone;
    for (const auto& task : std::filesystem::directory_iterator(process / "task", gone)) {
      sched_setaffinity(std::stoi(task.path().filename()), sizeof set, &set);
    }
  };
  place_tasks("/proc/self", 0);
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (int child = 0; children >> child;) place_tasks("/proc/" + std::to_string(child), one_core ? 0 : 1);
  }
}

/// A deployment on `cards` cards, its pipeline, and a frame. The constructor checks the frame's result.
class Served {
 public:
  Served(const kernels::Program& program, const runtime::plan::Cluster& cluster, std::uint32_t cards)
      : directory_("millrace-bench"),
        deployment_(tests::deploy(program, cluster, cards, directory_.path() / "d")) {
    auto opened = pipeline::Dispatcher::open(deployment_, cluster, {});
    if (!opened.ok()) fail(opened.error().message());
    pipeline_ = std::move(*opened);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(0.0F, 1.0F);
    std::vector<float> x(deployment_->plan.model.inputs[0].elements());
    for (float& element : x) element = value(random);
    const auto bytes = std::as_bytes(std::span(x));
    input_.assign(bytes.begin(), bytes.end());
    output_.resize(deployment_->plan.model.outputs[0].bytes());
    infer();
    if (output_ != kernels::reference::run(program, {input_}).front())
      fail("a byte differs from the reference");
  }

  void infer() {
    pipeline::Frame frame;
    frame.inputs.emplace_back(input_);
    frame.outputs.emplace_back(output_);
    if (const Status status = pipeline_->infer(frame); !status.ok()) fail(status.error().message());
  }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    std::fprintf(stderr, "bench_pipeline: %s\n", message.c_str());
    std::exit(1);
  }

  TemporaryDirectory directory_;
  std::shared_ptr<const runtime::plan::LoadedDeployment> deployment_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::vector<std::byte> input_, output_;
};

constexpr double kMostRoundTrips = 2;

/// The time that a further card adds to a frame, in socketpair round trips; one value for each repetition.
struct Added {
  std::vector<double> mean, worst;
};
std::map<bool, Added> added_round_trips;  // the key is `one_core`

void measure(benchmark::State& state, const Echo& echo, const std::array<std::unique_ptr<Served>, 3>& served,
             bool one_core) {
  place_all(one_core);
  std::array<double, 3> frame{};
  double socketpair = 0;
  for ([[maybe_unused]] const auto _ : state) {
    socketpair = median_us([&] { echo.round_trip(); });
    for (std::size_t i = 0; i < served.size(); ++i) frame[i] = median_us([&] { served[i]->infer(); });
    state.SetIterationTime(frame[2] * 1e-6);
  }
  const double added = (frame[2] - frame[0]) / 2;
  state.counters["socketpair"] = socketpair;
  state.counters["one_card"] = frame[0];
  state.counters["two_cards"] = frame[1];
  state.counters["three_cards"] = frame[2];
  state.counters["added_per_card"] = added;
  state.counters["added_round_trips"] = added / socketpair;
  const double worst = std::max(frame[1] - frame[0], frame[2] - frame[1]) / socketpair;
  state.counters["worst_round_trips"] = worst;
  added_round_trips[one_core].mean.push_back(added / socketpair);
  added_round_trips[one_core].worst.push_back(worst);
}

bool holds(std::vector<double> values, const char* what, bool one_core) {
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  if (median <= kMostRoundTrips) return true;
  std::fprintf(stderr, "bench_pipeline: %s adds %.2f round trips (%s), the goal is %.0f\n", what, median,
               one_core ? "one_core" : "two_cores", kMostRoundTrips);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  log::configure(log::Level::kError, false);
  const Echo echo;
  const runtime::plan::Cluster cluster = tests::emulated_ring(6);
  if (const Status selected = runtime::emulator::select_backend(cluster); !selected.ok()) {
    std::fprintf(stderr, "bench_pipeline: %s\n", selected.error().message().c_str());
    return 3;
  }
  const kernels::Program program = tests::lenet_program();
  std::array<std::unique_ptr<Served>, 3> served;
  for (std::uint32_t i = 0; i < 3; ++i) served[i] = std::make_unique<Served>(program, cluster, i + 1);

  benchmark::Initialize(&argc, argv);
  for (const bool one_core : {true, false}) {
    benchmark::RegisterBenchmark(
        one_core ? "lenet5_frame/one_core" : "lenet5_frame/two_cores",
        [&, one_core](benchmark::State& state) { measure(state, echo, served, one_core); })
        ->Iterations(1)
        ->Repetitions(kRounds)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  int missed = 0;
  for (const auto& [one_core, added] : added_round_trips) {
    if (!holds(added.mean, "a card", one_core)) missed = 1;
    if (!holds(added.worst, "the dearer of the second and third card", one_core)) missed = 1;
  }
  return missed;
}
