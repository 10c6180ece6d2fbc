#include "compiler/planning/bottleneck.hpp"

#include <algorithm>
#include <limits>

#include "compiler/planning/split_channels.hpp"

namespace millrace::compiler {

std::optional<std::uint32_t> slowest_block(const Predicted& plan) {
  const explore::PlaceAnalysis* slowest = nullptr;
  for (const auto& place : plan.analysis.places)
    if (slowest == nullptr || place.interval_seconds > slowest->interval_seconds) slowest = &place;
  return slowest == nullptr ? std::nullopt : std::optional(slowest->slowest);
}

std::optional<std::uint32_t> largest_block(const Lowered& lowered, double seconds) {
  std::optional<std::uint32_t> largest;
  double most = 0;
  for (std::uint32_t i = 0; i < lowered.problem.operations.size(); ++i) {
    if (lowered.problem.operations[i].host) continue;
    if (!can_split(lowered.program, i, 2) && !can_split(lowered.program, i, 3)) continue;
    const double load = least_load(lowered.problem, i, seconds);
    if (load <= most) continue;
    most = load;
    largest = i;
  }
  return largest;
}

double least_load(const explore::Problem& problem, std::uint32_t block, double seconds) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& card : problem.cards)
    for (const auto& region : card.regions)
      for (const auto& way : problem.operations[block].implementations) {
        if (static_cast<double>(way.interval_cycles) > seconds * card.clock_hz) continue;
        double share = 0;
        for (std::size_t k = 0; k < explore::kMemoryBytes; ++k)
          share = std::max(share, static_cast<double>(way.amounts[k]) /
                                      std::max(1.0, static_cast<double>(region.available[k])));
        least = std::min(least, share);
      }
  return least;
}

}  // namespace millrace::compiler
