// Small hand-made programs for tests that need a program but no model: valid, deterministic and quick to run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// Returns a chain: quantise -> `layers` 3x3 convolutions in int8 with `channels` channels -> dequantise, with a max
/// pool after the first convolution. The input is float32 "x" [8, 8, 2], the output float32 "y" [4, 4, channels]. The
/// weights are random, from `seed`.
kernels::Program chain_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// Returns a chain_program() with a skip connection: the results of the first and the last convolution are added.
kernels::Program skip_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// Returns a program with two branches: after conv0, one branch has conv1 and conv2, the other has conv3. Their results
/// are added and go to conv4.
kernels::Program branch_program(std::uint32_t channels = 4, std::uint32_t seed = 1);

/// Returns a program that leaves the card and comes back to it: quantise -> convolution -> dequantise, softmax and
/// quantise on the host -> convolution -> dequantise. The input is "x" and the output "y", as in chain_program().
kernels::Program interrupted_program();

/// Returns the program with other weights in its `layer`th convolution. Throws std::runtime_error if there is none.
kernels::Program with_other_weights(kernels::Program program, std::size_t layer);

/// Returns the program with other weights in every convolution. The result is a version of the model that differs from
/// the first one on every card.
kernels::Program trained_again(kernels::Program program);

/// Returns a program with one block of every operation.
kernels::Program every_operation_program();

}  // namespace millrace::tests
