// What other numbers of cards would give: the curve of cards against throughput and latency.
#pragma once

#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

/// The best throughput, of one pipeline or of equal copies of one, and the least latency for each number of
/// cards, by cards, then throughput; added up from blocks, never played. Targets are not looked at, splits
/// are those of the plan. Fills `plan.alternatives`, or says in `plan.alternatives_left_out` why there are
/// none, or not all. The plan is predicted. The same plan gives the same alternatives: effort is bounded by
/// counting, not by time.
void add_alternatives(Plan& plan);

}  // namespace millrace::compiler
