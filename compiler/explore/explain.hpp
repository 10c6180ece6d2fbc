// What limits a solution, and what would lift it.
#pragma once

#include "compiler/explore/analysis.hpp"

namespace millrace::compiler::explore {

/// The shares that are of a rate, when the interval becomes another one.
void change_interval(Analysis& analysis, double from_seconds, double to_seconds);

/// Sets `bottleneck` and `lifts` by the figures as they stand, which analyse() does not: they may by now be
/// those of designs, and what these take beyond their blocks' sum is reckoned with. What is said to lift the
/// rate does so with each block where it stands.
void explain(const Problem& problem, const Solution& solution, Analysis& analysis);

}  // namespace millrace::compiler::explore
