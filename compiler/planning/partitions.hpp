// The partitions of a solution: their names, programs and hardware.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// The hardware of each partition, by its name. A partition without hardware runs at `functional` fidelity
/// only.
using Designs = std::map<std::string, generators::Design>;

/// The programs of the parts, in their order. Each has the name of the partition it becomes: on the host
/// "input" (nothing stands before it), "output" (nothing stands after it) or "host<n>"; on cards "part<n>".
std::vector<kernels::Program> partition_programs(const kernels::Program& program,
                                                 const explore::Solution& solution);

/// For each block of a part, in its order, the region of the card that the block stands in.
std::vector<std::uint32_t> regions_of(const explore::Solution& solution, const explore::Part& part);

}  // namespace millrace::compiler
