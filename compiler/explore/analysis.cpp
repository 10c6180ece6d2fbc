#include "compiler/explore/analysis.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultipliesPerDsp = 2;

/// Analyses position `p` of the pipeline: how much of the card's resources is used there.
PlaceAnalysis place_analysis(const Problem& problem, const Solution& solution, const Usage& usage,
                             std::uint32_t p) {
  PlaceAnalysis place;
  place.card = solution.card[p];
  place.links = usage.links[p];
  for (std::size_t r = 0; r < usage.blocks[p].size(); ++r) {
    const Region& region = problem.cards[place.card].regions[r];
    Amounts used = usage.blocks[p][r];
    place.memory_bytes += used[kMemoryBytes];
    used[kMemoryBytes] =
        static_cast<std::uint64_t>(static_cast<double>(used[kMemoryBytes]) / solution.interval_seconds);
    if (r == 0) used += place.links;
    place.regions.push_back({region.name, used, region.available});
  }
  return place;
}

/// Returns the roofline of a card. `products` is the number of multiplications that the card's DSP slices do for each
/// frame.
Roofline roofline(const PlaceAnalysis& place, double clock_hz, double products) {
  double slices = 0;
  for (const auto& region : place.regions) slices += static_cast<double>(region.available[kDsp]);
  Roofline roof{kNever, kNever, kNever, 1 / place.interval_seconds};
  if (products > 0) roof.compute = slices * kMultipliesPerDsp * clock_hz / products;
  if (place.memory_bytes > 0)
    roof.memory = static_cast<double>(place.regions.front().available[kMemoryBytes]) /
                  static_cast<double>(place.memory_bytes);
  return roof;
}

}  // namespace

Analysis analyse(const Problem& problem, const Solution& solution) {
  const Board board(problem);
  const Assignment assignment = board.assignment(solution);
  const Usage usage = board.usage(assignment, solution.hops);
  Analysis out;
  for (std::uint32_t p = 0; p < solution.card.size(); ++p)
    out.places.push_back(place_analysis(problem, solution, usage, p));
  std::vector<double> products(out.places.size(), 0);
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
    const auto& operation = problem.operations[i];
    if (operation.host) continue;
    const auto& way = operation.implementations[solution.implementation[i]];
    const std::uint32_t p = assignment.place[board.chain.layer_of[i]];
    PlaceAnalysis& place = out.places[p];
    place.cost += operation.cost;
    // Count only the multiplications that an operation's DSP slices have time for in its interval. LUTs do
    // all other multiplications.
    products[p] += std::min(static_cast<double>(operation.cost),
                            kMultipliesPerDsp * static_cast<double>(way.amounts[kDsp]) *
                                static_cast<double>(way.interval_cycles));
    const double seconds = static_cast<double>(way.interval_cycles) / problem.cards[place.card].clock_hz;
    if (seconds <= place.interval_seconds) continue;
    place.interval_seconds = seconds;
    place.slowest = i;
  }
  for (std::size_t p = 0; p < out.places.size(); ++p)
    out.places[p].roofline = roofline(out.places[p], problem.cards[out.places[p].card].clock_hz, products[p]);
  for (const auto& [ends, load] : usage.loads) {
    const Wire& between = board.wire(solution.card[ends.first], solution.card[ends.second]);
    CableUse& use = out.cables.emplace_back();
    std::tie(use.from, use.to) = ends;
    use.bytes = load.all();
    use.bytes_per_second = between.bytes_per_second;
    use.seconds = static_cast<double>(load.most()) / between.of_one();
    use.share = use.seconds / solution.interval_seconds;
    for (const auto p : {use.from, use.to})
      out.places[p].roofline.links = std::min(out.places[p].roofline.links, 1 / use.seconds);
  }
  latency(board, assignment, solution.hops, &out.works);
  return out;
}

}  // namespace millrace::compiler::explore
