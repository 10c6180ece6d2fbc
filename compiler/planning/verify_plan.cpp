#include "compiler/planning/verify_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/planning/passages.hpp"

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

class PlanCheck {
 public:
  explicit PlanCheck(const Plan& plan) : plan_(plan) {}

  Status run() const {
    const double interval = std::max({slowest_part(), slowest_memory(), slowest_cable(), host()});
    if (!near(plan_.interval_seconds, interval))
      return wrong("interval in us", plan_.interval_seconds * 1e6, interval * 1e6);
    MILLRACE_ASSIGN(const double latency, this->latency());
    if (!near(plan_.latency_seconds, latency))
      return wrong("latency in us", plan_.latency_seconds * 1e6, latency * 1e6);
    return plan_.followed ? Status() : check_gap(interval, latency);
  }

 private:
  const explore::Card& card(std::uint32_t place) const {
    return plan_.lowered->problem.cards[plan_.solution.card[place]];
  }

  double slowest_part() const {
    double longest = 0;
    for (std::size_t p = 0; p < plan_.placed.programs.size(); ++p) {
      const auto& part = plan_.placed.solution.parts[p];
      if (part.host) continue;
      const auto cycles =
          static_cast<double>(plan_.placed.designs.at(plan_.placed.programs[p].name).interval_cycles);
      longest = std::max(longest, cycles / card(part.place).clock_hz);
    }
    return longest;
  }

  double slowest_memory() const {
    std::vector<std::uint64_t> read(plan_.solution.card.size(), 0);  // bytes a frame
    for (const auto& part : plan_.solution.parts)
      for (const auto i : part.operations)
        if (!part.host)
          read[part.place] += plan_.lowered->problem.operations[i]
                                  .implementations[plan_.solution.implementation[i]]
                                  .amounts[explore::kMemoryBytes];
    double longest = 0;
    for (std::uint32_t place = 0; place < read.size(); ++place)
      if (read[place] > 0)
        longest = std::max(longest,
                           static_cast<double>(read[place]) /
                               static_cast<double>(card(place).regions[0].available[explore::kMemoryBytes]));
    return longest;
  }

  /// Each tensor takes that of the cables between two cards which carries least so far.
  double slowest_cable() const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> loads;
    double longest = 0;
    for (const auto& hop : plan_.solution.hops) {
      const auto from = plan_.solution.card[hop.from], to = plan_.solution.card[hop.to];
      std::size_t cables = 0;
      double bytes_per_second = std::numeric_limits<double>::infinity();
      for (const auto& cable : plan_.lowered->problem.cables) {
        if (std::minmax(cable.a, cable.b) != std::minmax(from, to)) continue;
        ++cables;
        bytes_per_second = std::min(bytes_per_second, cable.bytes_per_second);
      }
      auto& carried = loads[{hop.from, hop.to}];
      carried.resize(cables, 0);
      auto& least = *std::min_element(carried.begin(), carried.end());
      least += plan_.lowered->problem.tensors[hop.tensor].bytes;
      longest = std::max(longest, static_cast<double>(least) / bytes_per_second);
    }
    return longest;
  }

  /// One core does what stands between cards, for all replicas.
  double host() const {
    double seconds = 0;
    for (const auto& operation : plan_.lowered->problem.operations) seconds += operation.host_seconds;
    return seconds * static_cast<double>(plan_.replicas());
  }

  /// The first frame is played again. Where nothing was played, the latency is the solution's sum.
  Result<double> latency() const {
    if (!plan_.placed.played) return plan_.solution.latency_seconds;
    if (plan_.placed.designs.size() == 1) return latency_of_one();
    std::map<std::string, double> seconds;
    for (const auto& operation : plan_.lowered->problem.operations)
      seconds[operation.name] = operation.host_seconds;
    std::vector<double> host(plan_.placed.programs.size(), 0);
    for (std::size_t p = 0; p < plan_.placed.programs.size(); ++p)
      for (const auto block : plan_.placed.solution.parts[p].operations)
        if (const auto found = seconds.find(plan_.placed.program.blocks[block].name); found != seconds.end())
          host[p] += found->second;
    MILLRACE_ASSIGN(const auto passages,
                    compiler::passages(plan_.placed.programs, plan_.placed.solution, plan_.lowered->cluster,
                                       plan_.placed.designs, host));
    double end = 0;
    for (const auto& passage : passages) end = std::max(end, passage.last_output);
    return end;
  }

  double latency_of_one() const {
    const auto& [name, design] = *plan_.placed.designs.begin();
    for (std::size_t p = 0; p < plan_.placed.programs.size(); ++p)
      if (plan_.placed.programs[p].name == name)
        return static_cast<double>(design.latency_cycles) /
               card(plan_.placed.solution.parts[p].place).clock_hz;
    return 0;
  }

  Status check_gap(double interval, double latency) const {
    const auto objective = plan_.lowered->problem.targets.objective;
    const bool by_latency = objective == explore::Objective::kLatency;
    const auto cards = static_cast<double>(plan_.cards());
    const double reached = by_latency ? latency : interval / static_cast<double>(plan_.replicas());
    double gap = std::max(0.0, reached / plan_.bound.seconds - 1);
    if (objective == explore::Objective::kCards) gap = std::max(gap, cards / plan_.bound.cards - 1);
    const auto& said = plan_.solution;
    const bool exact = plan_.placed.played && plan_.bound.exact && gap < kProven &&
                       (by_latency || cards <= plan_.bound.cards);
    if (said.exact != exact) return wrong("exactness", said.exact ? 1 : 0, exact ? 1 : 0);
    if (!near(said.gap, exact ? 0 : gap) && std::abs(said.gap - gap) > 1e-9)
      return wrong("gap", said.gap, exact ? 0 : gap);
    return {};
  }

  const Plan& plan_;
};

}  // namespace

Status verify(const Plan& plan) {
  return PlanCheck(plan).run();
}

}  // namespace millrace::compiler
