// The specification as code: every block of program.hpp as the plainest loops that are obviously right. The code is
// slow on purpose. The fast kernels, the emulated cards and the hardware must equal it byte for byte.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/program/program.hpp"

namespace millrace::kernels::reference {

using Buffer = std::vector<std::byte>;

/// Runs one frame of a program that validate() accepts. `inputs` are in the order of program.inputs, each of exactly
/// its tensor's storage_bytes(). The result is in the order of program.outputs. `observe`, if not empty, is called with
/// every tensor, inputs included, once the tensor's value is known. The function is pure and may run on any thread.
std::vector<Buffer> run(const Program& program, const std::vector<Buffer>& inputs,
                        const std::function<void(TensorIndex, const Buffer&)>& observe = {});

/// Applies the step function of one channel to one accumulator.
std::int64_t requantise(const Requantise& r, std::int64_t acc, std::size_t channel);

}  // namespace millrace::kernels::reference
