// Cuts a model by its work, for tests that need partitions but no hardware.
#pragma once

#include "compiler/explore/partition.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tests {

/// Cuts the layers, in order, into contiguous pieces. The largest cost is minimised first, then the bytes
/// that cross the cuts; ties are cut as early as possible. The number of pieces is the one asked for,
/// otherwise that of the cards but at most one a layer; it is smaller if no cut uses only existing cables.
/// Implementations are not read, and the solution names none.
///
/// Errors are those of explore::solve(); kUnsupported if a tensor would go from a card to itself around the
/// host.
Result<compiler::explore::Solution> cut_by_work(const compiler::explore::Problem& problem);

}  // namespace millrace::tests
