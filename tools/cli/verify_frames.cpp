#include "tools/cli/verify_frames.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "runtime/base/npy.hpp"
#include "tools/clients/samples.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;

namespace {

constexpr std::uint64_t kMostRandomBytes = 1ULL << 30U;

/// Reads the frames of a .npy file, each of signature.bytes() bytes. The array's first axis counts frames,
/// and its other axes must be the model's shape.
Result<std::vector<Buffer>> read_frames(const std::filesystem::path& file,
                                        const plan::TensorSignature& signature) {
  MILLRACE_ASSIGN(const NpyArray array, read_npy(file));
  const auto mismatch = [&](const std::string& what) {
    return Error(ErrorCode::kInvalidInput,
                 file.string() + ": " + what + " for tensor '" + signature.name + "'");
  };
  const std::string wanted = clients::descr_of(signature.datatype);
  if (array.descr != wanted) {
    return mismatch("elements are '" + array.descr + "', " + signature.datatype + " ('" + wanted +
                    "') is needed");
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

Result<std::vector<FrameData>> make_inputs(const VerifyCommand& command, const plan::ModelInfo& model,
                                           std::uint32_t random_frames) {
  std::vector<FrameData> frames;
  if (command.inputs.empty()) {
    std::mt19937_64 random(command.seed);
    const std::uint32_t count = command.frames == 0 ? random_frames : command.frames;
    std::uint64_t bytes = 0;
    for (const plan::TensorSignature& input : model.inputs) bytes += input.bytes();
    if (const std::uint64_t most = kMostRandomBytes / std::max<std::uint64_t>(bytes, 1);
        count > std::max<std::uint64_t>(most, 1)) {
      return Error(ErrorCode::kInvalidInput,
                   "--frames " + std::to_string(count) +
                       ": random frames are kept in memory, "
                       "and for model '" +
                       model.name + "' at most " + std::to_string(std::max<std::uint64_t>(most, 1)) +
                       " random frames are allowed; run verify again with another --seed for more");
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      FrameData frame;
      for (const plan::TensorSignature& input : model.inputs) frame.push_back(random_tensor(input, random));
      frames.push_back(std::move(frame));
    }
    return frames;
  }
  if (model.inputs.size() == 1 && command.inputs.size() == 1 && !command.inputs[0].ends_with(".npz")) {
    MILLRACE_ASSIGN(std::vector<Buffer> read, read_frames(command.inputs[0], model.inputs[0]));
    for (Buffer& input : read) frames.push_back({std::move(input)});
  } else {
    std::vector<clients::InputDescription> inputs;
    for (const plan::TensorSignature& input : model.inputs)
      inputs.push_back({input.name, input.datatype, input.shape, {}, {}, {}});
    auto read = clients::read_model_samples(command.inputs, inputs);
    if (!read.ok()) return read.error().within("--inputs");
    frames = std::move(read->frames);
  }
  if (command.frames != 0 && command.frames < frames.size()) frames.resize(command.frames);
  return frames;
}

/// Returns the distance of two probabilities, in steps of the softmax's input scores. One step changes a score by
/// `scale`. If one score rises by a step and all other scores fall by a step, the logarithm of the odds of the first
/// score's class grows by 2 * scale. No other change of at most one step per score changes the logarithm more.
double steps_between_probabilities(double a, double b, double scale) {
  constexpr double kRounding = 1e-6;                // the relative rounding error of a float32 softmax
  constexpr double kLeast = 1e-37;                  // about the smallest normal float32
  constexpr double kLeastRest = 1.0 / (1U << 24U);  // float32 has no number between 1 - kLeastRest and 1
  if (std::isnan(a) || std::isnan(b)) return INFINITY;
  if (std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b))) return 0;
  const auto log_odds = [&](double p) {
    return std::log(std::max(p, kLeast)) - std::log(std::max(1 - p, kLeastRest));
  };
  return std::abs(log_odds(a) - log_odds(b)) / (2 * scale);
}

float float_at(const Buffer& buffer, std::uint64_t index) {
  float value = 0;
  std::memcpy(&value, buffer.data() + index * sizeof value, sizeof value);
  return value;
}

/// Returns the difference that the rounding of float32 sums explains in an output whose step is unknown: a millionth of
/// the largest expected element.
double rounding_of(const plan::TensorSignature& output, const Buffer& expected) {
  constexpr double kRounding = 1e-6;
  float largest = 0;
  for (std::uint64_t i = 0; i < output.elements(); ++i)
    largest = std::max(largest, std::abs(float_at(expected, i)));
  return kRounding * static_cast<double>(largest);
}

/// Returns the distance of two output elements in steps of the output. If the step is unknown, returns 0 if they differ by
/// at most `rounding`, otherwise infinity.
double steps_between(const std::string& datatype, const std::byte* a, const std::byte* b,
                     const std::optional<OutputStep>& step, double rounding) {
  const auto read = [](auto zero, const std::byte* from) {
    std::memcpy(&zero, from, sizeof zero);
    return static_cast<double>(zero);
  };
  const auto distance = [&](auto zero) { return std::abs(read(zero, a) - read(zero, b)); };
  if (datatype == "FP32" && !step) return distance(float{}) <= rounding ? 0 : INFINITY;
  if (datatype == "FP32" && step->softmax)
    return steps_between_probabilities(read(float{}, a), read(float{}, b), static_cast<double>(step->scale));
  if (datatype == "FP32") {
    const double steps = distance(float{}) / static_cast<double>(step->scale);
    // Two quantised values differ by a whole number of steps. A small deviation from a whole number is an error of
    // float32, so round it away.
    return std::abs(steps - std::round(steps)) < 1e-3 ? std::round(steps)
                                                      : (std::isnan(steps) ? INFINITY : steps);
  }
  if (datatype == "UINT8" || datatype == "BOOL") return distance(std::uint8_t{});
  if (datatype == "INT8") return distance(std::int8_t{});
  if (datatype == "UINT16") return distance(std::uint16_t{});
  if (datatype == "INT16") return distance(std::int16_t{});
  if (datatype == "INT64") return distance(std::int64_t{});
  return distance(std::int32_t{});
}

void compare_expected(const plan::TensorSignature& output, const Buffer& got, const Buffer& expected,
                      const std::optional<OutputStep>& step, std::uint32_t tolerance, Findings& findings) {
  const std::uint64_t element = output.bytes() / std::max<std::uint64_t>(output.elements(), 1);
  const double rounding = output.datatype == "FP32" && !step ? rounding_of(output, expected) : 0;
  for (std::uint64_t i = 0; i < output.elements(); ++i) {
    const double steps = steps_between(output.datatype, got.data() + i * element,
                                       expected.data() + i * element, step, rounding);
    ++findings.expect_compared;
    findings.expect_largest = std::max(findings.expect_largest, steps);
    if (steps > tolerance) ++findings.expect_mismatches;
  }
}

}  // namespace

