// Which alternatives are worth building: none is worse than another in everything, and they lie apart.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler::variants {

/// What an alternative is judged by; less is better.
struct Figures {
  double cards = 0, interval_seconds = 0, latency_seconds = 0;
  double fullest = 0;  // share of the fullest region that it takes, of what the shell leaves
  bool operator==(const Figures&) const = default;
};

/// Of a plan that is predicted, made with these shares.
Figures figures_of(const Plan& plan, const explore::Shares& shares);

/// At least as good in everything, and better in something.
bool dominates(const Figures& a, const Figures& b);

/// At most `count` of them, ascending: the first, whatever it is; then of those that none dominates, and that
/// are no copy of an earlier one, always the one that lies farthest from those taken.
std::vector<std::size_t> choose(const std::vector<Figures>& all, std::size_t count);

}  // namespace millrace::compiler::variants
