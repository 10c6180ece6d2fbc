// Runs `millrace quantize` on the shared float models and measures the loss of accuracy with weights of 8 and 4 bits.
// The quantised model is written to a file, read again and run as a program, so the figures are those that cards give.
// ONNX Runtime gives the float outputs. No sample is used both to calibrate and to score.
//
//     build/release/tests/test_quantize    prints the table of compiler/quantize/README.md
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compiler/front/export.hpp"
#include "compiler/front/import.hpp"
#include "compiler/quantize/quantize.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/golden/models.hpp"

namespace millrace::golden::test_quantize {
namespace {

namespace quantize = compiler::quantize;

struct Net {
  const char* folder;
  const char* model;
  const char*
      calibration;  // below calib/, uint8 pictures that are prepared as the net's own; null: the net's first
  std::size_t calibrating;  // how many samples calibrate
  std::size_t scoring;      // how many of those that are left score
  bool labelled;
};

const Net kNets[] = {
    {"lenet5_mnist", "lenet5_float.onnx", "mnist500_u8.npy", 500, 2000, true},
    {"tfc_mnist", "tfc_float.onnx", "mnist500_u8.npy", 500, 2000, true},
    {"pttdnn_cifar10", "ptt_float.onnx", "cifar500_u8.npy", 500, 2000, true},
    {"mpcnn_gestures", "mpcnn_float.onnx", nullptr, 50, 201, true},
    {"resnet8_cifar10", "resnet8_float.onnx", "cifar500_u8.npy", 200, 500, true},
    {"kws_dscnn", "kws_float.onnx", nullptr, 200, 800, true},
    {"vww_mobilenetv1_025", "vww_float.onnx", nullptr, 10, 11, true},
    {"jet_hls4ml_16_64_32_32_5", "jet_keras_float.onnx", nullptr, 500, 500, false},
};

/// The samples of a net. Samples for scoring come from the net's own file. Samples for calibration come from a file in
/// the folder calib/ or, if there is none, from the net's own file.
struct Samples {
  Frames calibration, scoring;
  std::vector<unsigned> labels;  // of `scoring`
};

Frames part(const Frames& all, std::size_t first, std::size_t count) {
  Frames f;
  f.elements = all.elements;
  f.count = std::min(count, all.count - first);
  f.data.assign(all.frame(first), all.frame(first) + f.count * f.elements);
  return f;
}

Result<Samples> load_samples(const Net& net) {
  Samples samples;
  MILLRACE_ASSIGN(const Frames own, load_frames(net.folder));
  std::size_t first = 0;
  if (net.calibration == nullptr) {
    samples.calibration = part(own, 0, net.calibrating);
    first = net.calibrating;
  } else {
    MILLRACE_ASSIGN(const Frames others,
                    load_frames(net.folder, models_directory() / "calib" / net.calibration));
    samples.calibration = part(others, 0, net.calibrating);
  }
  samples.scoring = part(own, first, net.scoring);
  if (!net.labelled) return samples;
  // The digits of the TFC are LeNet's.
  const std::string labels = net.folder == std::string("tfc_mnist") ? "lenet5_mnist" : net.folder;
  MILLRACE_ASSIGN(const NpyArray array, read_npy(models_directory() / labels / "label_u8.npy"));
  samples.scoring.count = std::min<std::size_t>(samples.scoring.count, array.elements() - first);
  for (std::size_t i = 0; i < samples.scoring.count; ++i)
    samples.labels.push_back(std::to_integer<unsigned>(array.data[first + i]));
  return samples;
}

std::vector<quantize::Frame> as_quantize_frames(const Frames& frames) {
  std::vector<quantize::Frame> out;
  for (std::size_t i = 0; i < frames.count; ++i)
    out.push_back({{frames.frame(i), frames.frame(i) + frames.elements}});
  return out;
}

std::vector<std::size_t> answers(const Frames& outputs) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < outputs.count; ++i)
    result.push_back(static_cast<std::size_t>(
        std::max_element(outputs.frame(i), outputs.frame(i) + outputs.elements) - outputs.frame(i)));
  return result;
}

struct Outcome {
  std::size_t scored = 0, float_right = 0, quantised_right = 0, same = 0, on_onnxruntime_same = 0;
  quantize::Quantised quantised;
};

