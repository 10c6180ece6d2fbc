// Compiles a small model whole, runs it with kernels/reference, and compares the outputs with ONNX's definition of the
// operators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "onnx_model.hpp"

namespace millrace::tests {

inline constexpr int kInt8 = onnx::TensorProto::INT8;
inline constexpr int kUint8 = onnx::TensorProto::UINT8;
inline constexpr int kInt32 = onnx::TensorProto::INT32;

using Ints = std::vector<std::int64_t>;

std::vector<std::int64_t> random_integers(std::size_t count, std::int64_t lowest, std::int64_t highest,
                                          unsigned seed);

std::vector<float> random_floats(std::size_t count, unsigned seed);

struct Compiled {
  compiler::graph::Graph imported;
  compiler::graph::Graph lowered;
  kernels::Program program;
};

Result<Compiled> compile(const OnnxModel& model);

/// Runs one frame with kernels/reference and returns the first output.
std::vector<float> run(const kernels::Program& program, const std::vector<float>& input);

/// Compiles the model and runs a few random frames. Outputs may differ from ONNX's definition of the operators by at
/// most `tolerance`, in the unit of the outputs. Returns the program so that the test can inspect it.
kernels::Program expect_meaning(const OnnxModel& model, double tolerance = 0);

std::size_t count_blocks(const kernels::Program& program, const char* name);

/// Expects that the compiler refuses the model with kUnsupported and that the message contains each text in `says`.
void expect_refused(const OnnxModel& model, const std::vector<std::string>& says);

/// Returns a model with only a quantised input of shape 1 x `channels` x 8 x 7.
OnnxModel with_image(std::int64_t channels, int type = kInt8, std::int64_t zero = 3);

std::string conv_weights(OnnxModel& m, std::int64_t out, std::int64_t in, std::int64_t kernel,
                         const std::vector<float>& scale = {0.25F});

}  // namespace millrace::tests
