// Places a model's parameters in the image, or outside of it, so that a retrained model needs no new
// hardware.
#pragma once

#include <cstdint>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Sets the placement of every block that has parameters. Also gives each block what other parameters of the
/// same types may need: a bias and a requantisation for each output channel, and accumulators that hold the
/// sums of any weights of their type. The program computes the same as before. kUnsupported names a block
/// whose sums would not fit in 32 bits.
Status place_parameters(kernels::Program& program, kernels::Placement placement);

/// The same for one block; changes no other block and no tensor. kUnsupported also if the block has no
/// parameters, or if it does not requantise its sums: wider sums would change the blocks that read them.
Status place_parameters(kernels::Program& program, std::uint32_t block, kernels::Placement placement);

}  // namespace millrace::compiler
