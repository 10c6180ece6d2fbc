// A plan says which blocks of a model run on which card, how each block is built, how fast the model runs, and what
// limits the speed. compile() builds exactly what a plan says.
//
// The steps of planning: the types of their results, and the functions that make each of them from the one before:
//     Model, Cluster ─lower()─▶ Lowered ─search()─▶ Attempt ─place()─▶ Placed
//     ─predict()─▶ Plan
//
// A Lowered, Attempt, Placed or Plan is made once and never changed. An alternative plan is a new value.
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
  double exploration_ms = 0;  // time of all steps except predictions, repetitions included
  double prediction_ms = 0;   // time of putting plans together and simulating them
};

struct Plan : Predicted {
  Model model;
  std::vector<generators::Extrapolation> extrapolated;  // terms of the plan's cost that were not measured
  PlanTimes times;

  /// Returns why the plan has no prediction, or an empty text if it has one. Names the blocks without hardware, the
  /// reason for the first of them, and how the other blocks get hardware. Without a prediction, the figures of this
  /// plan are meaningless, but its cuts and its partitions' hardware are valid.
  std::string unpredicted() const;
};

/// Makes a plan. kInvalidInput: options contradict each other. Other errors come from the steps that make the plan.
Result<Plan> make_plan(const PlanOptions& options);

/// Recomputes interval, latency, gap and exactness of a predicted plan from its designs, solution, problem and bound,
/// and compares them with the plan. Returns kInternal with the figure that differs. The check finds figures that are
/// stale or were changed, but does not prove them: it simulates the latency with the same simulator, or uses the
/// solution's sum if the plan was not simulated, and trusts the search's bound. explore::verify() checks the solution.
Status verify(const Plan& plan);

/// Returns the terms that cost() extrapolates for the hardware of a predicted plan: for its blocks, for the FIFOs and
/// adapters between them, and for its ports to the host. The terms are sorted, without duplicates.
std::vector<generators::Extrapolation> extrapolations(const generators::Catalog& catalog,
                                                      const Predicted& plan);

}  // namespace millrace::compiler
