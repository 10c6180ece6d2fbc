#include "compiler/explore/analysis.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultipliesPerDsp = 2;

class Analyst {
 public:
  Analyst(const Problem& problem, const Solution& solution)
      : problem_(problem),
        solution_(solution),
        board_(problem),
        assignment_(board_.assignment(solution)),
        usage_(board_.usage(assignment_, solution.hops)) {}

  Analysis figures() {
    add_places();
    add_cables();
    for (auto& place : out_.places) set_roofline(place);
    latency(board_, assignment_, solution_.hops, &out_.works);
    return std::move(out_);
  }

 private:
  const Implementation& way(std::uint32_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }
  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }
  std::uint32_t place_of(std::uint32_t operation) const {
    return assignment_.place[board_.chain.layer_of[operation]];
  }

  void add_places() {
    for (std::uint32_t p = 0; p < solution_.card.size(); ++p) {
      PlaceAnalysis& place = out_.places.emplace_back();
      place.card = solution_.card[p];
      place.links = usage_.links[p];
      for (std::size_t r = 0; r < usage_.blocks[p].size(); ++r) {
        const Region& region = card(p).regions[r];
        Amounts used = usage_.blocks[p][r];
        place.memory_bytes += used[kMemoryBytes];
        used[kMemoryBytes] =
            static_cast<std::uint64_t>(static_cast<double>(used[kMemoryBytes]) / solution_.interval_seconds);
        if (r == 0) used += place.links;
        place.regions.push_back({region.name, used, region.available});
      }
    }
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      PlaceAnalysis& place = out_.places[place_of(i)];
      place.cost += problem_.operations[i].cost;
      const double seconds = static_cast<double>(way(i).interval_cycles) / card(place_of(i)).clock_hz;
      if (seconds <= place.interval_seconds) continue;
      place.interval_seconds = seconds;
      place.slowest = i;
    }
  }

  void add_cables() {
    for (const auto& [ends, load] : usage_.loads) {
      const Wire& between = board_.wire(solution_.card[ends.first], solution_.card[ends.second]);
      CableUse& use = out_.cables.emplace_back();
      std::tie(use.from, use.to) = ends;
      use.bytes = load.all();
      use.bytes_per_second = between.bytes_per_second;
      use.seconds = static_cast<double>(load.most()) / between.of_one();
      use.share = use.seconds / solution_.interval_seconds;
    }
  }

  /// A frame's: what an operation's slices cannot do in its interval, its LUTs do.
  double products_of_slices(std::uint32_t place) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host && place_of(i) == place)
        sum += std::min(static_cast<double>(problem_.operations[i].cost),
                        kMultipliesPerDsp * static_cast<double>(way(i).amounts[kDsp]) *
                            static_cast<double>(way(i).interval_cycles));
    return sum;
  }

  void set_roofline(PlaceAnalysis& place) {
    const auto number = static_cast<std::uint32_t>(&place - out_.places.data());
    const double products = products_of_slices(number);
    double dsps = 0;
    for (const auto& region : place.regions) dsps += static_cast<double>(region.available[kDsp]);
    Roofline& roof = place.roofline;
    roof.compute = products == 0 ? kNever : dsps * kMultipliesPerDsp * card(number).clock_hz / products;
    roof.memory = place.memory_bytes == 0
                      ? kNever
                      : static_cast<double>(place.regions.front().available[kMemoryBytes]) /
                            static_cast<double>(place.memory_bytes);
    roof.links = kNever;
    for (const auto& cable : out_.cables)
      if (cable.from == number || cable.to == number) roof.links = std::min(roof.links, 1 / cable.seconds);
    roof.attained = 1 / place.interval_seconds;
  }

  const Problem& problem_;
  const Solution& solution_;
  const Board board_;
  const Assignment assignment_;
  const Usage usage_;
  Analysis out_;
};

}  // namespace

Analysis analyse(const Problem& problem, const Solution& solution) {
  return Analyst(problem, solution).figures();
}

}  // namespace millrace::compiler::explore
