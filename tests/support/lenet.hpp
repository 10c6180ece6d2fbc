// LeNet-5 as a program with random weights: the real size and shape, for tests and benchmarks without a model
// file.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// float32 "x" [28, 28, 1] -> quantise -> conv 5x5x6 (padded), pool, conv 5x5x16, pool, 120, 84, 10 ->
/// dequantise "y".
kernels::Program lenet_program();

/// The bytes of tests/vectors' lenet5_qdq_s8_pow2.onnx with some of the 48,000 weights of its first fully
/// connected layer changed, as if it had been trained again. Empty if the file does not have these weights.
std::string lenet_trained_again();

}  // namespace millrace::tests
