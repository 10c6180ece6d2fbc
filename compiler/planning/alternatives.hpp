// What other numbers of cards would give: the curve of cards against throughput and latency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/planning/predict.hpp"

namespace millrace::compiler {

/// The best for one number of cards by one objective.
struct Alternative {
  std::uint32_t cards = 0;     // of all replicas
  std::uint32_t replicas = 1;  // with an equal share of the cards each
  explore::Objective objective = explore::Objective::kThroughput;
  double interval_seconds = 0,
         latency_seconds = 0;  // of one replica, summed over blocks
  explore::Amounts used{};     // of all blocks of all replicas; [kMemoryBytes]: bytes a frame
  bool exact = false;
  double frames_per_second() const { return replicas / interval_seconds; }
};

struct Alternatives {
  std::vector<Alternative> found;  // by cards, then throughput
  std::string left_out;            // why there are none, or not all
};

/// For each number of cards the best throughput, of one pipeline or of equal copies of one, and the least
/// latency. Figures are sums over blocks and never played. Ignores targets; keeps the plan's splits. The plan
/// is predicted. The effort is bounded by counting, not by time, so that the same plan gives the same
/// alternatives.
Alternatives find_alternatives(const Predicted& plan);

}  // namespace millrace::compiler
