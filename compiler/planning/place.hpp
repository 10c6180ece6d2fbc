// A solution of explore put together: relays inserted, weights placed, a folding for each block, a design for
// each partition.
#pragma once

#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/planning/lower.hpp"
#include "compiler/planning/partitions.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// What a search found. `solution` is one of lowered->problem, or of that problem made harder.
struct Attempt {
  LoweredPtr lowered;
  explore::Solution solution;

  const explore::Problem& problem() const { return lowered->problem; }
  const kernels::Program& program() const { return lowered->program; }
  const runtime::plan::Cluster& cluster() const { return lowered->cluster; }
};

struct Placed {
  kernels::Program program;    // with relays, and each block's weights where they were chosen to be
  explore::Solution solution;  // of that program
  std::vector<kernels::Program> programs;  // of the solution's parts, by partition_programs()
  // Of each part's blocks, in the part's order. Empty on the host, and if one of the blocks has no hardware.
  std::vector<std::vector<generators::Folding>> foldings;
  Designs designs;  // of the parts with foldings; memories are left empty
  // Every design was played clock by clock. If not, its interval is that of the slowest block, fed no faster
  // than the adapter before it allows; FIFOs have the least depth.
  bool played = false;
};

/// Errors are those of generators and place_parameters().
Result<Placed> place(const Task& task, const Attempt& attempt);

/// The folding that was chosen for a block on a card; null if the block has no hardware.
const generators::Folding* chosen_folding(const Attempt& attempt, std::uint32_t block);

/// The device of a place of the solution.
const runtime::plan::Device& device_at(const Attempt& attempt, std::uint32_t place);

}  // namespace millrace::compiler
