// Tries every solution of a small problem. Tests compare explore::solve() with it. It shares no code with the search
// and is written as plainly as possible.
#pragma once

#include <optional>
#include <random>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

struct Best {
  double cards = 0, interval = 0, latency = 0;
};

/// The best solution by the problem's objective; nothing if none meets the targets. Each operation must be a layer of its
/// own, and none may run on the host.
std::optional<Best> brute_force(const Problem& problem);

/// A few layers with skip connections, on a few cards, with random cables, regions and implementations.
Problem random_problem(std::mt19937& random);

}  // namespace millrace::compiler::explore::tests
