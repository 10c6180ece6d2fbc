// Small hand-made programs for tests that need a program but no model: valid, deterministic and quick to run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// quantise -> `layers` 3x3 convolutions in int8 with `channels` channels -> dequantise, with a max pool
/// after the first convolution. The input is float32 "x" [8, 8, 2], the output float32 "y" [4, 4, channels].
/// The weights are drawn from `seed`.
kernels::Program chain_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// Like chain_program(), but the results of the first and the last convolution are added at the end: a skip
/// connection over all layers between.
kernels::Program skip_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// conv0, then two branches (conv1 and conv2; conv3) whose results are added, then conv4.
kernels::Program branch_program(std::uint32_t channels = 4, std::uint32_t seed = 1);

/// quantise -> convolution -> dequantise, softmax and quantise on the host -> convolution -> dequantise; from
/// "x" to "y" as above.
kernels::Program interrupted_program();

/// The program with other weights in its `layer`th convolution. Throws std::runtime_error if there is none.
kernels::Program with_other_weights(kernels::Program program, std::size_t layer);

/// The program with other weights in every convolution: another version of the model that differs on every
/// card.
kernels::Program trained_again(kernels::Program program);

/// A program with one block of every operation.
kernels::Program every_operation_program();

}  // namespace millrace::tests
