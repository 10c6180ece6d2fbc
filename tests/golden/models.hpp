// The shared model zoo: finds a model and its inputs, compiles it to a whole-model program, runs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::golden {

/// $MILLRACE_MODELS; empty where it is not set or holds no models.
std::filesystem::path models_directory();

/// Frames as the model wants them: float32, the model's own layout.
struct Frames {
  std::size_t count = 0;
  std::size_t elements = 0;  // of one frame
  std::vector<float> data;
  const float* frame(std::size_t i) const { return data.data() + i * elements; }
};

/// All inputs supplied for a net ("lenet5_mnist"), prepared as its info.json says.
Result<Frames> load_frames(const std::string& net);

/// A float32 .npy whose first axis counts frames.
Result<Frames> load_npy(const std::filesystem::path& path);
Status save_npy(const Frames& frames, const std::vector<std::uint64_t>& frame_shape,
                const std::filesystem::path& path);

/// Import, all passes, build_program.
struct Compiled {
  compiler::graph::Graph graph;  // lowered
  kernels::Program program;
};
Result<Compiled> compile_model(const std::filesystem::path& onnx);

/// The reference's float32 outputs for the first `count` frames.
Frames run_reference(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// The same through kernels/fast at its best level: for thousands of frames.
Frames run_fast(const kernels::Program& program, const Frames& inputs, std::size_t count);

/// kEnvironment where Node.js or its package is missing: a test without them fails, naming `tools/setup
/// test`.
Status onnxruntime_is_installed();

/// ONNX Runtime's outputs for all `inputs` (tests/node/run_model.js), optimised as it is by default. Any
/// error is a failure.
Result<Frames> run_onnxruntime(const std::filesystem::path& onnx, const Frames& inputs,
                               const std::vector<std::int64_t>& shape);

/// The scale of the program's first output where a quantiser gives it; 0 where none does.
double output_step(const kernels::Program& program);

/// How two sets of outputs compare, in steps of `step` (the scale of the quantised output; 0: only equality
/// counts).
struct Agreement {
  std::size_t outputs = 0, equal = 0, within_one = 0;
  double worst_steps = 0;
  std::size_t first_difference = 0;  // output index, where there is one
};
Agreement compare(const Frames& got, const Frames& wanted, std::size_t frames, double step);

}  // namespace millrace::golden
