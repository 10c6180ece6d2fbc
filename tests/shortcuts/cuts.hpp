// Cuts a model by its work, for tests that need partitions and no hardware.
#pragma once

#include "compiler/explore/partition.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tests {

/// Cuts the layers, in order, into contiguous pieces so that the largest cost is smallest, then so that the
/// fewest bytes cross the cuts, then as early as possible. As many pieces as asked for, otherwise as many as
/// there are cards, at most one a layer, and fewer if no cut uses only existing cables. Implementations are
/// not read, and the solution names none.
///
/// Errors as explore::solve()'s; kUnsupported: a tensor would go from a card to itself around the host.
Result<compiler::explore::Solution> cut_by_work(const compiler::explore::Problem& problem);

}  // namespace millrace::tests
