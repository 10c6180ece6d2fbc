// A plan: which blocks of a model run on which card, built how, how fast, and what limits that. compile()
// builds exactly what a plan says.
//
//     Model, Cluster ─lower()─▶ Lowered ─search()─▶ Attempt ─place()─▶ Placed
//     ─predict()─▶ Plan
//
// Each of these is made once and never changed. An alternative is another value.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/planning/lower.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

struct PlanTimes {
  std::vector<StepTime> steps;
  double exploration_ms = 0;  // all steps but predictions, however often they were repeated
  double prediction_ms = 0;   // putting plans together and playing them
};

struct Plan : Predicted {
  Model model;
  std::vector<generators::Extrapolation> extrapolated;  // terms of its resources that no measurement supports
  PlanTimes times;

  /// Why there is no prediction: the blocks without hardware, the reason for the first, and how the other
  /// blocks get theirs. Empty if there is a prediction. Without one, only the cuts and the partitions'
  /// hardware count.
  std::string unpredicted() const;
};

/// Errors are those of reading, importing, lowering and explore::solve(); kInvalidInput too if options
/// contradict each other.
Result<Plan> make_plan(const PlanOptions& options);

/// Recomputes interval, latency, gap and exactness of a predicted plan from its designs, its solution, its
/// problem and its bound, and compares them with what the plan says. This finds figures that are stale or were
/// changed. It does not prove them: the latency is played with the player that predicted it, a plan that was not
/// played keeps its solution's sum, and the bound is the search's own. explore::verify() checks what the solution
/// claims. kInternal, naming the figure.
Status verify(const Plan& plan);

/// The terms that cost() extrapolates for the hardware of a predicted plan: its blocks as they are folded, what
/// joins them, and its ports to the host. Sorted, each once.
std::vector<generators::Extrapolation> extrapolations(const generators::Catalog& catalog,
                                                      const Predicted& plan);

}  // namespace millrace::compiler
