// Helps tests to use the shared models: finds a model and its inputs, compiles the model whole, and runs it.
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

/// Returns the folder that MILLRACE_MODELS names, or an empty path if the variable is not set or names no models.
std::filesystem::path models_directory();

/// Frames of float32 elements, in the layout of the model's input or output.
struct Frames {
  std::size_t count = 0;
  std::size_t elements = 0;  // in one frame
  std::vector<float> data;
  const float* frame(std::size_t i) const { return data.data() + i * elements; }
};

/// Loads all input frames that the shared models include for a net, such as "lenet5_mnist". The frames are preprocessed
/// as the net's info.json says.
Result<Frames> load_frames(const std::string& net);
/// Loads the input frames of a net of pictures from another file, which contains uint8 pictures.
Result<Frames> load_frames(const std::string& net, const std::filesystem::path& pictures);

/// Reads a float32 .npy file whose first axis counts frames.
Result<Frames> load_npy(const std::filesystem::path& path);
Status save_npy(const Frames& frames, const std::vector<std::uint64_t>& frame_shape,
                const std::filesystem::path& path);

/// Imports and lowers a model.
Result<compiler::Model> compile_model(const std::filesystem::path& onnx);

/// Runs the first `count` frames with kernels/reference and returns the float32 outputs.
Frames run_reference(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// Runs the first `count` frames with kernels/fast at its best SIMD level, which is quick enough for many frames.
Frames run_fast(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// Checks that Node.js and its package onnxruntime-node are installed, without which some tests fail. If not, returns
/// kEnvironment with a message that names `tools/setup test`.
Status onnxruntime_is_installed();

/// Runs all `inputs` with ONNX Runtime's default optimisations in tests/node/run_model.js and returns the outputs.
Result<Frames> run_onnxruntime(const std::filesystem::path& onnx, const Frames& inputs,
                               const std::vector<std::int64_t>& shape);

/// Returns the scale of the program's first output if that output was quantised; otherwise 0.
double output_step(const kernels::Program& program);

/// How far two sets of outputs differ. Differences are counted in steps of the quantised output's scale; without a
/// scale, only equal outputs are counted.
struct Agreement {
  std::size_t outputs = 0, equal = 0, within_one = 0;
  double worst_steps = 0;
  std::size_t first_difference = 0;  // the index of the first output that differs, if any does
};
Agreement compare(const Frames& got, const Frames& wanted, std::size_t frames, double step);

}  // namespace millrace::golden
