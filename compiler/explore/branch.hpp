// Branch and bound over everything at once: cards, cuts, regions, implementations. Private to this folder.
#pragma once

#include <optional>

#include "compiler/explore/placing.hpp"

namespace millrace::compiler::explore {

struct Branched {
  std::optional<Solution> better;  // than the one given, by the objective
  bool complete = false;           // there is none better still
};

/// `nodes`: decisions at most.
Branched branch(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes);

/// Whether a is better than b by the objective: its two leading figures.
bool better(Objective objective, const Solution& a, const Solution& b);

/// Whether it meets the targets, number of cards included.
bool meets(const Problem& problem, const Solution& solution);

}  // namespace millrace::compiler::explore
