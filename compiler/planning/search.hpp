// Solves a lowered model and holds the answer to what its designs really come to.
#pragma once

#include "compiler/planning/lower.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The best plan of a lowered model. Solves, predicts, and solves again with less of a card, or with harder
/// targets, if the plan takes or misses more than the search reckoned with. The solution's gap and `exact`
/// are of the figures as predicted, against the best answer to the problem as it was asked.
///
/// kDoesNotFit: no plan keeps budgets and targets; `explain` adds the reason, which takes longer than the
/// search.
Result<Predicted> search(const Task& task, const LoweredPtr& lowered, bool explain);

/// Whether the model fits if its target for latency is dropped. Splitting layers makes no frame faster.
bool only_latency_is_missed(const Task& task, const Lowered& lowered);

/// The prediction of a solution, timed as one step.
Result<Predicted> predicted(const Task& task, Attempt attempt);

}  // namespace millrace::compiler
