// Puts parameters inside or outside the FPGA images. If they are outside, a retrained model needs no new hardware.
#pragma once

#include <cstdint>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Sets the placement of every block that has parameters. Also prepares each block for other parameters of the same
/// types: it gets a bias and a requantisation for each output channel, and accumulators wide enough for all weights of
/// this type. The program's results stay the same. kUnsupported names a block whose sums would not fit in 32 bits.
Status place_parameters(kernels::Program& program, kernels::Placement placement);

/// Sets the placement of one block and prepares it for other parameters; changes no other block and no tensor. Also
/// returns kUnsupported if the block has no parameters, or if its sums are not requantised and so would get wider.
Status place_parameters(kernels::Program& program, std::uint32_t block, kernels::Placement placement);

}  // namespace millrace::compiler
