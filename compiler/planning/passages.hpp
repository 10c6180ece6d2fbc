// How long a frame takes through all the partitions of a solution and the cables between their cards.
#pragma once

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

/// Of each part. `programs` are the parts', by partition_programs(); `designs` has those of all parts on
/// cards, by partition. `host_seconds`: what the host takes for each part of its own; empty: no time. Of
/// several cables between two cards the first counts. Errors as play_first_frame().
Result<std::vector<generators::Passage>> passages(const std::vector<kernels::Program>& programs,
                                                  const explore::Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const std::map<std::string, generators::Design>& designs,
                                                  const std::vector<double>& host_seconds = {});

}  // namespace millrace::compiler
