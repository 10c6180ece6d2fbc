// Measures the time and memory that planning needs, including the import of the model. Prints one line of JSON per
// model. Wall time and CPU time cover all of make_plan(); each has a goal.
//
//   bench_explore            ResNet-50's graph (made here, random weights) on eight mixed cards and on 64 cards in eight
//                            hosts; 64 replicas of LeNet-5 on these 64 cards
//   bench_explore MODELS     also models of the folder MODELS: DOSA's five nets, for 5,000 frames/s and for throughput
//                            on nine cards, and MobileNet-v1 0.25, for throughput and for latency on four U280

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"
#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(tests::source_dir()) / "configs";

/// Builds ResNet-50 for pictures of 224x224 as an int8 QDQ model with random weights.
class ResNet50 {
 public:
  std::string bytes() {
    model_.input("x", {1, 3, 224, 224});
    std::string x = model_.pair("x", 0.0078125F, 0, "in");
    x = convolution(x, 3, 64, 7, 2, true);
    x = model_.node("MaxPool", {x}, "pool");
    model_.attribute("kernel_shape", std::vector<std::int64_t>{3, 3});
    model_.attribute("strides", std::vector<std::int64_t>{2, 2});
    model_.attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1});
    x = model_.pair(x, 0.0625F, 0, "pool.q");
    std::int64_t channels = 64;
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage)
      for (int block = 0; block < blocks[stage]; ++block) {
        const std::int64_t width = std::int64_t{64} << stage, stride = block == 0 && stage > 0 ? 2 : 1;
        std::string y = convolution(x, channels, width, 1, 1, true);
        y = convolution(y, width, width, 3, stride, true);
        y = convolution(y, width, 4 * width, 1, 1, false);
        const std::string by = block == 0 ? convolution(x, channels, 4 * width, 1, stride, false) : x;
        const std::string name = "add" + std::to_string(count_++);
        x = model_.pair(model_.node("Relu", {model_.node("Add", {y, by}, name)}, name + ".relu"), 0.0625F, 0,
                        name + ".q");
        channels = 4 * width;
      }
    x = model_.pair(model_.node("GlobalAveragePool", {x}, "average"), 0.0625F, 0, "average.q");
    x = model_.node("Flatten", {x}, "flat");
    const std::string w = model_.weights("fc.w", {1000, channels}, random(1000 * channels), {0.0078125F});
    x = model_.node("Gemm", {x, w}, "fc");
    model_.attribute("transB", std::int64_t{1});
    model_.output(model_.pair(x, 0.0625F, 0, "fc.q"));
    for (auto& tensor : *model_.proto().mutable_graph()->mutable_initializer()) pack(tensor);
    return model_.bytes();
  }

 private:
  /// Changes an int8 tensor to one byte per element, as exporters store it.
  static void pack(onnx::TensorProto& tensor) {
    if (tensor.data_type() != onnx::TensorProto::INT8 || tensor.int32_data_size() == 0) return;
    tensor.set_raw_data(std::string(tensor.int32_data().begin(), tensor.int32_data().end()));
    tensor.clear_int32_data();
  }

  std::vector<std::int64_t> random(std::int64_t count) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (auto& value : values) value = static_cast<std::int64_t>(random_() % 255) - 127;
    return values;
  }

  std::string convolution(const std::string& x, std::int64_t in, std::int64_t out, std::int64_t kernel,
                          std::int64_t stride, bool relu) {
    const std::string name = "conv" + std::to_string(count_++);
    const std::string w = model_.weights(name + ".w", {out, in, kernel, kernel},
                                         random(out * in * kernel * kernel), {0.0078125F});
    std::string y = model_.node("Conv", {x, w}, name);
    model_.attribute("strides", std::vector<std::int64_t>{stride, stride});
    const std::int64_t pad = kernel / 2;
    model_.attribute("pads", std::vector<std::int64_t>{pad, pad, pad, pad});
    model_.attribute("kernel_shape", std::vector<std::int64_t>{kernel, kernel});
    if (relu) y = model_.node("Relu", {y}, name + ".relu");
    return model_.pair(y, 0.0625F, 0, name + ".q");
  }

  tests::OnnxModel model_;
  std::mt19937 random_{50};
  int count_ = 0;
};

/// Writes a cluster file with a chain of eight cards of four kinds.
void write_mixed_cluster(const fs::path& file) {
  const char* kinds[] = {"u280", "u280", "u250", "u250", "u55c", "u55c", "u200", "u200"};
  std::ofstream out(file);
  out << "schema: 1\nemulated: true\ncards:\n";
  for (int i = 0; i < 8; ++i) out << "  - {name: fpga" << i << ", device: " << kinds[i] << "}\n";
  out << "cables:\n";
  for (int i = 0; i + 1 < 8; ++i)
    out << "  - {a: {card: fpga" << i << ", connector: 1}, b: {card: fpga" << i + 1
        << ", connector: 0}, gigabits_per_second: 95, latency_ns: 510}\n";
}

