// `millrace verify`: frames through the cards and through kernels/reference; every byte of every output must
// agree.
//
// JSON: schema, model, fidelity, frames, mismatches (bytes that differ from the reference),
// mismatched_frames, first_difference (frame, output, element; partition, block, nodes, tensor where
// kernels/fast shows it too), expect (compared, mismatches, largest_steps) where --expect was given, epoch
// and cards of the run.
#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <random>

#include "runtime/base/log.hpp"
#include "runtime/base/npy.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/emulated_cluster.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/verify_model.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;
namespace json = boost::json;

namespace {

constexpr std::uint32_t kRandomFrames = 16;
constexpr std::chrono::seconds kFrameBound{60};  // far more than any model needs on emulated cards

using FrameData = std::vector<Buffer>;  // by the model's inputs or outputs

std::string descr_of(const std::string& datatype) {
  static const std::map<std::string, std::string> names = {
      {"FP32", "<f4"},  {"UINT8", "|u1"}, {"INT8", "|i1"}, {"UINT16", "<u2"},
      {"INT16", "<i2"}, {"INT32", "<i4"}, {"BOOL", "|b1"}};
  const auto found = names.find(datatype);
  return found == names.end() ? "" : found->second;
}

/// The file's frames, each of signature.bytes(). The first axis is the frames; the rest is the model's shape.
Result<std::vector<Buffer>> read_frames(const std::filesystem::path& file,
                                        const plan::TensorSignature& signature) {
  MILLRACE_ASSIGN(const NpyArray array, read_npy(file));
  const auto mismatch = [&](const std::string& what) {
    return Error(ErrorCode::kInvalidInput,
                 file.string() + ": " + what + " for tensor '" + signature.name + "'");
  };
  if (array.descr != descr_of(signature.datatype)) {
    return mismatch("elements are '" + array.descr + "', " + signature.datatype + " ('" +
                    descr_of(signature.datatype) + "') is needed");
  }
  const std::uint64_t bytes = signature.bytes();
  if (array.shape.empty() || bytes == 0 || array.shape[0] == 0 ||
      array.data.size() != array.shape[0] * bytes) {
    return mismatch("a first axis of frames, each of " + std::to_string(signature.elements()) +
                    " elements, is needed");
  }
  std::vector<Buffer> frames;
  for (std::uint64_t i = 0; i < array.shape[0]; ++i) {
    const auto begin = array.data.begin() + static_cast<std::ptrdiff_t>(i * bytes);
    frames.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
  return frames;
}

Buffer random_tensor(const plan::TensorSignature& signature, std::mt19937_64& random) {
  Buffer bytes(signature.bytes());
  if (signature.datatype == "FP32") {
    std::uniform_real_distribution<float> values(-4.0F, 4.0F);
    for (std::uint64_t i = 0; i < signature.elements(); ++i) {
      const float value = values(random);
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  } else {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xffU);
  }
  return bytes;
}

Result<std::vector<FrameData>> make_inputs(const VerifyCommand& command, const plan::ModelInfo& model) {
  std::vector<FrameData> frames;
  if (command.inputs.empty()) {
    std::mt19937_64 random(command.seed);
    const std::uint32_t count = command.frames == 0 ? kRandomFrames : command.frames;
    for (std::uint32_t i = 0; i < count; ++i) {
      FrameData frame;
      for (const plan::TensorSignature& input : model.inputs) frame.push_back(random_tensor(input, random));
      frames.push_back(std::move(frame));
    }
    return frames;
  }
  if (model.inputs.size() != 1) {
    return Error(ErrorCode::kUnsupported, "--inputs: model '" + model.name + "' has " +
                                              std::to_string(model.inputs.size()) +
                                              " inputs, a file holds one; leave it out for random frames");
  }
  MILLRACE_ASSIGN(std::vector<Buffer> read, read_frames(command.inputs, model.inputs[0]));
  if (command.frames != 0 && command.frames < read.size()) read.resize(command.frames);
  for (Buffer& input : read) frames.push_back({std::move(input)});
  return frames;
}

std::uint64_t differing_bytes(const Buffer& a, const Buffer& b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1U : 0U;
  return count;
}

struct Findings {
  std::uint64_t frames = 0, mismatches = 0, mismatched_frames = 0;
  std::uint64_t first_frame = 0, first_element = 0;  // where mismatches > 0
  std::string first_output;
  std::optional<Difference> difference;
  bool expected = false;
  std::uint64_t expect_compared = 0, expect_mismatches = 0;
  double expect_largest = 0;
};

/// Distance of two elements in steps of the output.
double steps_between(const std::string& datatype, const std::byte* a, const std::byte* b, float scale) {
  const auto read = [](auto zero, const std::byte* from) {
    std::memcpy(&zero, from, sizeof zero);
    return static_cast<double>(zero);
  };
  const auto distance = [&](auto zero) { return std::abs(read(zero, a) - read(zero, b)); };
  if (datatype == "FP32") {
    const double steps = distance(float{}) / static_cast<double>(scale);
    // Quantised values are whole steps; what float32 adds to that is no difference.
    return std::abs(steps - std::round(steps)) < 1e-3 ? std::round(steps)
                                                      : (std::isnan(steps) ? INFINITY : steps);
  }
  if (datatype == "UINT8" || datatype == "BOOL") return distance(std::uint8_t{});
  if (datatype == "INT8") return distance(std::int8_t{});
  if (datatype == "UINT16") return distance(std::uint16_t{});
  if (datatype == "INT16") return distance(std::int16_t{});
  return distance(std::int32_t{});
}

void compare_expected(const plan::TensorSignature& output, const Buffer& got, const Buffer& expected,
                      float scale, std::uint32_t tolerance, Findings& findings) {
  const std::uint64_t element = output.bytes() / std::max<std::uint64_t>(output.elements(), 1);
  for (std::uint64_t i = 0; i < output.elements(); ++i) {
    const double steps =
        steps_between(output.datatype, got.data() + i * element, expected.data() + i * element, scale);
    ++findings.expect_compared;
    findings.expect_largest = std::max(findings.expect_largest, steps);
    if (steps > tolerance) ++findings.expect_mismatches;
  }
}

Status compare_frames(runtime::pipeline::Pipeline& pipeline, const ReferenceModel& reference,
                      const std::vector<FrameData>& inputs, const std::vector<Buffer>& expected,
                      const VerifyCommand& command, Findings& findings) {
  const plan::ModelInfo& model = pipeline.deployment().model;
  for (std::uint64_t index = 0; index < inputs.size(); ++index) {
    FrameData outputs;
    for (const plan::TensorSignature& output : model.outputs) outputs.emplace_back(output.bytes());
    runtime::pipeline::Frame frame;
    for (const Buffer& input : inputs[index]) frame.inputs.emplace_back(input);
    for (Buffer& output : outputs) frame.outputs.emplace_back(output);
    frame.deadline = runtime::pipeline::Clock::now() + kFrameBound;
    if (Status inferred = pipeline.infer(frame); !inferred.ok()) {
      return inferred.error().within("frame " + std::to_string(index));
    }
    const FrameData wanted = reference.run(inputs[index]);
    std::uint64_t differing = 0;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::uint64_t bytes = differing_bytes(outputs[o], wanted[o]);
      if (bytes != 0 && findings.mismatches == 0 && differing == 0) {
        const auto at = std::mismatch(outputs[o].begin(), outputs[o].end(), wanted[o].begin()).first;
        const std::uint64_t element = model.outputs[o].bytes() / model.outputs[o].elements();
        findings.first_frame = index;
        findings.first_output = model.outputs[o].name;
        findings.first_element = static_cast<std::uint64_t>(at - outputs[o].begin()) / element;
        findings.difference = reference.first_difference(inputs[index]);
      }
      differing += bytes;
    }
    findings.mismatches += differing;
    findings.mismatched_frames += differing != 0 ? 1U : 0U;
    ++findings.frames;
    if (index < expected.size()) {
      compare_expected(model.outputs[0], outputs[0], expected[index], reference.output_scale(0),
                       command.tolerance, findings);
    }
  }
  return {};
}

void print_json(const Findings& findings, const plan::Deployment& deployment, std::size_t cards,
                std::ostream& out) {
  json::object document{{"schema", 1},
                        {"model", deployment.model.name},
                        {"deployment_digest", deployment.digest},
                        {"fidelity", "functional"},
                        {"cards", cards},
                        {"frames", findings.frames},
                        {"mismatches", findings.mismatches},
                        {"mismatched_frames", findings.mismatched_frames}};
  if (findings.mismatches > 0) {
    json::object first{{"frame", findings.first_frame},
                       {"output", findings.first_output},
                       {"element", findings.first_element}};
    if (findings.difference) {
      first["partition"] = findings.difference->partition;
      first["block"] = findings.difference->block;
      first["tensor"] = findings.difference->tensor;
      first["nodes"] = json::value_from(findings.difference->nodes);
    }
    document["first_difference"] = std::move(first);
  }
  if (findings.expected) {
    document["expect"] = {
        {"compared", findings.expect_compared},
        {"mismatches", findings.expect_mismatches},
        {"largest_steps",
         std::isfinite(findings.expect_largest) ? json::value(findings.expect_largest) : json::value()}};
  }
  out << json::serialize(document) << '\n';
}

void print_text(const Findings& findings, const plan::Deployment& deployment, std::size_t cards,
                std::ostream& out) {
  out << deployment.model.name << ": " << findings.frames << " frames over " << cards
      << (cards == 1 ? " card" : " cards")
      << ", every output compared with kernels/reference: " << findings.mismatches << " bytes differ\n";
  if (findings.mismatches > 0) {
    out << "first difference: frame " << findings.first_frame << ", output '" << findings.first_output
        << "', element " << findings.first_element << '\n';
    if (const auto& d = findings.difference) {
      out << "  computed differently by kernels/fast too: partition '" << d->partition << "', block '"
          << d->block << "', tensor '" << d->tensor << "'";
      for (const std::string& node : d->nodes) out << "\n  ONNX node '" << node << "'";
      out << '\n';
    } else {
      out << "  kernels/fast agrees with the reference on this host: the cards or the links changed it\n";
    }
  }
  if (findings.expected) {
    out << "compared with the file given: " << findings.expect_mismatches << " of "
        << findings.expect_compared << " elements differ by more than allowed; largest difference "
        << findings.expect_largest << " steps\n";
  }
}

Status verdict(const Findings& findings) {
  if (findings.mismatches > 0) {
    std::string message = std::to_string(findings.mismatched_frames) + " of " +
                          std::to_string(findings.frames) + " frames differ from kernels/reference";
    if (findings.difference) message += ", first in block '" + findings.difference->block + "'";
    return Error(ErrorCode::kDoesNotFit, message);
  }
  if (findings.expect_mismatches > 0) {
    return Error(ErrorCode::kDoesNotFit, std::to_string(findings.expect_mismatches) + " of " +
                                             std::to_string(findings.expect_compared) +
                                             " elements are not as expected");
  }
  return {};
}

}  // namespace

