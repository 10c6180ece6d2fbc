// Every solution of a small problem, tried one after another: what explore::solve() is held to. Written apart
// from it, as plainly as possible.
#pragma once

#include <optional>
#include <random>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore::tests {

struct Best {
  double cards = 0, interval = 0, latency = 0;
};

/// By the problem's objective; nothing where no solution meets the targets. Operations are layers, one stage.
std::optional<Best> brute_force(const Problem& problem);

/// A handful of layers, with skips, on a few cards, with random cables, regions and ways to build.
Problem random_problem(std::mt19937& random);

}  // namespace millrace::compiler::explore::tests