std::uint64_t differing_bytes(const Buffer& a, const Buffer& b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1U : 0U;
  return count;
}

Result<VerifyFrames> make_frames(const VerifyCommand& command, const plan::ModelInfo& model,
                                 std::uint32_t random_frames) {
  VerifyFrames frames;
  MILLRACE_ASSIGN(frames.inputs, make_inputs(command, model, random_frames));
  if (command.expect.empty()) return frames;
  MILLRACE_ASSIGN(frames.expected, read_frames(command.expect, model.outputs.at(0)));
  if (command.inputs.empty()) return Error(ErrorCode::kInvalidInput, "--expect needs --inputs");
  if (frames.expected.size() < frames.inputs.size()) {
    return Error(ErrorCode::kInvalidInput, command.expect.string() + " has " +
                                               std::to_string(frames.expected.size()) + " frames for " +
                                               std::to_string(frames.inputs.size()) + " inputs");
  }
  return frames;
}

void compare_frame(const ReferenceModel& reference, const plan::ModelInfo& model,
                   const VerifyCommand& command, const VerifyFrames& frames, std::uint64_t index,
                   const FrameData& outputs, const FrameData& wanted, Findings& findings) {
  std::uint64_t differing = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::uint64_t bytes = differing_bytes(outputs[o], wanted[o]);
    if (bytes != 0 && findings.mismatches == 0 && differing == 0) {
      const auto at = std::mismatch(outputs[o].begin(), outputs[o].end(), wanted[o].begin()).first;
      const std::uint64_t element = model.outputs[o].bytes() / model.outputs[o].elements();
      findings.first_frame = index;
      findings.first_output = model.outputs[o].name;
      findings.first_element = static_cast<std::uint64_t>(at - outputs[o].begin()) / element;
      findings.difference = reference.first_difference(frames.inputs[index]);
    }
    differing += bytes;
  }
  findings.mismatches += differing;
  findings.mismatched_frames += differing != 0 ? 1U : 0U;
  ++findings.frames;
  if (index < frames.expected.size()) {
    findings.expected = true;
    compare_expected(model.outputs[0], outputs[0], frames.expected[index], reference.output_step(0),
                     command.tolerance, findings);
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

}  // namespace millrace::cli