Status run(const VerifyCommand& command, std::ostream& out) {
  if (command.fidelity != "functional") {
    return Error(ErrorCode::kUnsupported,
                 "--fidelity " + command.fidelity + ": only 'functional' exists in this version" +
                     (command.fidelity == "rtl" ? "; 'rtl' needs generated SystemVerilog" : ""));
  }
  MILLRACE_ASSIGN(plan::LoadedDeployment loaded, plan::load_deployment(command.deployment));
  const auto deployment = std::make_shared<const plan::LoadedDeployment>(std::move(loaded));
  const plan::ModelInfo& model = deployment->plan.model;
  MILLRACE_ASSIGN(const std::vector<FrameData> inputs, make_inputs(command, model));
  std::vector<Buffer> expected;
  if (!command.expect.empty()) {
    MILLRACE_ASSIGN(expected, read_frames(command.expect, model.outputs.at(0)));
    if (command.inputs.empty()) return Error(ErrorCode::kInvalidInput, "--expect needs --inputs");
    if (expected.size() < inputs.size()) {
      return Error(ErrorCode::kInvalidInput, command.expect.string() + " has " +
                                                 std::to_string(expected.size()) + " frames for " +
                                                 std::to_string(inputs.size()) + " inputs");
    }
  }

  plan::Cluster cluster = plan::emulated_cluster_for(deployment->plan);
  if (!command.cluster.empty()) {
    MILLRACE_ASSIGN(cluster, plan::load_cluster(command.cluster));
  }
  MILLRACE_TRY(runtime::emulator::select_backend(cluster));
  MILLRACE_ASSIGN(const runtime::pipeline::Images images, runtime::pipeline::read_images(*deployment));
  MILLRACE_ASSIGN(const ReferenceModel reference, ReferenceModel::make(*deployment, images));
  runtime::pipeline::PipelineOptions options;
  options.stuck_after = kFrameBound;
  MILLRACE_ASSIGN(const auto pipeline, runtime::pipeline::Pipeline::open(deployment, cluster, options));

  Findings findings;
  findings.expected = !expected.empty();
  MILLRACE_TRY(compare_frames(*pipeline, reference, inputs, expected, command, findings));
  const std::size_t cards = pipeline->status().cards.size();
  pipeline->stop(std::chrono::milliseconds(1000));
  if (!command.dump_tensors.empty()) {
    MILLRACE_TRY(reference.dump(inputs[findings.first_frame], command.dump_tensors));
    log::info("verify", "tensors of frame " + std::to_string(findings.first_frame) + " are in " +
                            command.dump_tensors.string());
  }
  if (command.common.json) {
    print_json(findings, deployment->plan, cards, out);
  } else {
    print_text(findings, deployment->plan, cards, out);
  }
  return verdict(findings);
}

}  // namespace millrace::cli
