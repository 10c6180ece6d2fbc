// Prints a Markdown table that shows how the compiler represents the requantisations of the shared models: blocks and
// channels by kind of representation, bytes of the encoded program, and the shortest time of several compilations in
// milliseconds.
//
// The environment variable MILLRACE_MODELS must name the models' folder. The argument is the number of compilations (3
// by default).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/plan/image.hpp"
#include "tests/golden/models.hpp"

namespace {

using namespace millrace;
using kernels::Requantise;

const char* const kFolders[] = {"lenet5_mnist", "tfc_mnist",           "pttdnn_cifar10", "mpcnn_gestures",
                                "kws_dscnn",    "vww_mobilenetv1_025", "ad_autoencoder", "resnet8_cifar10"};

struct Count {
  std::size_t blocks = 0, channels = 0;
};
using Counts = std::array<Count, 3>;  // by kind of requantisation

const Requantise* requantise_of(const kernels::Operation& operation) {
  if (const auto* c = std::get_if<kernels::Convolution>(&operation))
    return c->requantise ? &*c->requantise : nullptr;
  if (const auto* p = std::get_if<kernels::SumPool>(&operation)) return &p->requantise;
  if (const auto* r = std::get_if<kernels::Rescale>(&operation)) return &r->requantise;
  return nullptr;
}

Counts count_forms(const kernels::Program& program) {
  Counts counts;
  for (const kernels::Block& block : program.blocks) {
    const Requantise* r = requantise_of(block.operation);
    if (r == nullptr) continue;
    Count& count = counts[static_cast<std::size_t>(r->form)];
    ++count.blocks;
    count.channels += program.tensors[block.outputs[0]].shape.back();
  }
  return counts;
}

void print_row(const std::filesystem::path& file, int times) {
  double best = 1e9;
  std::optional<kernels::Program> program;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    auto compiled = golden::compile_model(file);
    if (!compiled) return;  // a float model does not compile
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    program = std::move(compiled->program);
  }
  const Counts counts = count_forms(*program);
  std::printf("| %s |", file.stem().c_str());
  for (const std::size_t form : {0U, 2U, 1U})
    std::printf(" %zu (%zu) |", counts[form].blocks, counts[form].channels);
  std::printf(" %zu | %.1f |\n", runtime::plan::encode_program(*program).size(), best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  std::puts("| model | floor: blocks (channels) | half-even | thresholds | program bytes | compile ms |");
  std::puts("| --- | --- | --- | --- | --- | --- |");
  for (const char* folder : kFolders) {
    std::vector<std::filesystem::path> files;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(golden::models_directory() / folder, none))
      if (entry.path().extension() == ".onnx") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) print_row(file, times);
  }
  return 0;
}
