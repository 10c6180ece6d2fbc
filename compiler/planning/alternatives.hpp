// Finds the throughput and latency that a model would reach with other numbers of cards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/planning/predict.hpp"

namespace millrace::compiler {

/// The best plan for one number of cards and one objective.
struct Alternative {
  std::uint32_t cards = 0;     // number of cards of all replicas together
  std::uint32_t replicas = 1;  // number of replicas, each with the same number of cards
  explore::Objective objective = explore::Objective::kThroughput;
  double interval_seconds = 0,
         latency_seconds = 0;  // of one replica, summed over blocks
  explore::Amounts used{};     // resources of all blocks of all replicas; kMemoryBytes: bytes a frame
  bool exact = false;
  double frames_per_second() const { return replicas / interval_seconds; }
};

struct Alternatives {
  std::vector<Alternative> found;  // sorted by cards, then by throughput
  std::string left_out;            // why alternatives are missing; empty if all were found
};

/// Returns for each number of cards the highest throughput (of one pipeline or of equal copies) and the lowest
/// latency. The figures are sums over blocks, without a clock-by-clock simulation. Ignores targets and keeps the
/// plan's splits. The plan must have a prediction. The search ends after a fixed number of steps, not after a fixed
/// time, so the same plan always gives the same alternatives.
Alternatives find_alternatives(const Predicted& plan);

}  // namespace millrace::compiler