/// Writes a cluster file with eight hosts. Each host has eight U280 in a chain.
void write_hosts_cluster(const fs::path& file) {
  constexpr int kHosts = 8, kCards = 8;
  std::ofstream out(file);
  out << "schema: 1\nemulated: true\nnetwork: {gigabits_per_second: 100, latency_ns: 5000}\nhosts:\n";
  for (int host = 0; host < kHosts; ++host) out << "  - {name: host" << host << "}\n";
  out << "cards:\n";
  for (int i = 0; i < kHosts * kCards; ++i)
    out << "  - {name: fpga" << i << ", device: u280, host: host" << i / kCards << "}\n";
  out << "cables:\n";
  for (int i = 0; i + 1 < kHosts * kCards; ++i) {
    if (i % kCards == kCards - 1) continue;
    out << "  - {a: {card: fpga" << i << ", connector: 1}, b: {card: fpga" << i + 1
        << ", connector: 0}, gigabits_per_second: 95, latency_ns: 510}\n";
  }
}

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// Plans the model and prints one line of JSON. summary.mjs compares all_wall_ms and all_cpu_ms with `goal_ms`.
bool measure(const std::string& name, const compiler::PlanOptions& options, std::optional<int> goal_ms) {
  const double before = cpu_ms();
  const auto start = std::chrono::steady_clock::now();
  const auto plan = compiler::make_plan(options);
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  const double cpu = cpu_ms() - before;
  if (!plan.ok()) {
    std::printf("{\"model\":\"%s\",\"error\":\"%s\"}\n", name.c_str(), plan.error().message().c_str());
    return false;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"model\":\"%s\",\"cards\":%zu,\"replicas\":%zu,\"frames_per_second\":%.0f,\"latency_us\":%.1f,"
      "\"exact\":%s,\"gap\":%."
      "4f,"
      "\"exploration_wall_ms\":%.1f,\"prediction_wall_ms\":%.1f,\"all_wall_ms\":%.1f,\"all_cpu_ms\":%.1f,"
      "\"goal_ms\":%s,\"peak_"
      "mib\":%ld}\n",
      name.c_str(), plan->cards(), plan->replicas(), plan->frames_per_second(), plan->latency_seconds * 1e6,
      plan->solution.exact ? "true" : "false", plan->solution.gap, plan->times.exploration_ms,
      plan->times.prediction_ms, wall.count(), cpu, goal_ms ? std::to_string(*goal_ms).c_str() : "null",
      usage.ru_maxrss / 1024);
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  using namespace millrace;
  bool good = true;
  compiler::PlanOptions options;
  if (argc > 1) {
    options.cluster = kConfigs / "clusters/nine-ku060.yaml";
    options.assume = "int8";
    for (const bool throughput : {false, true})
      for (const char* net : {"CERN", "MPCNN", "TFC", "MNIST_int8", "PTTCNN_int8"}) {
        options.targets = {};
        if (throughput)
          options.targets.objective = compiler::explore::Objective::kThroughput;
        else
          options.targets.frames_per_second = 5000;
        options.model = fs::path(argv[1]) / "dosa_originals" / (std::string(net) + ".onnx");
        good = measure(net + std::string(throughput ? ", throughput" : ""), options, 50) && good;
      }
    options = {};
    options.model = fs::path(argv[1]) / "vww_mobilenetv1_025/vww_int8_qdq.onnx";
    options.cluster = kConfigs / "clusters/four-u280.yaml";
    options.targets.objective = compiler::explore::Objective::kThroughput;
    good = measure("MobileNet-v1 0.25", options, 1000) && good;
    // With the latency objective, make_plan() simulates several plans and compares them.
    options.targets.objective = compiler::explore::Objective::kLatency;
    good = measure("MobileNet-v1 0.25, latency", options, std::nullopt) && good;
  }
  TemporaryDirectory directory("millrace-bench-explore");
  fs::create_directories(directory.path() / "clusters");
  fs::create_directory_symlink(kConfigs / "devices", directory.path() / "devices");
  options = {};
  options.model = directory.path() / "resnet50.onnx";
  options.cluster = directory.path() / "clusters/mixed.yaml";
  std::ofstream(options.model, std::ios::binary) << ResNet50().bytes();
  write_mixed_cluster(options.cluster);
  good = measure("ResNet-50", options, 3000) && good;
  options.cluster = directory.path() / "clusters/hosts.yaml";
  write_hosts_cluster(options.cluster);
  good = measure("ResNet-50, 64 cards in 8 hosts", options, 5000) && good;
  options.model = fs::path(tests::source_dir()) / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  options.replicas = 64;
  good = measure("LeNet-5, 64 replicas on 64 cards in 8 hosts", options, 5000) && good;
  return good ? 0 : 1;
}
