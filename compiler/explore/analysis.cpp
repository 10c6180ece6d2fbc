#include "compiler/explore/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "compiler/explore/packing.hpp"
#include "compiler/explore/placing.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMultipliesPerDsp = 2;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", share * 100);
  return text;
}

class Analyst {
 public:
  Analyst(const Problem& problem, const Solution& solution) : problem_(problem), solution_(solution) {
    place_.assign(problem.operations.size(), 0);
    for (const auto& part : solution.parts)
      for (const auto operation : part.operations) place_[operation] = part.place;
  }

  Analysis run() {
    add_places();
    add_cables();
    for (auto& place : out_.places) set_roofline(place);
    name_bottleneck();
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
      for (const auto& cable : problem_.cables) {
        const auto a = solution_.card[use.from], b = solution_.card[use.to];
        if ((cable.a != a || cable.b != b) && (cable.a != b || cable.b != a)) continue;
        for (const auto place : {use.from, use.to}) out_.places[place].regions[0].used += card(place).link;
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

  void name_bottleneck() {
    const double interval = solution_.interval_seconds, near = interval * (1 - 1e-9);
    const PlaceAnalysis* slow = nullptr;
    for (const auto& place : out_.places)
      if (place.interval_seconds >= near && slow == nullptr) slow = &place;
    if (slow != nullptr) {
      const auto& name = problem_.operations[slow->slowest].name;
      out_.bottleneck = "'" + name + "' on " + problem_.cards[slow->card].name +
                        " limits: " + std::to_string(way(slow->slowest).interval_cycles) + " cycles a frame";
      lift(*slow);
      add_busiest_cable();
      return;
    }
    for (const auto& cable : out_.cables)
      if (cable.share >= 1 - 1e-9) {
        const std::string name = name_of(cable);
        out_.bottleneck = "the cable " + name + " limits: " + std::to_string(cable.bytes) + " bytes a frame";
        out_.lifts.push_back("a quicker cable " + name + ", or a cut where fewer bytes cross");
        return;
      }
    for (const auto& place : out_.places)
      if (place.memory_bytes > 0 && 1 / place.roofline.memory >= near) {
        out_.bottleneck = "the memory of " + problem_.cards[place.card].name +
                          " limits: " + std::to_string(place.memory_bytes) + " bytes of weights a frame";
        out_.lifts.push_back("weights kept on the chip, or a quicker memory");
        return;
      }
  }

  std::string name_of(const CableUse& cable) const {
    return card(cable.from).name + "-" + card(cable.to).name;
  }

  /// How far the cables are from limiting.
  void add_busiest_cable() {
    const CableUse* most = nullptr;
    for (const auto& cable : out_.cables)
      if (most == nullptr || cable.share > most->share) most = &cable;
    if (most != nullptr)
      out_.lifts.push_back("the cable " + name_of(*most) + " is at " + percent(most->share));
  }

  /// What the slowest place would need for the next shorter interval, everything as cheap as it gets there.
  void lift(const PlaceAnalysis& place) {
    const auto number = static_cast<std::uint32_t>(&place - out_.places.data());
    const std::uint64_t now = way(place.slowest).interval_cycles;
    std::uint64_t next = 0;
    for (const auto& other : problem_.operations[place.slowest].implementations)
      if (other.interval_cycles < now) next = std::max(next, other.interval_cycles);
    const std::string& name = problem_.operations[place.slowest].name;
    if (next == 0) {
      out_.lifts.push_back("nothing here: '" + name +
                           "' cannot be built quicker; a replica could share its work");
      return;
    }
    const double gain = static_cast<double>(now) / static_cast<double>(next) - 1;
    Amounts available{}, need{};
    for (const auto& region : place.regions) available += region.available;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host || place_[i] != number) continue;
      const auto options = options_within(problem_.operations[i], next);
      if (options.empty()) {
        out_.lifts.push_back("'" + problem_.operations[i].name + "' has no implementation of " +
                             std::to_string(next) + " cycles or fewer: another cut, or another card for it");
        return;
      }
      const Option* cheapest = nullptr;
      double least = kNever;
      for (const auto& option : options) {
        double weight = 0;
        for (std::size_t k = 0; k < kMemoryBytes; ++k)
          weight +=
              static_cast<double>(option.amounts[k]) / std::max(1e-3, static_cast<double>(available[k]));
        if (weight < least) {
          least = weight;
          cheapest = &option;
        }
      }
      need += cheapest->amounts;
    }
    bool more = false;
    for (std::size_t k = 0; k < kMemoryBytes; ++k)
      if (need[k] > available[k]) {
        more = true;
        out_.lifts.push_back(
            percent(static_cast<double>(need[k]) / std::max(1.0, static_cast<double>(available[k])) - 1) +
            " more " + kind_name(k) + " on " + problem_.cards[place.card].name + " would give +" +
            percent(gain));
      }
    if (!more)
      out_.lifts.push_back(
          "+" + percent(gain) + " by '" + name + "' in " + std::to_string(next) + " cycles would fit " +
          problem_.cards[place.card].name +
          " as a whole, but not what surrounds it: other cards, regions or cables hold it back");
  }

  const Problem& problem_;
  const Solution& solution_;
  std::vector<std::uint32_t> place_;  // of an operation
  Analysis out_;
};

}  // namespace

Analysis analyse(const Problem& problem, const Solution& solution) {
  return Analyst(problem, solution).run();
}

}  // namespace millrace::compiler::explore
