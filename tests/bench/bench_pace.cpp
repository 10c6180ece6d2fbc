// Compares emulated cards that keep the pace of the hardware with the plan and with the discrete-event model of the plan:
// nine partitions in a chain of nine cards.
//
//   bench_pace [--interval MS] [--frames N]
//
// The net has nine convolutions, each on its own card. The pace is chosen so that the slowest partition takes
// MS milliseconds a frame (default 5). The program prints one line of JSON for each run:
//   load "alone"      one frame after another: latency, and its ratio to the plan's
//   load "saturated"  frames always wait: the rate, and its ratio to that of the slowest partition
//   load 0.3, 0.6, 0.9  frames arrive as a Poisson process with this share of the sustained rate. The model gets the
//                     same arrival times. Rate, p50 and p99, each with its ratio to the model's
// Times are divided by the pace. `processor` is the share of all cores that this program and its cards used. Exit code
// 1 if a goal is missed: latency alone within 10 %, saturated rate at least 0.95, rate within 5 %, p50 and p99 within
// 15 %, processor below 0.5.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/queueing/network.hpp"
#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "tests/paths/paths.hpp"

namespace {

using namespace millrace;
namespace fs = std::filesystem;
namespace pipeline = runtime::pipeline;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::uint32_t kSlots = 16, kCards = 9;

/// Builds a net of nine convolutions of 3x3 on a picture of 24x24 pixels. The channels between two layers have different
/// numbers, so the partitions have different intervals.
std::string nine_layers() {
  const std::vector<std::int64_t> channels{4, 8, 6, 8, 4, 12, 8, 6, 8, 4};
  std::mt19937 random(9);
  tests::OnnxModel model;
  model.input("x", {1, channels.front(), 24, 24});
  std::string now = model.pair("x", 0.0078125F, 0, "in");
  for (std::size_t i = 1; i < channels.size(); ++i) {
    const std::string name = "conv" + std::to_string(i);
    std::vector<std::int64_t> values(static_cast<std::size_t>(channels[i - 1] * channels[i] * 9));
    for (auto& value : values) value = static_cast<std::int64_t>(random() % 255) - 127;
    const std::string w =
        model.weights(name + ".w", {channels[i], channels[i - 1], 3, 3}, values, {0.0078125F});
    model.node("Conv", {now, w}, name);
    model.attribute("kernel_shape", std::vector<std::int64_t>{3, 3});
    model.attribute("pads", std::vector<std::int64_t>(4, 1));
    now = model.pair(name, 0.0625F, 0, name + ".q");
  }
  model.output(now);
  return model.bytes();
}

template <class T>
T value_of(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "bench_pace: %s\n", result.error().message().c_str());
  std::exit(1);
}

/// Returns the processor time of a process and of its children, in seconds.
double processor_seconds() {
  const auto of = [](const std::string& process) {
    std::ifstream file("/proc/" + process + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(std::min(text.rfind(')') + 2, text.size())));
    std::string word;
    double ticks = 0;
    for (int field = 3; field <= 15 && fields >> word; ++field)  // 14 and 15: user and system time
      if (field >= 14) ticks += std::strtod(word.c_str(), nullptr);
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  };
  double sum = of("self");
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (std::string child; children >> child;) sum += of(child);
  }
  return sum;
}

/// The measurements of all frames except the first tenth, in seconds of the hardware.
struct Seen {
  double rate = 0, p50 = 0, p99 = 0, processor = 0;
};

/// One frame and the time when it was done.
struct Sent {
  std::vector<std::byte> input, output;
  pipeline::Frame frame;
  Clock::time_point planned, done;
};

class Run {
 public:
  Run(pipeline::Dispatcher& pipeline, double pace) : pipeline_(pipeline), pace_(pace) {}

  /// Sends frames at the times `arrivals`, in seconds of the hardware, each multiplied by the pace. With `alone`, sends
  /// each frame when the previous frame is done.
  Seen operator()(const std::vector<double>& arrivals, bool alone = false) {
    std::vector<Sent> sent(arrivals.size());
    const auto& model = pipeline_.deployment().model;
    for (auto& one : sent) {
      one.input.resize(model.inputs[0].bytes());
      one.output.resize(model.outputs[0].bytes());
      one.frame.inputs.emplace_back(one.input);
      one.frame.outputs.emplace_back(one.output);
      one.frame.context = this;
      one.frame.on_complete = [](pipeline::Frame& frame, void* run) {
        static_cast<Run*>(run)->complete(frame);
      };
    }
    done_ = 0;
    sent_ = &sent;
    const double processor = processor_seconds();
    const auto start = Clock::now() + std::chrono::milliseconds(20);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (alone) wait_for(i);
      sent[i].planned =
          alone ? Clock::now()
                : start + std::chrono::duration_cast<Clock::duration>(Seconds(arrivals[i] * pace_));
      std::this_thread::sleep_until(sent[i].planned);
      if (const auto status = pipeline_.submit(sent[i].frame); !status.ok()) {
        std::fprintf(stderr, "bench_pace: %s\n", status.error().message().c_str());
        std::exit(1);
      }
    }
    wait_for(sent.size());
    const double wall = Seconds(Clock::now() - start).count();
    return seen(sent, (processor_seconds() - processor) / wall / std::thread::hardware_concurrency());
  }

 private:
  void complete(pipeline::Frame& frame) {
    const std::lock_guard lock(mutex_);
    auto& sent = *sent_;
    const auto at =
        std::find_if(sent.begin(), sent.end(), [&](const Sent& one) { return &one.frame == &frame; });
    at->done = Clock::now();
    if (!frame.status.ok()) {
      std::fprintf(stderr, "bench_pace: %s\n", frame.status.error().message().c_str());
      std::exit(1);
    }
    ++done_;
    changed_.notify_all();
  }

  void wait_for(std::size_t frames) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes(5), [&] { return done_ >= frames; })) std::exit(1);
  }

  Seen seen(const std::vector<Sent>& sent, double processor) const {
    const std::size_t first = sent.size() / 10;
    std::vector<double> latencies;
    for (std::size_t i = first; i < sent.size(); ++i)
      latencies.push_back(Seconds(sent[i].done - sent[i].planned).count() / pace_);
    std::sort(latencies.begin(), latencies.end());
    const auto at = [&](double share) {
      return latencies[static_cast<std::size_t>(std::ceil(share * static_cast<double>(latencies.size()))) -
                       1];
    };
    const double time = Seconds(sent.back().done - sent[first - 1].done).count() / pace_;
    return {static_cast<double>(sent.size() - first) / time, at(0.5), at(0.99), processor};
  }

  pipeline::Dispatcher& pipeline_;
  double pace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
  std::vector<Sent>* sent_ = nullptr;
};

