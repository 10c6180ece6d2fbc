// A folding for each block of a partition, for tests that need hardware and no plan.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::tests {

struct FoldingOptions {
  runtime::plan::Resources budget;    // of the dataflow
  std::uint64_t target_interval = 0;  // cycles; foldings need not be faster. 0: as fast as the budget allows
};

/// Greedy: the cheapest foldings at the shortest interval that fits the budget, then a few dearer ones that
/// make the latency shorter. kDoesNotFit names the resource, by how much it is short, and the block that
/// takes most; kUnsupported: a block without hardware.
Result<std::vector<compiler::generators::Folding>> choose_foldings(
    const compiler::generators::Catalog& catalog, const kernels::Program& program,
    const FoldingOptions& options);

}  // namespace millrace::tests
