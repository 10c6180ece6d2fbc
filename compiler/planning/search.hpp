// The ways to a plan: a search over all ways to lower a model, or a plan file. Both hold what they found to
// what its designs really come to.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"
#include "compiler/planning/lower.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The best of several ways to lower the model: with layers split, blocks on the host, weights in memory.
/// kDoesNotFit: no plan fits the cluster; the message says whether more cables would help. kInvalidInput:
/// options contradict the model.
Result<Predicted> choose(const Task& task);

/// The plan that options.plan describes, instead of a search. kInvalidInput: the file contradicts the model,
/// the cluster or the options. kDoesNotFit: put together, the plan exceeds a budget or misses a target.
Result<Predicted> follow(const Task& task);

/// The best plan of a lowered model. Solves the problem and predicts the answer. If the plan takes more of a
/// card than the search counted, or misses a target, makes the problem harder by as much and solves again.
/// The solution's gap and `exact` are of the figures as predicted, against the best answer to the problem as
/// it was asked.
///
/// kDoesNotFit: no plan keeps budgets and targets; `explain` adds the reason, which takes longer than the
/// search.
Result<Predicted> search(const Task& task, const LoweredPtr& lowered, bool explain);

/// Whether the model fits if its target for latency is dropped. Splitting layers makes no frame faster.
bool only_latency_is_missed(const Task& task, const Lowered& lowered);

/// Predicts the figures of a solution, and records the time that this takes as one step of the planning.
Result<Predicted> predicted(const Task& task, Attempt attempt);

/// The targets that a plan misses, in words; empty: none.
std::string missed(const Predicted& plan);

/// The resources of which a plan's designs need more than there are, by card and region; empty: none.
std::string overfull(const Predicted& plan);

/// Makes regions that turned out too full smaller in `problem`. Whether there were any.
bool tighten_regions(const Predicted& plan, explore::Problem& problem);

}  // namespace millrace::compiler
