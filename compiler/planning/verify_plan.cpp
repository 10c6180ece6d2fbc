#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler {
namespace {

constexpr double kProven = 1e-6;  // a gap below this is rounding

bool near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

Status wrong(const std::string& figure, double said, double found) {
  return Error(ErrorCode::kInternal, "the plan just made does not hold: its " + figure + " is " +
                                         std::to_string(said) + ", recomputed it is " +
                                         std::to_string(found));
}

const explore::Card& card(const Plan& plan, std::uint32_t place) {
  return plan.problem().cards[plan.solution.card[place]];
}

double slowest_part(const Plan& plan) {
  double longest = 0;
  for (std::size_t p = 0; p < plan.placed.programs.size(); ++p) {
    const auto& part = plan.placed.solution.parts[p];
    if (part.host) continue;
    const auto& design = plan.placed.designs.at(plan.placed.programs[p].name);
    longest =
        std::max(longest, static_cast<double>(design.interval_cycles) / card(plan, part.place).clock_hz);
  }
  return longest;
}

double slowest_memory(const Plan& plan) {
  std::vector<std::uint64_t> read(plan.solution.card.size(), 0);  // bytes a frame
  for (const auto& part : plan.solution.parts)
    for (const auto i : part.operations)
      if (!part.host)
        read[part.place] += plan.problem()
                                .operations[i]
                                .implementations[plan.solution.implementation[i]]
                                .amounts[explore::kMemoryBytes];
  double longest = 0;
  for (std::uint32_t place = 0; place < read.size(); ++place)
    if (read[place] > 0)
      longest = std::max(
          longest, static_cast<double>(read[place]) /
                       static_cast<double>(card(plan, place).regions[0].available[explore::kMemoryBytes]));
  return longest;
}

/// Each tensor takes the cable that carries least so far, of the cables between its two cards.
double slowest_cable(const Plan& plan) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> loads;
  double longest = 0;
  for (const auto& hop : plan.solution.hops) {
    const auto from = plan.solution.card[hop.from], to = plan.solution.card[hop.to];
    std::size_t cables = 0;
    double bytes_per_second = std::numeric_limits<double>::infinity();
    for (const auto& cable : plan.problem().cables) {
      if (std::minmax(cable.a, cable.b) != std::minmax(from, to)) continue;
      ++cables;
      bytes_per_second = std::min(bytes_per_second, cable.bytes_per_second);
    }
    auto& carried = loads[{hop.from, hop.to}];
    carried.resize(cables, 0);
    auto& least = *std::min_element(carried.begin(), carried.end());
    least += plan.problem().tensors[hop.tensor].bytes;
    longest = std::max(longest, static_cast<double>(least) / bytes_per_second);
  }
  return longest;
}

/// One core of the host runs the blocks between cards, for all replicas.
double host(const Plan& plan) {
  double seconds = 0;
  for (const auto& operation : plan.problem().operations) seconds += operation.host_seconds;
  return seconds * static_cast<double>(plan.replicas());
}

Status check_gap(const Plan& plan, double interval, double latency) {
  const auto objective = plan.problem().targets.objective;
  const bool by_latency = objective == explore::Objective::kLatency;
  const auto cards = static_cast<double>(plan.cards());
  const double reached = by_latency ? latency : interval / static_cast<double>(plan.replicas());
  double gap = std::max(0.0, reached / plan.bound.seconds - 1);
  if (objective == explore::Objective::kCards) gap = std::max(gap, cards / plan.bound.cards - 1);
  const auto& said = plan.solution;
  const bool exact =
      plan.placed.played && plan.bound.exact && gap < kProven && (by_latency || cards <= plan.bound.cards);
  if (said.exact != exact) return wrong("exactness", said.exact ? 1 : 0, exact ? 1 : 0);
  if (!near(said.gap, exact ? 0 : gap) && std::abs(said.gap - gap) > 1e-9)
    return wrong("gap", said.gap, exact ? 0 : gap);
  return {};
}

}  // namespace

Status verify(const Plan& plan) {
  const double interval =
      std::max({slowest_part(plan), slowest_memory(plan), slowest_cable(plan), host(plan)});
  if (!near(plan.interval_seconds, interval))
    return wrong("interval in us", plan.interval_seconds * 1e6, interval * 1e6);
  double latency = plan.solution.latency_seconds;
  if (plan.placed.played) {
    MILLRACE_ASSIGN(latency, played_latency(plan));
  }
  if (!near(plan.latency_seconds, latency))
    return wrong("latency in us", plan.latency_seconds * 1e6, latency * 1e6);
  return plan.followed ? Status() : check_gap(plan, interval, latency);
}

}  // namespace millrace::compiler
