// Small programs made by hand, for tests that need one and no model: valid, deterministic, quick to run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/program/program.hpp"

namespace millrace::tests {

/// quantise -> `layers` of (convolution 3x3, int8, `channels`) -> dequantise; a max pool after the first. The
/// input is float32 "x" [8, 8, 2], the output float32 "y" [4, 4, channels]. Weights come from `seed`.
kernels::Program chain_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// As chain_program(), with an addition of the first and the last convolution's results before the end: a
/// connection that skips every layer between.
kernels::Program skip_program(std::uint32_t layers, std::uint32_t channels = 4, std::uint32_t seed = 1);

/// conv0, then conv1 and conv2 beside conv3, added, then conv4: two branches that meet.
kernels::Program branch_program(std::uint32_t channels = 4, std::uint32_t seed = 1);

/// quantise -> convolution -> dequantise, softmax, quantise on the host -> convolution -> dequantise; "x" to
/// "y" as above.
kernels::Program interrupted_program();

/// The program with other weights in its `layer`th convolution. Throws std::runtime_error where there is
/// none.
kernels::Program with_other_weights(kernels::Program program, std::size_t layer);

/// The program with other weights in every convolution: another version of the model, of which the part on
/// every card differs.
kernels::Program trained_again(kernels::Program program);

/// One block of every operation.
kernels::Program every_operation_program();

}  // namespace millrace::tests
