// The parts that the terminal's report, the page and the JSON share. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/planning/through_host.hpp"

namespace millrace::compiler::report {

inline const explore::Card& card_of(const Plan& plan, std::uint32_t place) {
  return plan.problem().cards[plan.solution.card[place]];
}

/// Returns the implementation that the plan chose for a block on a card.
inline const explore::Implementation& implementation_of(const Plan& plan, std::uint32_t block) {
  return plan.problem().operations[block].implementations[plan.solution.implementation[block]];
}

/// Whether some tensors pass beside host blocks (in residual connections around them), so that planning chose whether
/// these tensors go through the host.
inline bool chose_routes(const Plan& plan) {
  return plan.lowered->changes.through_host || !tensors_beside_host(plan.problem()).empty();
}

/// Returns the contents of a plan as one JSON object. `plan --json` prints the object, and the page's template is
/// filled with it. README.md describes the keys.
boost::json::object facts(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives);

/// The error bounds, as fractions, for the figures of a plan that was not simulated clock by clock: the rate may be too
/// high or too low, and the latency may be too short. The bounds were measured, not proven. tests/golden/test_plans
/// checks its plans against both bounds.
inline constexpr double kRateWithin = 0.02, kLatencyShortBy = 0.25;

/// Returns the quantisation scales that were assumed for a float model: "per-channel" or "power-of-two".
std::string assumed_scales(const Plan& plan);

/// Returns what a person must know before reading a plan's figures, the most important remark first. The remarks are
/// sentences without a capital and a full stop.
std::vector<std::string> remarks(const Plan& plan);

/// Returns the names of the blocks that the host runs ("a, b"), or an empty text if there are none.
std::string on_the_host(const Plan& plan);

struct HostBytes {
  std::uint64_t input = 0, output = 0;
};
/// Returns how many bytes a block of the host reads and writes for each frame, in the host's memory.
HostBytes host_bytes(const Plan& plan, const HostBlock& block);

/// Returns the coordinates of the pipeline's drawing: cards and host in the order in which a frame passes them. The
/// pipeline is drawn three times, for windows of different widths.
boost::json::array pipeline_drawings(const Plan& plan);

struct Communication;  // communication.hpp

/// Returns the coordinates of a chart of the messages between the host and cards, or null if there are no messages or too
/// many cards for a chart.
boost::json::value message_chart(const Communication& communication);

struct ChartPoint {
  double cards = 0, value = 0;
};

/// Returns the coordinates of a chart of values against numbers of cards: all points, the chosen point, and a line. The
/// line joins the best point of each number of cards if this point beats the points of all smaller numbers.
boost::json::object chart(const char* caption, const std::vector<ChartPoint>& points, ChartPoint chosen,
                          bool more_is_better, const std::function<std::string(double)>& label);

}  // namespace millrace::compiler::report
