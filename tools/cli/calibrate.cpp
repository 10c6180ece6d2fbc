#include "tools/cli/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <set>

#include "compiler/front/export.hpp"
#include "compiler/front/import.hpp"
#include "compiler/front/model_file.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tools/clients/samples.hpp"

namespace millrace::cli {
namespace {

namespace quantize = compiler::quantize;
using compiler::graph::Graph;
using quantize::Frame;

constexpr std::uint64_t kMaxModelBytes = std::uint64_t{2} << 30U;
constexpr std::size_t kFewSamples = 20;

Error invalid(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

/// The model's inputs as tools/clients describes them, with the preprocessing of the model's millrace.yaml.
Result<std::vector<clients::InputDescription>> describe_inputs(const std::filesystem::path& model,
                                                               const Graph& graph) {
  runtime::plan::ModelInfo info;
  for (const auto& input : graph.input_signatures)
    info.inputs.push_back({input.name, compiler::graph::datatype(input.type), input.shape});
  for (const auto& output : graph.output_signatures)
    info.outputs.push_back({output.name, compiler::graph::datatype(output.type), output.shape});
  MILLRACE_TRY(compiler::read_model_file(model, info));
  std::vector<clients::InputDescription> inputs;
  for (const auto& input : info.inputs)
    inputs.push_back({input.name, input.datatype, input.shape, {}, {}, {}});
  inputs[0].layout = info.preprocessing.layout;
  inputs[0].scale = info.preprocessing.scale;
  inputs[0].mean = info.preprocessing.mean;
  return inputs;
}

template <class T>
std::vector<float> floats_as(const std::vector<std::byte>& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    floats[i] = static_cast<float>(value);
  }
  return floats;
}

/// Returns the elements of an input tensor as floats. An integer becomes the whole number of the same value.
Result<std::vector<float>> floats_of(const std::vector<std::byte>& bytes, const std::string& datatype) {
  if (datatype == "FP32") return floats_as<float>(bytes);
  if (datatype == "UINT8" || datatype == "BOOL") return floats_as<std::uint8_t>(bytes);
  if (datatype == "INT8") return floats_as<std::int8_t>(bytes);
  if (datatype == "UINT16") return floats_as<std::uint16_t>(bytes);
  if (datatype == "INT16") return floats_as<std::int16_t>(bytes);
  if (datatype == "INT32") return floats_as<std::int32_t>(bytes);
  return Error(ErrorCode::kUnsupported, "inputs of type " + datatype + " cannot be quantised from samples");
}

/// Reads frames from the files that the option `option` names. Refuses NaN and infinity.
Result<std::vector<Frame>> read_frames(const char* option, const std::vector<std::string>& files,
                                       const std::vector<clients::InputDescription>& inputs, bool quiet) {
  auto samples = clients::read_model_samples(files, inputs);
  if (!samples.ok()) return samples.error().within(option);
  if (!samples->note.empty() && !quiet) std::cerr << option << ": " << samples->note << '\n';
  std::vector<Frame> frames;
  for (std::size_t f = 0; f < samples->frames.size(); ++f) {
    Frame frame;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      MILLRACE_ASSIGN(auto floats, floats_of(samples->frames[f][i], inputs[i].datatype));
      samples->frames[f][i] = {};
      if (!std::all_of(floats.begin(), floats.end(), [](float x) { return std::isfinite(x); }))
        return invalid(std::string(option) + ": sample " + std::to_string(f) + " of input '" +
                       inputs[i].name + "' holds NaN or infinity; leave it out");
      frame.push_back(std::move(floats));
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

/// Reads the labels, the right class of each sample, as one whole number for each sample.
Result<std::vector<std::int64_t>> read_labels(const std::filesystem::path& file, std::int64_t classes) {
  MILLRACE_ASSIGN(const NpyArray array, read_npy(file));
  const std::string here = "--labels " + file.string() + ": ";
  const std::uint64_t bytes = array.element_bytes();
  const bool whole = array.descr.size() == 3 && (array.descr[1] == 'i' || array.descr[1] == 'u');
  if (!whole || array.elements() == 0 || array.shape.empty() || array.elements() != array.shape[0])
    return invalid(here + "an array of '" + array.descr + "' with " + std::to_string(array.shape.size()) +
                   " axes; "
                   "give one whole number for each sample, the index of its class");
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < array.elements(); ++i) {
    std::uint64_t raw = 0;
    std::memcpy(&raw, array.data.data() + i * bytes, bytes);
    const auto spare = static_cast<int>(64 - 8 * bytes);
    labels.push_back(array.descr[1] == 'i' ? static_cast<std::int64_t>(raw << spare) >> spare
                                           : static_cast<std::int64_t>(raw));
    if (labels.back() < 0 || labels.back() >= classes)
      return invalid(here + "entry " + std::to_string(i) + " is " + std::to_string(labels.back()) +
                     "; the model's first output has classes 0 to " + std::to_string(classes - 1));
  }
  return labels;
}

/// The samples with which the model is calibrated, and the samples with which the quantised model is scored.
struct Split {
  std::vector<Frame> calibration, scoring;
  std::vector<std::int64_t> labels;  // of `scoring`, or empty
};

/// Removes from `split.scoring` the samples, with their labels, that are also used to calibrate. Returns how many it
/// removed.
std::size_t remove_calibrating(Split& split) {
  const std::set<Frame> calibrating(split.calibration.begin(), split.calibration.end());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < split.scoring.size(); ++i) {
    if (calibrating.contains(split.scoring[i])) continue;
    if (kept != i) split.scoring[kept] = std::move(split.scoring[i]);
    if (!split.labels.empty()) split.labels[kept] = split.labels[i];
    ++kept;
  }
  const std::size_t removed = split.scoring.size() - kept;
  split.scoring.resize(kept);
  if (!split.labels.empty()) split.labels.resize(kept);
  return removed;
}

/// Decides which samples of --data calibrate the model and which score it. With --activations, all samples score. With
/// --test-data, all samples calibrate, and the samples of --test-data score. With --calibrate N, the first N samples
/// calibrate and the rest score. With --labels alone, the first half calibrates and the second half scores. In all
/// other cases, all samples calibrate.
Result<Split> split_samples(const CalibrationWhat& what, const Graph& graph,
                            const std::vector<clients::InputDescription>& inputs, bool quiet) {
  Split split;
  MILLRACE_ASSIGN(split.calibration, read_frames("--data", what.data, inputs, quiet));
  const std::size_t all = split.calibration.size();
  const bool apart = !what.test_data.empty(), declared = !what.activations.empty();
  if (apart) {
    MILLRACE_ASSIGN(split.scoring, read_frames("--test-data", what.test_data, inputs, quiet));
  }
  std::size_t first = all;
  if (declared)
    first = 0;
  else if (what.calibrate)
    first = *what.calibrate;
  else if (!apart && !what.labels.empty())
    first = all / 2;
  if ((first == 0 && !declared) || first > all)
    return invalid("--data holds " + std::to_string(all) + " samples, of which " + std::to_string(first) +
                   " would calibrate; "
                   "give more samples, or another number with --calibrate");
  if (!apart)
    split.scoring.assign(
        std::make_move_iterator(split.calibration.begin() + static_cast<std::ptrdiff_t>(first)),
        std::make_move_iterator(split.calibration.end()));
  split.calibration.resize(first);
  if (what.labels.empty()) return split;
  const auto& shape = graph.output_signatures[0].shape;
  MILLRACE_ASSIGN(split.labels, read_labels(what.labels, compiler::graph::elements(shape)));
  const std::size_t wanted = apart ? split.scoring.size() : all;
  if (split.labels.size() != wanted)
    return invalid("--labels " + what.labels.string() + " holds " + std::to_string(split.labels.size()) +
                   " labels for the " + std::to_string(wanted) + " samples of " +
                   (apart ? "--test-data" : "--data"));
  if (!apart)
    split.labels.erase(split.labels.begin(), split.labels.begin() + static_cast<std::ptrdiff_t>(first));
  if (split.scoring.empty())
    return invalid(
        "--labels: no samples are left to measure the accuracy; "
        "calibrate with fewer samples");
  return split;
}

Result<quantize::Options> options_of(const CalibrationWhat& what) {
  quantize::Options options;
  if (!what.activations.empty()) {
    options.declared = quantize::fixed_point(what.activations);
    if (!options.declared)
      return invalid("--activations " + what.activations +
                     ": give an integer type from int2 to int8 and 0 to 16 bits after the binary point, "
                     "such as int8:7");
  }
  options.weight_bits = static_cast<int>(what.bits);
  options.method = what.method == "minmax"    ? quantize::Method::kMinMax
                   : what.method == "entropy" ? quantize::Method::kEntropy
                                              : quantize::Method::kPercentile;
  options.percent = what.percent;
  options.equalise = what.equalise;
  options.correct_bias = !what.no_bias_correction;
  options.keep_float = what.keep_float;
  options.keep_8bit = what.keep_8bit;
  return options;
}

}  // namespace

Result<Calibrated> calibrate(const std::filesystem::path& model, const CalibrationWhat& what, bool quiet) {
  MILLRACE_ASSIGN(auto bytes, read_file(model, kMaxModelBytes));
  auto imported = compiler::import_onnx(std::move(bytes), model.stem().string(), model.parent_path(),
                                        compiler::FloatModel::kTaken);
  if (!imported.ok()) return imported.error().within(model.string());
  MILLRACE_ASSIGN(const auto inputs, describe_inputs(model, *imported));
  Split split;
  if (what.data.empty() && what.activations.empty())
    return invalid(
        "--data is missing: give samples of the model's inputs, "
        "or --activations for weights that are whole numbers");
  if (!what.data.empty()) {
    MILLRACE_ASSIGN(split, split_samples(what, *imported, inputs, quiet));
  }
  std::size_t left_out = 0;
  if (what.activations.empty() && !split.scoring.empty()) {
    left_out = remove_calibrating(split);
    if (split.scoring.empty())
      return invalid(
          "every sample that would measure the accuracy also calibrates; give other samples with " +
          std::string(what.test_data.empty() ? "--data" : "--test-data"));
  }
  Calibrated result;
  quantize::Summary& summary = result.summary;
  summary.model = model.stem().string();
  MILLRACE_ASSIGN(summary.options, options_of(what));
  summary.calibration_frames = split.calibration.size();
  auto quantised = quantize::quantise(*imported, summary.options.declared ? split.scoring : split.calibration,
                                      summary.options);
  if (!quantised.ok()) return quantised.error().within(model.string());
  summary.quantised = std::move(*quantised);
  if (!summary.options.declared && split.calibration.size() < kFewSamples)
    summary.quantised.notes.push_back(
        "only " + std::to_string(split.calibration.size()) +
        (split.calibration.size() == 1 ? " sample calibrates" : " samples calibrate") +
        "; take 100 or more samples that resemble the model's later inputs");
  if (left_out > 0)
    summary.quantised.notes.push_back("samples used for calibration do not measure the accuracy: " +
                                      std::to_string(left_out) + " left out");
  if (!split.scoring.empty()) {
    MILLRACE_ASSIGN(summary.score, quantize::score(summary.quantised.floats, summary.quantised.graph,
                                                   split.scoring, split.labels));
  }
  auto written = compiler::export_onnx(summary.quantised.graph);
  if (!written.ok()) return written.error().within(model.string());
  result.onnx = std::move(*written);
  return result;
}

Status quantise_first(const PlanWhat& what, bool quiet, compiler::ModelOptions& options, std::ostream& out) {
  if (!what.calibration.given()) return {};
  if (!options.assume.empty())
    return invalid(
        "--assume contradicts --data and --activations, which quantise the model; leave --assume out");
  MILLRACE_ASSIGN(Calibrated made, calibrate(what.model, what.calibration, quiet));
  options.quantised = std::make_shared<const std::vector<std::byte>>(std::move(made.onnx));
  if (!quiet) out << quantize::text(made.summary) << '\n';
  return {};
}

}  // namespace millrace::cli
