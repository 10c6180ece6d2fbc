// The part of the search that looks for short latencies.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kMuchLonger[] = {1.0, 1.6, 3.0, 10.0, 1e9};
constexpr std::size_t kMostOrders = 4;  // most orders of cards for which an interval yields solutions
constexpr double kAboutAsSoon = 1.2;    // latencies up to this factor above the lowest are close to it
constexpr double kMuchLater = 1.4;  // beyond this factor, a simulation cannot reverse which latency is lower
constexpr std::size_t kMostSoon = 6;
// The intervals that are tried, as multiples of the shortest interval.
constexpr double kLonger[] = {1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0, 100.0, 1e9};

}  // namespace

/// Finds the shortest interval with which a solution meets the latency target. Tries the solution for the rate alone
/// first, then longer and longer intervals, because slower operations leave more resources to shorten the latency. The
/// last attempt is the solution with the lowest latency.
std::optional<Solution> Search::shortest(std::uint32_t cards, double limit) {
  const auto latency = problem_.targets.max_latency_seconds;
  auto quickest = shortest_untimed(cards, limit);
  if (!latency || !quickest || meets(problem_, *quickest)) return quickest;
  auto last = shortest_latency(cards, limit);
  if (!last || !meets(problem_, *last)) return std::nullopt;
  std::optional<Solution> best;
  double low = quickest->interval_seconds;
  for (const double factor : kLonger) {
    const double seconds = std::min(limit, quickest->interval_seconds * factor);
    best = feasible(cards, seconds, latency);
    if (best || seconds == limit) break;
    low = seconds;
  }
  if (best)
    best =
        narrowed(cards, std::move(*best),
                 std::lower_bound(intervals_.begin(), intervals_.end(), low / kRounding) - intervals_.begin(),
                 latency);
  return best && best->interval_seconds <= last->interval_seconds ? best : last;
}

double Search::floor_of_latency() const {
  // Assume that every operation has its fastest implementation at the fastest clock, and that cables take no time.
  Assignment free;
  free.card = {0};
  for (std::uint32_t c = 0; c < problem_.cards.size(); ++c)
    if (problem_.cards[c].clock_hz > problem_.cards[free.card[0]].clock_hz) free.card[0] = c;
  free.place.assign(board_.chain.size(), 0);
  Problem ideal = problem_;
  for (auto& operation : ideal.operations) {
    if (operation.implementations.empty()) continue;
    Implementation least = operation.implementations.front();
    double part = 1;  // the fraction of the frame's input that the first output word needs
    for (const auto& way : operation.implementations) {
      least.interval_cycles = std::min(least.interval_cycles, way.interval_cycles);
      least.depth_cycles = std::min(least.depth_cycles, way.depth_cycles);
      part = std::min(part, static_cast<double>(way.fill_cycles) / static_cast<double>(way.interval_cycles));
    }
    least.fill_cycles = static_cast<std::uint64_t>(part * static_cast<double>(least.interval_cycles));
    operation.implementations = {least};
  }
  free.implementation.assign(problem_.operations.size(), 0);
  return latency(Board(ideal), free, {});
}

/// Returns solutions with short latencies; ignores the target for latency. Builds solutions for the shortest interval
/// and for longer intervals, then speeds them up with the resources that are left on the cards.
std::vector<Solution> Search::short_latencies(std::uint32_t cards, double limit) {
  std::vector<Solution> out;
  const auto quickest = shortest_untimed(cards, limit);
  if (!quickest) return out;
  for (const double factor : kMuchLonger) {
    const double seconds = std::min(limit, quickest->interval_seconds * factor);
    IntervalFit& at = fit_at(seconds);
    std::size_t tried = 0;
    for (const auto& order : rows(cards)) {
      const std::size_t before = out.size();
      for (auto& assignment : {arrange(at, order), fill(at, order)}) {
        if (!assignment) continue;
        auto quicker = *assignment;
        speed_up(board_, quicker, limit);
        auto found = board_.assess(quicker);
        if (found && found->interval_seconds <= limit * kRounding) out.push_back(std::move(*found));
      }
      if (out.size() > before && ++tried == kMostOrders) break;
    }
    if (seconds == limit) break;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return better(Objective::kLatency, a, b); });
  const auto same = [](const auto& a, const auto& b) {
    return a.card == b.card && a.region == b.region && a.implementation == b.implementation;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

std::optional<Solution> Search::shortest_latency(std::uint32_t cards, double limit) {
  auto found = short_latencies(cards, limit);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<Solution> Search::short_latencies() {
  std::vector<Solution> out;
  for (const auto cards : card_numbers()) {
    auto found = short_latencies(cards, limit());
    std::move(found.begin(), found.end(), std::back_inserter(out));
  }
  if (out.empty()) return out;
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return better(Objective::kLatency, a, b); });
  const double most_late = out.front().latency_seconds * kMuchLater;
  std::erase_if(out, [&](const auto& s) { return s.latency_seconds > most_late; });
  if (out.size() > kMostSoon) out.resize(kMostSoon);
  // Start branch and bound without a known solution, so that it can find one that differs from all solutions
  // in `out`.
  Problem near = problem_;
  near.targets.objective = Objective::kCards;
  if (auto& most = near.targets.max_latency_seconds; !most) most = out.front().latency_seconds * kAboutAsSoon;
  const Board board(near);
  if (auto other = branch(board, std::nullopt, kBranchNodes).better) out.push_back(std::move(*other));
  return out;
}

}  // namespace millrace::compiler::explore
