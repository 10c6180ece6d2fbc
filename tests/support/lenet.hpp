// LeNet-5 as a program, with random weights: the size and shape of the real thing, for tests and benchmarks
// without a file.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// float32 "x" [28, 28, 1] -> quantise -> conv 5x5x6 (padded), pool, conv 5x5x16, pool, 120, 84, 10 ->
/// dequantise "y".
kernels::Program lenet_program();

/// tests/vectors' LeNet-5 (lenet5_qdq_s8_pow2.onnx) with some of its first fully connected layer's 48,000
/// weights changed, as if it had been trained again: the bytes of an ONNX file. Empty where that is not what
/// it holds.
std::string lenet_trained_again();

}  // namespace millrace::tests
