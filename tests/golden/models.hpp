// The shared model zoo: finds a model and its inputs, compiles it to a whole-model program, runs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/front/read_model.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::golden {

/// $MILLRACE_MODELS; an empty path if it is not set or holds no models.
std::filesystem::path models_directory();

/// Frames in float32 and in the model's own layout.
struct Frames {
  std::size_t count = 0;
  std::size_t elements = 0;  // in one frame
  std::vector<float> data;
  const float* frame(std::size_t i) const { return data.data() + i * elements; }
};

/// All inputs supplied for a net (for example "lenet5_mnist"), preprocessed as its info.json says.
Result<Frames> load_frames(const std::string& net);

/// Reads a float32 .npy file whose first axis counts frames.
Result<Frames> load_npy(const std::filesystem::path& path);
Status save_npy(const Frames& frames, const std::vector<std::uint64_t>& frame_shape,
                const std::filesystem::path& path);

/// Imports and lowers a model.
Result<compiler::Model> compile_model(const std::filesystem::path& onnx);

/// The reference's float32 outputs for the first `count` frames.
Frames run_reference(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// Like run_reference(), with kernels/fast at its best SIMD level, which is quick enough for thousands of
/// frames.
Frames run_fast(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// Returns kEnvironment and names `tools/setup test` if Node.js or its package is missing. Tests that need
/// them then fail.
Status onnxruntime_is_installed();

/// ONNX Runtime's outputs for all `inputs` (tests/node/run_model.js), with its default optimisations. Any
/// error is returned.
Result<Frames> run_onnxruntime(const std::filesystem::path& onnx, const Frames& inputs,
                               const std::vector<std::int64_t>& shape);

/// The scale of the program's first output if a quantiser produces it; otherwise 0.
double output_step(const kernels::Program& program);

/// How far two sets of outputs differ, in steps of `step`, the scale of the quantised output. If `step` is 0,
/// only equality counts.
struct Agreement {
  std::size_t outputs = 0, equal = 0, within_one = 0;
  double worst_steps = 0;
  std::size_t first_difference = 0;  // index of the output, if any differs
};
Agreement compare(const Frames& got, const Frames& wanted, std::size_t frames, double step);

}  // namespace millrace::golden
