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
constexpr std::size_t kMostOrders = 4;  // of cards, that are built for short latencies
constexpr double kAboutAsSoon = 1.2;    // times the least latency
constexpr double kMuchLater = 1.4;      // as sums; no play makes up for it
constexpr std::size_t kMostSoon = 6;
constexpr double kLonger[] = {1.0, 1.25, 1.6, 2.0, 3.0, 5.0, 10.0, 100.0, 1e9};  // than the shortest interval

}  // namespace

/// With a latency target a longer interval is not always easier. First tries the solution for the rate alone. Then
/// tries longer and longer intervals, which leave more of the cards for a short latency. The last resort is the
/// solution with the least latency.
std::optional<Solution> Search::shortest_in_time(std::uint32_t cards, double limit) {
  auto quickest = untimed().shortest(cards, limit);
  if (!quickest || meets(problem_, *quickest)) return quickest;
  auto last = shortest_latency(cards, limit);
  if (!last || !meets(problem_, *last)) return std::nullopt;
  std::optional<Solution> best;
  double low = quickest->interval_seconds;
  for (const double factor : kLonger) {
    const double seconds = std::min(limit, quickest->interval_seconds * factor);
    best = feasible(cards, seconds);
    if (best || seconds == limit) break;
    low = seconds;
  }
  if (best)
    best = narrowed(
        cards, std::move(*best),
        std::lower_bound(intervals_.begin(), intervals_.end(), low / kRounding) - intervals_.begin());
  return best && best->interval_seconds <= last->interval_seconds ? best : last;
}

double Search::floor_of_latency() const {
  // Every operation in its quickest way on the quickest clock, cables for nothing.
  Assignment free;
  free.card = {0};
  for (std::uint32_t c = 0; c < problem_.cards.size(); ++c)
    if (problem_.cards[c].clock_hz > problem_.cards[free.card[0]].clock_hz) free.card[0] = c;
  free.place.assign(board_.chain.size(), 0);
  Problem ideal = problem_;
  for (auto& operation : ideal.operations) {
    if (operation.implementations.empty()) continue;
    Implementation least = operation.implementations.front();
    double part = 1;  // of the frame, before the first beat comes
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

/// Solutions with short latencies, without the target for latency: built for the shortest interval and for longer
/// and longer ones, then sped up with what is left of the cards.
std::vector<Solution> Search::short_latencies(std::uint32_t cards, double limit) {
  std::vector<Solution> out;
  const auto quickest = untimed().shortest(cards, limit);
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
  // Without a solution to improve, branch and bound finds different ones.
  Problem near = problem_;
  near.targets.objective = Objective::kCards;
  if (auto& most = near.targets.max_latency_seconds; !most) most = out.front().latency_seconds * kAboutAsSoon;
  const Board board(near);
  if (auto other = branch(board, std::nullopt, kBranchNodes).better) out.push_back(std::move(*other));
  return out;
}

std::optional<Solution> Search::least_latency(double limit) {
  std::optional<Solution> best;
  for (const auto cards : card_numbers()) {
    auto found = shortest_latency(cards, limit);
    if (found && meets(problem_, *found) && (!best || better(Objective::kLatency, *found, *best)))
      best = std::move(found);
  }
  if (best) best->gap = best->latency_seconds / floor_of_latency() - 1;
  return best;
}

void speed_up(const Board& board, Assignment& assignment, double limit) {
  const Problem& problem = board.problem;
  auto now = board.assess(assignment);
  if (!now) return;
  for (std::size_t step = 0; step < 4 * problem.operations.size(); ++step) {
    double best_rate = 0;
    std::uint32_t operation = 0, choice = 0;
    for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
      const std::size_t layer = board.chain.layer_of[i];
      if (layer == board.chain.size()) continue;
      const auto& ways = problem.operations[i].implementations;
      const Implementation& current = ways[assignment.implementation[i]];
      const std::uint32_t place = assignment.place[layer], region = assignment.region[layer];
      const double clock = problem.cards[assignment.card[place]].clock_hz;
      Amounts room = board.unused(assignment, place, region) + current.amounts;
      const Amounts& all = problem.cards[assignment.card[place]].regions[region].available;
      // Only the next quicker ways: much quicker ones are reached in several steps.
      std::vector<std::uint32_t> quicker;
      for (std::uint32_t w = 0; w < ways.size(); ++w)
        if (ways[w].interval_cycles + ways[w].depth_cycles < current.interval_cycles + current.depth_cycles &&
            static_cast<double>(ways[w].interval_cycles) / clock <= limit * kRounding &&
            within(ways[w].amounts, room))
          quicker.push_back(w);
      std::sort(quicker.begin(), quicker.end(), [&](auto a, auto b) {
        return std::pair(ways[a].interval_cycles, a) > std::pair(ways[b].interval_cycles, b);
      });
      if (quicker.size() > 4) quicker.resize(4);
      const std::uint32_t kept = assignment.implementation[i];
      for (const auto w : quicker) {
        assignment.implementation[i] = w;
        const double gain = now->latency_seconds - latency(board, assignment, now->hops);
        double price = 1e-9;
        for (std::size_t k = 0; k < kKinds; ++k)
          if (ways[w].amounts[k] > current.amounts[k])
            price += static_cast<double>(ways[w].amounts[k] - current.amounts[k]) /
                     std::max(1.0, static_cast<double>(all[k]));
        if (gain > now->latency_seconds * 1e-9 && gain / price > best_rate) {
          best_rate = gain / price;
          operation = i;
          choice = w;
        }
      }
      assignment.implementation[i] = kept;
    }
    if (best_rate == 0) return;
    const std::uint32_t kept = assignment.implementation[operation];
    assignment.implementation[operation] = choice;
    auto next = board.assess(assignment);
    if (!next || next->interval_seconds > limit * kRounding) {  // a memory is too slow for it
      assignment.implementation[operation] = kept;
      return;
    }
    now = std::move(next);
  }
}

}  // namespace millrace::compiler::explore
