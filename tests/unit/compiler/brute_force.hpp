// Solves small planning problems by trying every solution. Tests compare the result with explore::solve(). This code is
// as plain as possible and shares nothing with the search.
#pragma once

#include <optional>
#include <random>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

struct Best {
  double cards = 0, interval = 0, latency = 0;
};

/// Returns the best solution by the problem's objective, or nullopt if no solution meets the targets. The problem must
/// have one operation in each layer and no operation on the host.
std::optional<Best> brute_force(const Problem& problem);

/// Returns a problem with a few layers, skip connections and a few cards; cables, regions and implementations are
/// random.
Problem random_problem(std::mt19937& random);

}  // namespace millrace::compiler::explore::tests
