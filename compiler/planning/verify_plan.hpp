// What a plan promises, recomputed from what it is made of.
#pragma once

#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Recomputes interval, latency, gap and exactness of a predicted plan from its designs, its solution, its
/// problem and its bound, and compares them with what the plan says; nothing is taken from the search or from
/// the prediction. What the solution itself claims is explore::verify()'s. kInternal, naming the figure.
Status verify(const Plan& plan);

}  // namespace millrace::compiler