/// Quantises a net and writes it to a file. Runs the float model in ONNX Runtime, and the quantised file both as a
/// program and in ONNX Runtime.
Result<Outcome> run(const Net& net, const quantize::Options& options) {
  const std::filesystem::path model = models_directory() / net.folder / net.model;
  MILLRACE_ASSIGN(const Samples samples, load_samples(net));
  MILLRACE_ASSIGN(auto bytes, read_file(model, 1U << 30U));
  MILLRACE_ASSIGN(auto graph, compiler::import_onnx(std::move(bytes), net.folder, model.parent_path(),
                                                    compiler::FloatModel::kTaken));
  const std::vector<std::int64_t> shape = graph.input_signatures[0].shape;
  Outcome outcome;
  MILLRACE_ASSIGN(outcome.quantised,
                  quantize::quantise(std::move(graph), as_quantize_frames(samples.calibration), options));
  MILLRACE_ASSIGN(const auto written, compiler::export_onnx(outcome.quantised.graph));
  const TemporaryDirectory folder("quantize");
  const std::filesystem::path file = folder.path() / "quantised.onnx";
  MILLRACE_TRY(write_file_atomically(file, written));
  MILLRACE_ASSIGN(const compiler::Model compiled, compile_model(file));

  MILLRACE_ASSIGN(const Frames floats, run_onnxruntime(model, samples.scoring, shape));
  const auto wanted = answers(floats),
             got = answers(run_fast(compiled.program, samples.scoring, samples.scoring.count));
  MILLRACE_ASSIGN(const Frames elsewhere, run_onnxruntime(file, samples.scoring, shape));
  const auto other = answers(elsewhere);
  outcome.scored = samples.scoring.count;
  for (std::size_t i = 0; i < outcome.scored; ++i) {
    outcome.same += wanted[i] == got[i] ? 1 : 0;
    outcome.on_onnxruntime_same += wanted[i] == other[i] ? 1 : 0;
    if (!net.labelled) continue;
    outcome.float_right += wanted[i] == samples.labels[i] ? 1 : 0;
    outcome.quantised_right += got[i] == samples.labels[i] ? 1 : 0;
  }
  return outcome;
}

void print(const Net& net, int bits, const Outcome& o) {
  const auto percent = [&](std::size_t n) {
    return 100.0 * static_cast<double>(n) / static_cast<double>(o.scored);
  };
  std::printf("| %s | %d | %zu, %zu | %.2f | %.2f | %.2f | %.2f |\n", net.folder, bits, net.calibrating,
              o.scored, net.labelled ? percent(o.float_right) : NAN,
              net.labelled ? percent(o.quantised_right) : NAN, percent(o.same),
              percent(o.on_onnxruntime_same));
  std::string kept;
  for (const auto& layer : o.quantised.layers)
    if (!layer.why.empty()) kept += (kept.empty() ? "" : ", ") + layer.name + " (" + layer.why + ")";
  if (!kept.empty())
    std::printf("    %s: %llu bytes in float32, %llu quantised; kept at 8 bits: %s\n", net.folder,
                static_cast<unsigned long long>(o.quantised.float_bytes()),
                static_cast<unsigned long long>(o.quantised.bytes()), kept.c_str());
}

class QuantizeModels : public testing::TestWithParam<Net> {
 protected:
  void SetUp() override {
    if (models_directory().empty()) GTEST_SKIP() << "MILLRACE_MODELS names no models";
  }
};

TEST_P(QuantizeModels, EightBitWeightsCostAtMostHalfAPercentagePointOfAccuracy) {
  const Net& net = GetParam();
  quantize::Options options;
  options.method = quantize::Method::kPercentile;
  auto outcome = run(net, options);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  print(net, 8, *outcome);
  const auto scored = static_cast<double>(outcome->scored);
  if (net.labelled) {
    const double most = std::max(1.0, 0.005 * scored);
    EXPECT_GE(static_cast<double>(outcome->quantised_right),
              static_cast<double>(outcome->float_right) - most);
  }
  if (!net.labelled || outcome->scored < 100) {
    EXPECT_GE(static_cast<double>(outcome->same), std::min(0.99 * scored, scored - 1));
  }
}

TEST_P(QuantizeModels, FourBitWeightsCostAtMostTwoPercentagePointsOfAccuracy) {
  const Net& net = GetParam();
  if (!net.labelled || net.scoring < 100) GTEST_SKIP() << "has too few labelled samples";
  quantize::Options options;
  options.method = quantize::Method::kPercentile;
  options.weight_bits = 4;
  const auto outcome = run(net, options);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  print(net, 4, *outcome);
  EXPECT_GE(static_cast<double>(outcome->quantised_right),
            static_cast<double>(outcome->float_right) - 0.02 * static_cast<double>(outcome->scored));
}

INSTANTIATE_TEST_SUITE_P(Nets, QuantizeModels, testing::ValuesIn(kNets),
                         [](const auto& instance) { return std::string(instance.param.folder); });

}  // namespace
}  // namespace millrace::golden::test_quantize
