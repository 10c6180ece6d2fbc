// LeNet-5 as a program with random weights, for tests and benchmarks without a model file. Sizes and shapes are the
// real ones.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// Returns LeNet-5: float32 "x" [28, 28, 1] -> quantise -> padded 5x5 convolution to 6 channels, pool, 5x5 convolution
/// to 16 channels, pool, fully connected layers with 120, 84 and 10 outputs -> dequantise to "y".
kernels::Program lenet_program();

/// Returns the bytes of lenet5_qdq_s8_pow2.onnx (in tests/vectors) as if the model had been trained again: some of the
/// 48,000 weights of the first fully connected layer are changed. Returns "" if the file lacks these weights.
std::string lenet_trained_again();

}  // namespace millrace::tests
