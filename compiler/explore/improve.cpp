// Improves a solution with the resources left in its regions: shortens the latency and reads fewer weights from memory.
#include <algorithm>
#include <set>

#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

using Exchange = std::pair<std::uint32_t, std::uint32_t>;  // an operation and its new implementation

/// Calls `visit(operation, card, current implementation, room, budget)` for each operation on a card. `budget` is the
/// budget of the operation's region. `room` is what would be left of the budget without the operation.
template <class Visit>
void for_each_on_card(const Board& board, const Assignment& assignment, const Visit& visit) {
  const auto blocks = board.usage(assignment, {}).blocks;
  for (std::uint32_t i = 0; i < board.problem.operations.size(); ++i) {
    const std::size_t layer = board.chain.layer_of[i];
    if (layer == board.chain.size()) continue;
    const std::uint32_t place = assignment.place[layer], region = assignment.region[layer];
    const Card& card = board.problem.cards[assignment.card[place]];
    const auto& current = board.problem.operations[i].implementations[assignment.implementation[i]];
    visit(i, card, current, less(card.regions[region].available, blocks[place][region]) + current.amounts,
          card.regions[region].available);
  }
}

/// Returns the change of implementation that saves most latency per added resource. `now` is the current solution.
std::optional<Exchange> fastest_exchange(const Board& board, Assignment& assignment, const Solution& now,
                                         double limit) {
  std::optional<Exchange> found;
  double best_rate = 0;
  for_each_on_card(
      board, assignment,
      [&](std::uint32_t i, const Card& card, const Implementation& current, const Amounts& room,
          const Amounts& all) {
        const auto& ways = board.problem.operations[i].implementations;
        // Try only the next faster implementations. Much faster ones are reached in several steps.
        std::vector<std::uint32_t> quicker;
        for (std::uint32_t w = 0; w < ways.size(); ++w)
          if (ways[w].interval_cycles + ways[w].depth_cycles <
                  current.interval_cycles + current.depth_cycles &&
              static_cast<double>(ways[w].interval_cycles) / card.clock_hz <= limit * kRounding &&
              within(ways[w].amounts, room))
            quicker.push_back(w);
        std::sort(quicker.begin(), quicker.end(), [&](auto a, auto b) {
          return std::pair(ways[a].interval_cycles, a) > std::pair(ways[b].interval_cycles, b);
        });
        if (quicker.size() > 4) quicker.resize(4);
        const std::uint32_t kept = assignment.implementation[i];
        for (const auto w : quicker) {
          assignment.implementation[i] = w;
          const double gain = now.latency_seconds - latency(board, assignment, now.hops);
          double price = 1e-9;
          for (std::size_t k = 0; k < kKinds; ++k)
            if (ways[w].amounts[k] > current.amounts[k])
              price += static_cast<double>(ways[w].amounts[k] - current.amounts[k]) /
                       std::max(1.0, static_cast<double>(all[k]));
          if (gain > now.latency_seconds * 1e-9 && gain / price > best_rate) {
            best_rate = gain / price;
            found = {i, w};
          }
        }
        assignment.implementation[i] = kept;
      });
  return found;
}

/// Returns the change of implementation that saves most memory reads in relation to the resources it takes. Leaves out
/// the changes in `refused`.
std::optional<Exchange> leanest_exchange(const Board& board, const Assignment& assignment,
                                         double interval_seconds, const std::set<Exchange>& refused) {
  std::optional<Exchange> found;
  double most = 0;
  for_each_on_card(
      board, assignment,
      [&](std::uint32_t i, const Card& card, const Implementation& current, const Amounts& room,
          const Amounts&) {
        if (current.amounts[kMemoryBytes] == 0) return;
        const auto& ways = board.problem.operations[i].implementations;
        for (std::uint32_t w = 0; w < ways.size(); ++w) {
          const auto& way = ways[w];
          if (way.amounts[kMemoryBytes] > 0 || !within(way.amounts, room) || refused.contains({i, w}) ||
              static_cast<double>(way.interval_cycles) > interval_seconds * card.clock_hz * kRounding)
            continue;
          double share = 1e-9;
          for (std::size_t k = 0; k < kMemoryBytes; ++k)
            share += static_cast<double>(way.amounts[k]) / std::max(1.0, static_cast<double>(room[k]));
          if (const double worth = static_cast<double>(current.amounts[kMemoryBytes]) / share; worth > most) {
            most = worth;
            found = {i, w};
          }
        }
      });
  return found;
}

}  // namespace

void speed_up(const Board& board, Assignment& assignment, double limit) {
  auto now = board.assess(assignment);
  for (std::size_t step = 0; now && step < 4 * board.problem.operations.size(); ++step) {
    const auto exchange = fastest_exchange(board, assignment, *now, limit);
    if (!exchange) return;
    auto& implementation = assignment.implementation[exchange->first];
    const std::uint32_t kept = std::exchange(implementation, exchange->second);
    now = board.assess(assignment);
    if (now && now->interval_seconds <= limit * kRounding) continue;
    implementation = kept;  // a memory is too slow for the new implementation
    return;
  }
}

Solution spare_memory(const Board& board, const Solution& solution) {
  Solution now = solution;
  Assignment assignment = board.assignment(solution);
  const bool by_latency = board.problem.targets.objective == Objective::kLatency;
  std::set<Exchange> refused;
  while (const auto exchange = leanest_exchange(board, assignment, now.interval_seconds, refused)) {
    auto& implementation = assignment.implementation[exchange->first];
    const std::uint32_t kept = std::exchange(implementation, exchange->second);
    auto changed = board.assess(assignment);
    if (changed && changed->interval_seconds <= now.interval_seconds * kRounding &&
        (!by_latency || changed->latency_seconds <= now.latency_seconds * kRounding) &&
        meets(board.problem, *changed)) {
      changed->gap = now.gap;
      changed->exact = now.exact;
      now = std::move(*changed);
    } else {
      implementation = kept;
      refused.insert(*exchange);
    }
  }
  return now;
}

}  // namespace millrace::compiler::explore
