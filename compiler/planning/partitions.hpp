// The partitions of a solution: their names, programs and hardware, and a frame's way through them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/generators/first_frame.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// The hardware of each partition, by its name. A partition without hardware runs at `functional` fidelity
/// only.
using Designs = std::map<std::string, generators::Design>;

/// The programs of the parts, in their order. Each has the name of the partition it becomes: on the host
/// "input" (nothing stands before it), "output" (nothing stands after it) or "host<n>"; on cards "part<n>".
std::vector<kernels::Program> partition_programs(const kernels::Program& program,
                                                 const explore::Solution& solution);

/// For each block of a part, in its order, the region of the card that holds the block.
std::vector<std::uint32_t> regions_of(const explore::Solution& solution, const explore::Part& part);

/// When a frame enters and leaves each part. `programs` are those of the parts, by partition_programs().
/// `designs` has the design of every part on a card. `host_seconds` has the time of each part on the host;
/// empty: no time. Of several cables between two cards, only the first is used. Errors as play_first_frame().
Result<std::vector<generators::Passage>> passages(const std::vector<kernels::Program>& programs,
                                                  const explore::Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const Designs& designs,
                                                  const std::vector<double>& host_seconds = {});

/// Adds relays: blocks that pass a tensor on through a card. A card that a tensor leaves without having been made there
/// gets a block "relay_<tensor>_<place>".
/// Blocks on the cards behind it read the relay's output. Renumbers the solution's parts, implementations and
/// regions to match, and clears its hops: each tensor now goes from its card straight to its readers.
void insert_relays(kernels::Program& program, explore::Solution& solution);

}  // namespace millrace::compiler
