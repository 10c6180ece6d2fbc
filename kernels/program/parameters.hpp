// A program's parameters are the numbers that change when its model is trained again. The rest of the program is its
// topology. Hardware made for a topology can run with other parameters if it loads them.
#pragma once

#include "kernels/program/program.hpp"

namespace millrace::kernels {

/// Returns whether an operation has parameters. They are weights, bias and requantisation of a convolution, the
/// requantisation of a sum pool or rescale, and the table of a lookup. The constants of all other operations belong to
/// the topology.
bool has_parameters(const Operation& operation);

/// Returns whether at least one block has parameters that are stored outside the FPGA image (are not baked).
bool has_parameters(const Program& program);

/// Returns the program with neutral parameters (0, or -1 for bipolar weights) in every block whose parameters are
/// stored outside the FPGA image (are not baked), and without the tensors' scales and zero points. If all blocks are
/// baked, the program is its own topology. Numbers of entries (one, or one per channel), types, forms and bounds stay,
/// because hardware depends on them. The topology of a valid program is valid.
Program topology_of(const Program& program);

/// Returns "baked", "loaded" or "streamed".
const char* to_string(Placement placement);

}  // namespace millrace::kernels
