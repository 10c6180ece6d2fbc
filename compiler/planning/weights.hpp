// Where a model's parameters are placed: in the image, or outside of it, so that a model trained anew needs
// no new hardware.
#pragma once

#include <cstdint>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Sets the placement of every block that has parameters, and makes the program one that any such numbers
/// fit: a bias and a requantisation for each output channel, accumulators that hold the sums of all weights
/// of their type. What the program computes stays the same. kUnsupported names the block whose sums would not
/// fit in 32 bits.
Status place_parameters(kernels::Program& program, kernels::Placement placement);

/// The same of one block, which changes no other and no tensor. kUnsupported too where it has no parameters,
/// or where its sums leave it as they are and would be wider for those who read them.
Status place_parameters(kernels::Program& program, std::uint32_t block, kernels::Placement placement);

}  // namespace millrace::compiler
