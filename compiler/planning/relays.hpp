// Relays: blocks that pass a tensor on through a card that neither makes it nor is its last reader.
#pragma once

#include "compiler/explore/partition.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// Adds a block "relay_<tensor>_<place>" for each card that a tensor leaves without having been made there.
/// Blocks on the cards behind it read the relay's output. Renumbers the solution's parts, implementations and
/// regions to match, and clears its hops: each tensor now goes from its card straight to its readers.
void insert_relays(kernels::Program& program, explore::Solution& solution);

}  // namespace millrace::compiler
