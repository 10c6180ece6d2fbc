// Chooses a folding (a degree of parallelism) for each block of a partition, for tests that generate hardware without a
// plan.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::tests {

struct FoldingOptions {
  runtime::plan::Resources budget;    // the resources that the dataflow may use
  std::uint64_t target_interval = 0;  // in cycles; 0 means as fast as the budget allows
};

/// Chooses a folding for each block with a greedy search: first the cheapest foldings at the shortest interval that
/// fits the budget, then a few more expensive foldings that shorten the latency. The error kDoesNotFit names the
/// scarcest resource, how much of it is missing, and the block that uses most of it. The error kUnsupported means that
/// a block has no hardware.
Result<std::vector<compiler::generators::Folding>> choose_foldings(
    const compiler::generators::Catalog& catalog, const kernels::Program& program,
    const FoldingOptions& options);

}  // namespace millrace::tests
