// What a plan promises, recomputed from what it is made of.
#pragma once

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Recomputes interval, latency, gap and exactness of a predicted plan from its designs, its solution, its
/// problem and its bound, and compares them with what the plan says. This finds figures that are stale or were
/// changed. It does not prove them: the latency is played with the player that predicted it, a plan that was not
/// played keeps its solution's sum, and the bound is the search's own. explore::verify() checks what the solution
/// claims. kInternal, naming the figure.
Status verify(const Plan& plan);

}  // namespace millrace::compiler
