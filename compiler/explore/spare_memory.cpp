#include <algorithm>
#include <set>

#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kHair = 1 + 1e-9;

class Sparing {
 public:
  Sparing(const Board& board, const Solution& solution)
      : board_(board), problem_(board.problem), now_(solution) {
    assignment_.card = solution.card;
    assignment_.implementation = solution.implementation;
    assignment_.place.assign(board.chain.size(), 0);
    assignment_.region.assign(board.chain.size(), 0);
    for (const auto& part : solution.parts)
      for (const auto operation : part.operations) {
        if (part.host) continue;
        const std::size_t layer = board.chain.layer_of[operation];
        assignment_.place[layer] = part.place;
        assignment_.region[layer] = solution.region[operation];
      }
  }

  Solution run() {
    while (const auto next = cheapest()) {
      const auto [operation, way] = *next;
      const std::uint32_t before = assignment_.implementation[operation];
      assignment_.implementation[operation] = way;
      auto changed = board_.assess(assignment_);
      if (changed && as_good(*changed)) {
        changed->gap = now_.gap;
        changed->exact = now_.exact;
        now_ = std::move(*changed);
      } else {
        assignment_.implementation[operation] = before;
        refused_.insert(*next);
      }
    }
    return now_;
  }

 private:
  using Exchange = std::pair<std::uint32_t, std::uint32_t>;  // operation, way

  bool as_good(const Solution& changed) const {
    const auto& targets = problem_.targets;
    const bool by_latency = targets.objective == Objective::kLatency;
    return changed.interval_seconds <= now_.interval_seconds * kHair &&
           (!by_latency || changed.latency_seconds <= now_.latency_seconds * kHair) &&
           meets(problem_, changed);
  }

  /// The exchange that saves the most bytes for its share of what is left.
  std::optional<Exchange> cheapest() const {
    std::optional<Exchange> found;
    double most = 0;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i) {
      const std::size_t layer = board_.chain.layer_of[i];
      if (layer == board_.chain.size()) continue;
      const auto& ways = problem_.operations[i].implementations;
      const Implementation& current = ways[assignment_.implementation[i]];
      if (current.amounts[kMemoryBytes] == 0) continue;
      const std::uint32_t place = assignment_.place[layer];
      const Amounts left = board_.unused(assignment_, place, assignment_.region[layer]) + current.amounts;
      const double cycles = now_.interval_seconds * problem_.cards[assignment_.card[place]].clock_hz * kHair;
      for (std::uint32_t w = 0; w < ways.size(); ++w) {
        const auto& way = ways[w];
        if (way.amounts[kMemoryBytes] > 0 || static_cast<double>(way.interval_cycles) > cycles ||
            !within(way.amounts, left) || refused_.contains({i, w}))
          continue;
        double share = 1e-9;
        for (std::size_t k = 0; k < kMemoryBytes; ++k)
          share += static_cast<double>(way.amounts[k]) / std::max(1.0, static_cast<double>(left[k]));
        if (const double worth = static_cast<double>(current.amounts[kMemoryBytes]) / share; worth > most) {
          most = worth;
          found = {i, w};
        }
      }
    }
    return found;
  }

  const Board& board_;
  const Problem& problem_;
  Assignment assignment_;
  Solution now_;
  std::set<Exchange> refused_;
};

}  // namespace

Solution spare_memory(const Board& board, const Solution& solution) {
  return Sparing(board, solution).run();
}

}  // namespace millrace::compiler::explore
