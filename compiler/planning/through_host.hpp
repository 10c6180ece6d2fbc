// Sends tensors that pass beside host blocks, such as residual connections around them, through the host. A card cannot
// send a tensor to itself. Without this change, a residual connection around a layer of the host therefore needs two
// cards with a cable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// Returns the tensors that pass beside host blocks: a card makes the tensor, and an operation on a card reads it after
/// the host has worked on the frame, for example at the end of a residual connection around a layer of the host.
std::vector<std::uint32_t> tensors_beside_host(const explore::Problem& problem);

struct ThroughHost {
  kernels::Program program;
  std::vector<std::string> copies;  // names of the blocks that copy a tensor; the host must run them
};

/// Returns the program with a block "<block>_through_host" for each tensor in tensors_beside_host(problem), where
/// <block> makes the tensor. The new block copies the tensor. Blocks that cards run after the host's blocks read the
/// copy. `problem` must be made from `program`.
ThroughHost copy_through_host(const kernels::Program& program, const explore::Problem& problem);

}  // namespace millrace::compiler
