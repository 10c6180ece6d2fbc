// Finds a plan, by a search or from a plan file, and checks it against the figures of the finished designs.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"
#include "compiler/planning/lower.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Returns the best plan over variants of the model: with layers split, blocks on the host, or weights in memory.
/// kDoesNotFit: no plan fits the cluster; the message says whether more cables would help. kInvalidInput: the options
/// contradict the model.
Result<Predicted> choose(const Task& task);

/// Returns the plan that the file task.options.plan describes, without a search. kInvalidInput: the file contradicts
/// the model, the cluster or the options. kDoesNotFit: the finished plan exceeds a budget or misses a target.
Result<Predicted> follow(const Task& task);

/// Returns the best plan of a lowered model. Solves the problem and predicts the answer's figures. If the predicted
/// plan needs more of a card than the search counted, or misses a target, makes the problem harder by the difference
/// and solves again. Gap and `exact` compare the predicted figures with the best answer to the original problem.
///
/// Returns kDoesNotFit if no plan keeps all budgets and targets. If `explain` is set, the error also says why, which
/// takes longer to compute.
Result<Predicted> search(const Task& task, const LoweredPtr& lowered, bool explain);

/// Whether the model fits without the latency target. If so, splitting layers is useless, as the latency stays the
/// same.
bool only_latency_is_missed(const Task& task, const Lowered& lowered);

/// Predicts the figures of a solution, and records the time that this takes as one step of the planning.
Result<Predicted> predicted(const Task& task, Attempt attempt);

/// Names the targets that a plan misses. Returns an empty text if it misses none.
std::string missed(const Predicted& plan);

/// Names the resources that regions lack for the plan's designs. Returns an empty text if no resource is short.
std::string overfull(const Predicted& plan);

/// Reduces the budgets in `problem` of regions that the plan's designs overfill. Returns whether there were any such
/// regions.
bool tighten_regions(const Predicted& plan, explore::Problem& problem);

}  // namespace millrace::compiler
