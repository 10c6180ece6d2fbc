// Blocks that pass a tensor on through a card which neither makes it nor is its last reader: what a
// solution's hops mean to a program.
#pragma once

#include "compiler/explore/partition.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// Adds a block "relay_<tensor>_<place>" for each card that a tensor leaves without having been made there,
/// and lets what lies behind it read its output. Parts, implementations and regions follow the blocks' new
/// numbers; hops are used up: each tensor then goes from its card straight to its readers.
void insert_relays(kernels::Program& program, explore::Solution& solution);

}  // namespace millrace::compiler
