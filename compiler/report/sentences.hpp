// Sentences that the terminal's report and the page share. Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

/// How far a plan that was not played may be off: the rate either way, and the latency by which it may be too
/// short, as fractions. Measured, not proven: tests/golden/test_plans holds its plans to both.
inline constexpr double kRateWithin = 0.02, kLatencyShortBy = 0.25;

/// Which scales were assumed for a float model: "per-channel" or "power-of-two".
std::string assumed_scales(const Plan& plan);

/// What a reader has to know about a plan before its figures, most important first. Sentences without a capital
/// and a full stop.
std::vector<std::string> remarks(const Plan& plan);

/// The names of the blocks that the host runs: "a, b". Empty: none.
std::string on_the_host(const Plan& plan);

}  // namespace millrace::compiler::report
