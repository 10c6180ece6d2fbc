#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/explore/claims.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kRounding = 1e-6;

class GapCheck {
 public:
  GapCheck(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of)
      : problem_(problem), solution_(solution), part_of_(part_of), host_(host_seconds(problem)) {}

  std::string rate() const {
    const double ceiling = frames_per_second(solution_.interval_seconds) * (1 + solution_.gap);
    const double possible = within_host(static_cast<double>(problem_.cards.size()) / quickest());
    const bool by_cards = problem_.targets.objective == Objective::kCards;
    const double cards = static_cast<double>(solution_.card.size() * solution_.replicas());
    if (ceiling > possible * (1 + kRounding) && !(by_cards && solution_.gap <= cards - 1 + kRounding))
      return "gap is wrong: no implementations are as quick as it allows for";
    const double wanted = static_cast<double>(solution_.replicas()) / (ceiling * (1 + 2 * kRounding));
    const Solution other = built_for(wanted);
    const auto figures = figures_of(other);
    return figures && frames_per_second(figures->interval_seconds) > ceiling * (1 + kRounding)
               ? "gap is wrong: the same places, built otherwise, reach " +
                     std::to_string(frames_per_second(figures->interval_seconds)) + " frames/s"
               : std::string();
  }

  std::string latency() const {
    const double floor = solution_.latency_seconds / (1 + solution_.gap);
    const auto figures = figures_of(built_quickest());
    return figures && figures->latency_seconds < floor * (1 - kRounding)
               ? "gap is wrong: the same places, built otherwise, take " +
                     std::to_string(figures->latency_seconds * 1e6) + " us"
               : std::string();
  }

 private:
  struct Figures {
    double interval_seconds = 0, latency_seconds = 0;
  };

  const Card& card_of(std::size_t operation) const {
    return problem_.cards[solution_.card[solution_.parts[part_of_[operation]].place]];
  }

  double within_host(double rate) const { return host_ > 0 ? std::min(rate, 1 / host_) : rate; }

  /// Of all replicas, and no more than the host has time for.
  double frames_per_second(double interval_seconds) const {
    return within_host(static_cast<double>(solution_.replicas()) / interval_seconds);
  }

  /// No interval is shorter, wherever the operations stand.
  double quickest() const {
    double clock = 0, longest = 0;
    for (const auto& card : problem_.cards) clock = std::max(clock, card.clock_hz);
    for (const auto& operation : problem_.operations) {
      if (operation.host) continue;
      const auto& ways = operation.implementations;
      const auto least = std::min_element(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
        return a.interval_cycles < b.interval_cycles;
      });
      longest = std::max(longest, static_cast<double>(least->interval_cycles) / clock);
    }
    return longest;
  }

  /// Interval and latency where it fits and meets the targets.
  std::optional<Figures> figures_of(const Solution& solution) const {
    Claims claims(problem_, solution, part_of_);
    if (!claims.check_fit().empty()) return std::nullopt;
    const Figures figures{claims.interval(), claims.latency()};
    if (!claims.missed(figures.interval_seconds, figures.latency_seconds).empty()) return std::nullopt;
    return figures;
  }

  /// The largest share that an implementation takes of any resource of its region.
  double share(std::size_t operation, const Implementation& way) const {
    const auto& region = card_of(operation).regions[solution_.region[operation]];
    double most = 0;
    for (std::size_t k = 0; k < kKinds; ++k)
      if (way.amounts[k] > 0)
        most = std::max(most, static_cast<double>(way.amounts[k]) / static_cast<double>(region.available[k]));
    return most;
  }

  /// What takes longer than this is built in the least of the ways that do not; the rest stays.
  Solution built_for(double seconds) const {
    Solution out = solution_;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      const auto& ways = problem_.operations[i].implementations;
      const double cycles = seconds * card_of(i).clock_hz;
      const auto quick = [&](const Implementation& way) {
        return static_cast<double>(way.interval_cycles) <= cycles;
      };
      if (quick(ways[out.implementation[i]])) continue;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint32_t w = 0; w < ways.size(); ++w)
        if (quick(ways[w]) && share(i, ways[w]) < least) {
          least = share(i, ways[w]);
          out.implementation[i] = w;
        }
    }
    return out;
  }

  /// Operations one after another in their quickest way for which there is room.
  Solution built_quickest() const {
    const auto cycles = [](const Implementation& way) { return way.interval_cycles + way.depth_cycles; };
    Solution out = solution_;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      const auto& ways = problem_.operations[i].implementations;
      Claims claims(problem_, out, part_of_);
      if (!claims.check_fit().empty()) return solution_;
      auto best = out.implementation[i];
      for (std::uint32_t w = 0; w < ways.size(); ++w)
        if (cycles(ways[w]) < cycles(ways[best]) && claims.has_room(i, ways[w])) best = w;
      out.implementation[i] = best;
    }
    return out;
  }

  const Problem& problem_;
  const Solution& solution_;
  const std::vector<std::size_t>& part_of_;
  const double host_;  // seconds a frame
};

}  // namespace

std::string check_gap(const Problem& problem, const Solution& solution,
                      const std::vector<std::size_t>& part_of) {
  if (!(solution.gap >= 0)) return "gap is wrong: it is no number from 0 on";
  if (solution.exact && solution.gap != 0) return "gap is wrong: it is 0 where the solution is exact";
  if (!std::isfinite(solution.gap)) return {};
  const GapCheck check(problem, solution, part_of);
  return problem.targets.objective == Objective::kLatency ? check.latency() : check.rate();
}

}  // namespace millrace::compiler::explore
