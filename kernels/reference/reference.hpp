// The specification, as code: every block of program.hpp as the plainest loops that are obviously right.
//
// Slow on purpose. What the fast kernels, the emulated cards and the hardware must equal, byte for byte.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/program/program.hpp"

namespace millrace::kernels::reference {

using Buffer = std::vector<std::byte>;

/// Runs one frame of a program that validate() accepts. `inputs` in the order of program.inputs, each of
/// exactly the tensor's storage_bytes(); result in the order of program.outputs. `observe`, where given, sees
/// every tensor once it is known, inputs included. Pure; any thread.
std::vector<Buffer> run(const Program& program, const std::vector<Buffer>& inputs,
                        const std::function<void(TensorIndex, const Buffer&)>& observe = {});

/// One application of the step function for channel c.
std::int64_t requantise(const Requantise& r, std::int64_t acc, std::size_t channel);

}  // namespace millrace::kernels::reference
