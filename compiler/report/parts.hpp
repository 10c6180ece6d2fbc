// What the terminal's report, the page and the JSON share. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

inline const explore::Card& card_of(const Plan& plan, std::uint32_t place) {
  return plan.problem().cards[plan.solution.card[place]];
}

/// How a block on a card is built.
inline const explore::Implementation& implementation_of(const Plan& plan, std::uint32_t block) {
  return plan.problem().operations[block].implementations[plan.solution.implementation[block]];
}

/// The contents of a plan as one JSON object: `plan --json` prints it, and the page fills its template with it.
/// README.md describes the keys.
boost::json::object facts(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives);

/// How far the figures of a plan that was not played may be off, as fractions: the rate either way, and the latency,
/// which may be too short. Measured, not proven: tests/golden/test_plans holds its plans to both.
inline constexpr double kRateWithin = 0.02, kLatencyShortBy = 0.25;

/// Which scales were assumed for a float model: "per-channel" or "power-of-two".
std::string assumed_scales(const Plan& plan);

/// What a reader has to know about a plan before its figures, most important first. Sentences without a capital
/// and a full stop.
std::vector<std::string> remarks(const Plan& plan);

/// The names of the blocks that the host runs: "a, b". Empty: none.
std::string on_the_host(const Plan& plan);

/// The coordinates of the pipeline's drawing: cards and host in the order in which a frame passes them. It is drawn
/// three times, for windows of different widths.
boost::json::array pipeline_drawings(const Plan& plan);

struct ChartPoint {
  double cards = 0, value = 0;
};

/// The coordinates of a chart of values against numbers of cards: all points, a line through the best of each number
/// of cards that beats all smaller numbers, and the chosen point.
boost::json::object chart(const char* caption, const std::vector<ChartPoint>& points, ChartPoint chosen,
                          bool more_is_better, const std::function<std::string(double)>& label);

}  // namespace millrace::compiler::report
