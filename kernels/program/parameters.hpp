// A program's parameters are the numbers that change when its model is trained again. The program without
// them is its topology. Hardware made for a topology can run with other parameters if it loads them.
#pragma once

#include "kernels/program/program.hpp"

namespace millrace::kernels {

/// Whether an operation has parameters. These do: a convolution (weights, bias and requantisation), a sum
/// pool or rescale (requantisation) and a lookup (its table). The constants of all others belong to the
/// topology.
bool has_parameters(const Operation& operation);

/// Whether at least one block has parameters that are not baked.
bool has_parameters(const Program& program);

/// The program with neutral parameters (0, or -1 for bipolar weights) in every block that is not baked, and
/// without the tensors' scales and zero points. If all blocks are baked, the program is its own topology. The
/// number of entries (one, or one per channel), types, forms and bounds stay, because hardware depends on
/// them. The topology of a valid program is valid.
Program topology_of(const Program& program);

/// "baked", "loaded", "streamed".
const char* to_string(Placement placement);

}  // namespace millrace::kernels
