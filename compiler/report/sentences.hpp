// Sentences that the terminal's report and the page share. Private to this folder.
#pragma once

#include <string>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

/// How far a plan that is not played may be off: parts of its rate, and by which its latency may be short.
/// Measured, not proven: tests/golden/test_plans holds the plans it has to both.
inline constexpr double kRateWithin = 0.02, kLatencyShortBy = 0.25;

/// As what a float model was planned; a sentence or several, and empty where the model is quantised.
std::string assumption(const Plan& plan);

/// Which scales were assumed: "per-channel" or "power-of-two". The model is float.
std::string assumed_scales(const Plan& plan);

/// How good the plan is, and how its figures were come by. The plan is predicted.
std::string quality(const Plan& plan);

/// What a plan file gives against what a search finds; of a plan that was followed.
std::string cost_of_edit(const Plan& plan);

/// Which layers read their weights from the cards' memory, and how much; empty where none does.
std::string streamed(const Plan& plan);

/// Of which devices of the plan no deployment can be made, and why; empty where of all one can.
std::string plans_only(const Plan& plan);

/// Which cards each of several replicas has.
std::string replicas(const Plan& plan);

}  // namespace millrace::compiler::report
