// LeNet-5 as a program, with random weights: the size and shape of the real thing, for tests and benchmarks
// without a file.
#pragma once

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// float32 "x" [28, 28, 1] -> quantise -> conv 5x5x6 (padded), pool, conv 5x5x16, pool, 120, 84, 10 ->
/// dequantise "y".
kernels::Program lenet_program();

}  // namespace millrace::tests
