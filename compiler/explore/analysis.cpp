#include "compiler/explore/analysis.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "compiler/explore/board.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultipliesPerDsp = 2;

class Analyst {
 public:
  Analyst(const Problem& problem, const Solution& solution) : problem_(problem), solution_(solution) {
    place_.assign(problem.operations.size(), 0);
    for (const auto& part : solution.parts)
      for (const auto operation : part.operations) place_[operation] = part.place;
  }

  Analysis figures() {
    add_places();
    add_cables();
    for (auto& place : out_.places) set_roofline(place);
    add_works();
    return std::move(out_);
  }

 private:
  const Implementation& way(std::uint32_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }
  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }

  void add_places() {
    for (std::uint32_t p = 0; p < solution_.card.size(); ++p) {
      PlaceAnalysis& place = out_.places.emplace_back();
      place.card = solution_.card[p];
      for (const auto& region : card(p).regions) place.regions.push_back({region.name, {}, region.available});
    }
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      PlaceAnalysis& place = out_.places[place_[i]];
      place.regions[solution_.region[i]].used += way(i).amounts;
      place.cost += problem_.operations[i].cost;
      place.memory_bytes += way(i).amounts[kMemoryBytes];
      const double seconds = static_cast<double>(way(i).interval_cycles) / card(place_[i]).clock_hz;
      if (seconds <= place.interval_seconds) continue;
      place.interval_seconds = seconds;
      place.slowest = i;
    }
    for (auto& place : out_.places)
      for (auto& region : place.regions)
        region.used[kMemoryBytes] = static_cast<std::uint64_t>(
            static_cast<double>(region.used[kMemoryBytes]) / solution_.interval_seconds);
  }

  void add_cables() {
    const Board board(problem_);
    const auto wire = [&](std::uint32_t from, std::uint32_t to) -> const Wire& {
      return board.wire(solution_.card[from], solution_.card[to]);
    };
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Loads> loads;
    for (const auto& hop : solution_.hops) {
      const std::uint64_t frame = problem_.tensors[hop.tensor].bytes;
      bytes[{hop.from, hop.to}] += frame;
      loads.try_emplace({hop.from, hop.to}, wire(hop.from, hop.to).cables).first->second.add(frame);
    }
    for (const auto& [ends, sum] : bytes) {
      CableUse use;
      use.from = ends.first;
      use.to = ends.second;
      use.bytes = sum;
      // Both ways between two places go over the same cables.
      const bool again = use.from > use.to && bytes.contains({use.to, use.from});
      for (std::uint32_t n = 0; !again && n < wire(use.from, use.to).cables; ++n)
        for (const auto place : {use.from, use.to}) {
          out_.places[place].regions[0].used += card(place).link;
          out_.places[place].links += card(place).link;
        }
      const Wire& between = wire(use.from, use.to);
      use.bytes_per_second = between.bytes_per_second;
      use.seconds = static_cast<double>(loads.at(ends).most()) / between.of_one();
      use.share = use.seconds / solution_.interval_seconds;
      out_.cables.push_back(use);
    }
  }

  void add_works() {
    const Board board(problem_);
    Assignment assignment;
    assignment.card = solution_.card;
    assignment.implementation = solution_.implementation;
    for (const auto& layer : board.chain.layers) assignment.place.push_back(place_[layer.operations.front()]);
    latency(board, assignment, solution_.hops, &out_.works);
  }

  /// A frame's: what an operation's slices cannot do in its interval, its LUTs do.
  double products_of_slices(std::uint32_t place) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host && place_[i] == place)
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
  std::vector<std::uint32_t> place_;  // of an operation
  Analysis out_;
};

}  // namespace

Analysis analyse(const Problem& problem, const Solution& solution) {
  return Analyst(problem, solution).figures();
}

}  // namespace millrace::compiler::explore
