// Chooses a folding for each block of a partition, for tests that need hardware but no plan.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::tests {

struct FoldingOptions {
  runtime::plan::Resources budget;    // for the dataflow
  std::uint64_t target_interval = 0;  // cycles; 0: as fast as the budget allows
};

/// Chooses greedily: the cheapest foldings at the shortest interval that fits the budget, then a few dearer
/// ones that shorten the latency. kDoesNotFit names the scarcest resource, how much is missing, and the block
/// that takes most. kUnsupported means that a block has no hardware.
Result<std::vector<compiler::generators::Folding>> choose_foldings(
    const compiler::generators::Catalog& catalog, const kernels::Program& program,
    const FoldingOptions& options);

}  // namespace millrace::tests
