// The numbers of a program that a model trained anew changes, and the program without them: its topology.
// What computes a topology need not be made again for other numbers, where it can be given them.
#pragma once

#include "kernels/program/program.hpp"

namespace millrace::kernels {

/// Whether an operation has such numbers: weights, bias and requantisation of a convolution, requantisation
/// of a sum pool or rescale, a lookup's table. All others' constants are part of the topology.
bool has_parameters(const Operation& operation);

/// Whether some block's are not baked.
bool has_parameters(const Program& program);

/// The program with 0 (of bipolar weights -1) for the parameters of every block that is not baked, and
/// without what tensors stand for; a program all of whose blocks are baked is its own topology. Counts
/// (one entry, or one a channel), types, forms and bounds stay: hardware depends on them. Valid where
/// `program` is.
Program topology_of(const Program& program);

/// "baked", "loaded", "streamed".
const char* to_string(Placement placement);

}  // namespace millrace::kernels
