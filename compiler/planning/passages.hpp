// The way of a frame through all partitions of a solution and the cables between their cards, in time.
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

/// When a frame enters and leaves each part. `programs` are those of the parts, by partition_programs().
/// `designs` has the design of every part on a card. `host_seconds` has the time of each part on the host;
/// empty: no time. Of several cables between two cards, only the first is used. Errors as play_first_frame().
Result<std::vector<generators::Passage>> passages(const std::vector<kernels::Program>& programs,
                                                  const explore::Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const std::map<std::string, generators::Design>& designs,
                                                  const std::vector<double>& host_seconds = {});

}  // namespace millrace::compiler
