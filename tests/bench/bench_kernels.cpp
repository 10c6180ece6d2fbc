// Measures the time of a frame of each shared model with kernels/fast on one thread, at each SIMD level of this CPU.
// Input and output are float32, so the times include quantisation and the change of layout. The benchmarks' names are
// <net>/<variant>/<level>.
//
// The environment variable MILLRACE_MODELS must name the models' folder. See also compare_onnxruntime.mjs.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "kernels/fast/executor.hpp"
#include "tests/golden/models.hpp"

namespace {

using namespace millrace;
using kernels::fast::SimdLevel;

struct Net {
  const char* folder;
  const char* file;
  std::vector<const char*> variants;
};

const Net kNets[] = {
    {"lenet5_mnist", "lenet5", {"qdq_s8_perch", "qdq_u8_perch", "qdq_s8_pow2", "qop_u8"}},
    {"pttdnn_cifar10", "ptt", {"qdq_s8_perch", "qdq_u8_perch", "qdq_s8_pow2", "qop_u8"}},
    {"mpcnn_gestures", "mpcnn", {"qdq_s8_perch", "qdq_u8_perch", "qdq_s8_pow2", "qop_u8"}},
    {"tfc_mnist", "tfc", {"qdq_s8_perch", "qdq_s8_pow2"}},
    {"resnet8_cifar10", "resnet8", {"int8_qdq"}},
    {"kws_dscnn", "kws", {"int8_qdq"}},
    {"vww_mobilenetv1_025", "vww", {"int8_qdq"}},
};

void run_frames(benchmark::State& state, const kernels::Program& program, const golden::Frames& frames,
                SimdLevel level) {
  kernels::fast::Executor executor(program, level);
  std::vector<std::byte> result(program.tensors[program.outputs[0]].storage_bytes());
  std::byte* const outputs[] = {result.data()};
  std::size_t frame = 0;
  const auto run_frame = [&] {
    const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(frames.frame(frame))};
    executor.run(inputs, outputs);
    frame = frame + 1 == frames.count ? 0 : frame + 1;
  };
  // A repetition of a millisecond has few frames, so a first frame with cold caches would count for much. ONNX Runtime
  // also computes some frames before it is measured.
  for (int i = 0; i < 5; ++i) run_frame();
  for (auto _ : state) {
    run_frame();
    benchmark::DoNotOptimize(result.data());
    benchmark::ClobberMemory();
  }
}

void add_net(const Net& net) {
  auto frames = golden::load_frames(net.folder);
  if (!frames) {
    std::fprintf(stderr, "%s: left out: %s\n", net.folder, frames.error().message().c_str());
    return;
  }
  frames->count = std::min<std::size_t>(frames->count, 20);  // a single client's frames also stay in cache
  for (const char* variant : net.variants) {
    const std::string file = std::string(net.file) + "_" + variant + ".onnx";
    auto compiled = golden::compile_model(golden::models_directory() / net.folder / file);
    if (!compiled) {
      std::fprintf(stderr, "%s: left out: %s\n", file.c_str(), compiled.error().message().c_str());
      continue;
    }
    for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512Vnni}) {
      if (!kernels::fast::is_available(level)) continue;
      const std::string name = std::string(net.file) + "/" + variant + "/" + std::string(to_string(level));
      benchmark::RegisterBenchmark(name.c_str(), [program = compiled->program, data = *frames,
                                                  level](benchmark::State& state) {
        run_frames(state, program, data, level);
      })->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (golden::models_directory().empty()) {
    std::fprintf(stderr, "MILLRACE_MODELS does not name the folder of the shared models; set it\n");
    return 3;
  }
  for (const Net& net : kNets) add_net(net);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
