// Cuts a model into partitions of similar work, for tests that need partitions but no hardware.
#pragma once

#include "compiler/explore/partition.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tests {

/// Cuts the layers into pieces of consecutive layers, one for each card used. Minimises the largest cost of a piece
/// first, then the bytes that cross the cuts; of equal solutions, the one with the earliest cuts wins. The problem may
/// request the number of pieces. Otherwise it is the smaller of the numbers of cards and of layers, and is reduced if
/// no such cut uses only existing cables. Implementations are ignored, and the solution names none.
///
/// Errors are those of explore::solve(), and kUnsupported if a tensor would return from the host to the same card.
Result<compiler::explore::Solution> cut_by_work(const compiler::explore::Problem& problem);

}  // namespace millrace::tests