bool within(double ratio, double tolerance) {
  return std::abs(ratio - 1) <= tolerance;
}

}  // namespace

int main(int argc, char** argv) {
  log::configure(log::Level::kError, false);
  double interval_ms = 5;
  std::uint64_t frames = 2000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--interval") == 0) interval_ms = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--frames") == 0) frames = static_cast<std::uint64_t>(std::atoll(argv[i + 1]));
  }
  if (!(interval_ms > 0) || frames < 100) {
    std::fprintf(stderr, "usage: bench_pace [--interval MS] [--frames N]; MS above 0, N at least 100\n");
    return 2;
  }
  TemporaryDirectory directory("millrace-bench-pace");
  compiler::CompileOptions options;
  options.model = directory.path() / "nine.onnx";
  options.cluster = fs::path(tests::source_dir()) / "configs/clusters/nine-ku060.yaml";
  options.output = directory.path() / "nine";
  options.partitions = kCards;
  std::ofstream(options.model, std::ios::binary) << nine_layers();
  const auto compiled = value_of(compiler::compile(options));
  const compiler::Plan& plan = compiled.design;
  const double pace = std::max(1.0, interval_ms * 1e-3 / plan.interval_seconds);
  const auto cluster = value_of(runtime::plan::load_cluster(options.cluster));
  if (const auto selected =
          runtime::emulator::select_backend(cluster, runtime::emulator::Fidelity::kFunctional, pace);
      !selected.ok())
    return value_of(Result<int>(selected.error()));
  const auto deployment = std::make_shared<const runtime::plan::LoadedDeployment>(
      value_of(runtime::plan::load_deployment(options.output)));
  pipeline::PipelineOptions running;
  running.slots = kSlots;
  running.queue_capacity = 1U << 20U;
  running.stuck_after = running.stuck_after_deadline = std::chrono::minutes(2);
  const auto opened = value_of(pipeline::Dispatcher::open(deployment, cluster, running));
  const auto network = value_of(compiler::queueing::network_of(plan, kSlots));
  Run run(*opened, pace);
  bool good = true;

  const auto print = [&](const std::string& load, const Seen& seen, const std::string& ratios, bool holds) {
    good = good && holds && seen.processor < 0.5;
    std::printf(
        "{\"benchmark\":\"pace\",\"load\":%s,\"pace\":%.1f,\"frames_per_second\":%.1f,\"p50_us\":%.3f,"
        "\"p99_us\":%.3f,%s,\"processor\":%.3f,\"good\":%s}\n",
        load.c_str(), pace, seen.rate, seen.p50 * 1e6, seen.p99 * 1e6, ratios.c_str(), seen.processor,
        holds && seen.processor < 0.5 ? "true" : "false");
    std::fflush(stdout);
  };
  const auto ratio = [](const char* name, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "\"%s\":%.4f", name, value);
    return std::string(text);
  };

  const Seen alone = run(std::vector<double>(100, 0), true);
  print("\"alone\"", alone, ratio("latency_to_plan", alone.p50 / plan.latency_seconds),
        within(alone.p50 / plan.latency_seconds, 0.1));
  const Seen saturated = run(std::vector<double>(frames / 2, 0));
  print("\"saturated\"", saturated, ratio("rate_to_slowest", saturated.rate * plan.interval_seconds),
        saturated.rate * plan.interval_seconds >= 0.95);
  const double sustained = compiler::queueing::simulate(network, {0, frames}).frames_per_second;
  for (const double share : {0.3, 0.6, 0.9}) {
    const compiler::queueing::Load load{share * sustained, frames, 1};
    const auto modelled = compiler::queueing::simulate(network, load);
    const Seen seen = run(compiler::queueing::arrivals(load));
    const double rate = seen.rate / modelled.frames_per_second, p50 = seen.p50 / modelled.p50,
                 p99 = seen.p99 / modelled.p99;
    char name[16];
    std::snprintf(name, sizeof name, "%.1f", share);
    print(name, seen,
          ratio("rate_to_model", rate) + "," + ratio("p50_to_model", p50) + "," + ratio("p99_to_model", p99),
          within(rate, 0.05) && within(p50, 0.15) && within(p99, 0.15));
  }
  opened->stop(std::chrono::milliseconds(1000));
  return good ? 0 : 1;
}
