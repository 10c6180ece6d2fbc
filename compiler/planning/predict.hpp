// What a solution comes to once its parts are put together: played clock by clock where that is affordable,
// else reckoned from its blocks and what joins them. Private to this folder.
#pragma once

#include "compiler/front/steps.hpp"
#include "compiler/generators/catalog.hpp"
#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// plan.placed_program and plan.placed: the blocks of plan.solution with their weights where they were chosen
/// to be, and with the blocks that pass tensors on through cards.
Status place_solution(Plan& plan);

/// Places plan.solution, and fills the analysis' figures, foldings, designs, played, interval_seconds and
/// latency_seconds of the plan. Gives the interval in seconds of one replica's cards,
/// whatever the host takes. `play`: which parts are played.
Result<double> predict(const generators::Catalog& catalog, Plan& plan, Steps& steps, Play play);

/// Of a plan that is predicted: what limits it and what would lift it, by the figures as they stand.
void explain(Plan& plan);

}  // namespace millrace::compiler
