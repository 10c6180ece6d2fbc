#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "compiler/explore/partition.hpp"
#include "compiler/explore/replicas.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
constexpr double kPacket = 1024 + 40;  // bytes of a full one, with header and CRC

/// part -> place, checked: every operation once, on its own side.
std::string place_operations(const Problem& problem, const Solution& solution,
                             std::vector<std::size_t>& part_of) {
  part_of.assign(problem.operations.size(), kNowhere);
  for (std::size_t p = 0; p < solution.parts.size(); ++p) {
    const Part& part = solution.parts[p];
    if (part.operations.empty()) return "part " + std::to_string(p) + " is empty";
    if (!part.host && part.place >= solution.card.size()) return "part " + std::to_string(p) + " has no card";
    for (const auto operation : part.operations) {
      if (operation >= problem.operations.size())
        return "part " + std::to_string(p) + " holds an operation that does not exist";
      const auto& name = problem.operations[operation].name;
      if (part_of[operation] != kNowhere) return "operation '" + name + "' stands twice";
      if (problem.operations[operation].host != part.host)
        return "operation '" + name + "' is on the wrong side";
      part_of[operation] = p;
    }
  }
  for (std::size_t i = 0; i < part_of.size(); ++i)
    if (part_of[i] == kNowhere) return "operation '" + problem.operations[i].name + "' is nowhere";
  return {};
}

std::string check_cards(const Problem& problem, const Solution& solution) {
  std::set<std::uint32_t> used;
  for (const auto card : solution.card)
    if (card >= problem.cards.size() || !used.insert(card).second)
      return "a card is used twice or does not exist";
  if (problem.partitions && solution.card.size() != *problem.partitions)
    return "not as many cards as were asked for";
  if (problem.replicas && solution.replicas() != *problem.replicas)
    return "not as many replicas as were asked for";
  return {};
}

using Ends = std::pair<std::uint32_t, std::uint32_t>;

/// The cables between two cards, both ways; of one, the slowest's figures.
struct Between {
  std::uint32_t cables = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity(), latency_seconds = 0;
};

std::map<Ends, Between> cables_of(const Problem& problem) {
  std::map<Ends, Between> out;
  for (const auto& cable : problem.cables)
    for (const auto& ends : {Ends{cable.a, cable.b}, Ends{cable.b, cable.a}}) {
      Between& between = out[ends];
      ++between.cables;
      between.bytes_per_second = std::min(between.bytes_per_second, cable.bytes_per_second);
      between.latency_seconds = std::max(between.latency_seconds, cable.latency_seconds);
    }
  return out;
}

/// Tensors go forward, and between cards only by cables: straight, or by the hops the solution names.
std::string check_edges(const Problem& problem, const Solution& solution,
                        const std::vector<std::size_t>& part_of) {
  const auto cables = cables_of(problem);
  std::map<std::uint32_t, std::size_t> producer;
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    for (const auto t : problem.operations[i].outputs) producer[t] = part_of[i];
  std::set<std::pair<std::uint32_t, std::uint32_t>> at;  // (tensor, place) where it comes by
  for (const auto& hop : solution.hops) {
    const std::string what = hop.tensor < problem.tensors.size()
                                 ? "tensor '" + problem.tensors[hop.tensor].name + "'"
                                 : std::string("a tensor that does not exist");
    const auto made = producer.find(hop.tensor);
    if (made == producer.end() || hop.to >= solution.card.size() || hop.from >= hop.to)
      return what + " goes a way that is none";
    if (solution.parts[made->second].place != hop.from && !at.contains({hop.tensor, hop.from}))
      return what + " leaves a card it has not come to";
    if (!cables.contains({solution.card[hop.from], solution.card[hop.to]}))
      return what + " has no cable to go by";
    at.emplace(hop.tensor, hop.to);
  }
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    for (const auto t : problem.operations[i].inputs) {
      if (!producer.contains(t) || producer[t] == part_of[i]) continue;
      const Part &from = solution.parts[producer[t]], &to = solution.parts[part_of[i]];
      const std::string what = "tensor '" + problem.tensors[t].name + "'";
      if (producer[t] > part_of[i]) return what + " goes back to an earlier part";
      if (from.host || to.host || at.contains({t, to.place})) continue;
      if (!solution.implementation.empty() ||
          !cables.contains({solution.card[from.place], solution.card[to.place]}))
        return what + " has no cable to go by";
    }
  return {};
}

std::string check_layers(const Problem& problem, const Solution& solution,
                         const std::vector<std::size_t>& part_of) {
  std::vector<std::uint64_t> cost(solution.card.size(), 0);
  std::uint32_t last = 0;
  for (const auto& layer : layers(problem)) {
    const std::size_t part = part_of[layer.operations.front()];
    for (const auto operation : layer.operations)
      if (part_of[operation] != part)
        return "the layer of operation '" + problem.operations[operation].name + "' is cut";
    const std::uint32_t place = solution.parts[part].place;
    if (place < last) return "the pieces are not contiguous";
    last = place;
    cost[place] += layer.cost;
  }
  if (cost.empty() || *std::max_element(cost.begin(), cost.end()) != solution.largest_cost)
    return "largest_cost is wrong";
  return {};
}

/// Each tensor counts at every cut between the layer that makes it and the last that reads it.
std::string check_crossing(const Problem& problem, const Solution& solution,
                           const std::vector<std::size_t>& part_of) {
  const auto row = layers(problem);
  std::map<std::uint32_t, std::size_t> cuts_before;  // the layer of an operation
  std::size_t cuts = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto place = [&](std::size_t layer) {
      return solution.parts[part_of[row[layer].operations.front()]].place;
    };
    if (i > 0 && place(i) != place(i - 1)) ++cuts;
    for (const auto operation : row[i].operations) cuts_before[operation] = cuts;
  }
  std::map<std::uint32_t, std::size_t> made, crossed;  // tensor: cuts before it is made, cuts it crosses
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
    const auto& operation = problem.operations[i];
    if (operation.host) continue;
    for (const auto t : operation.inputs)
      if (made.contains(t) && cuts_before[i] > made[t])
        crossed[t] = std::max(crossed[t], cuts_before[i] - made[t]);
    for (const auto t : operation.outputs) made[t] = cuts_before[i];
  }
  std::uint64_t bytes = 0;
  for (const auto& [t, times] : crossed) bytes += problem.tensors[t].bytes * times;
  return bytes == solution.crossing_bytes ? std::string() : "crossing_bytes is wrong";
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

/// What a predicted solution claims, place by place.
class Claims {
 public:
  Claims(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of)
      : problem_(problem), solution_(solution), part_of_(part_of), cables_(cables_of(problem)) {}

  std::string check() {
    if (auto wrong = check_choices(); !wrong.empty()) return wrong;
    if (auto wrong = check_regions(); !wrong.empty()) return wrong;
    if (auto wrong = check_budgets(); !wrong.empty()) return wrong;
    if (!near(interval(), solution_.interval_seconds)) return "interval_seconds is wrong";
    if (!near(latency(), solution_.latency_seconds)) return "latency_seconds is wrong";
    return check_targets();
  }

 private:
  const Part& part(std::size_t operation) const { return solution_.parts[part_of_[operation]]; }
  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }
  const Implementation& way(std::size_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }

  std::string check_choices() const {
    const std::size_t count = problem_.operations.size();
    if (solution_.implementation.size() != count || solution_.region.size() != count)
      return "not every operation has an implementation and a region";
    for (std::size_t i = 0; i < count; ++i) {
      if (problem_.operations[i].host) continue;
      if (solution_.implementation[i] >= problem_.operations[i].implementations.size())
        return "operation '" + problem_.operations[i].name + "' has an implementation that does not exist";
      if (solution_.region[i] >= card(part(i).place).regions.size())
        return "operation '" + problem_.operations[i].name + "' stands in a region that does not exist";
    }
    return {};
  }

  /// Layers stand in one region each, and in the regions' order.
  std::string check_regions() const {
    std::map<std::uint32_t, std::uint32_t> last;
    for (const auto& layer : layers(problem_)) {
      const std::uint32_t place = part(layer.operations.front()).place;
      const std::uint32_t region = solution_.region[layer.operations.front()];
      for (const auto operation : layer.operations)
        if (solution_.region[operation] != region)
          return "the layer of operation '" + problem_.operations[operation].name +
                 "' is cut between regions";
      if (region < last[place]) return "the regions of a card are not in their order";
      last[place] = region;
    }
    return {};
  }

  std::string check_budgets() {
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host) used_[{part(i).place, solution_.region[i]}] += way(i).amounts;
    std::set<Ends> joined;
    for (const auto& hop : solution_.hops) {
      auto& loads = bytes_[{hop.from, hop.to}];
      loads.resize(cables_.at({solution_.card[hop.from], solution_.card[hop.to]}).cables, 0);
      *std::min_element(loads.begin(), loads.end()) += problem_.tensors[hop.tensor].bytes;
      joined.emplace(std::min(hop.from, hop.to), std::max(hop.from, hop.to));
    }
    Uses fabric = used_;
    for (const auto& ends : joined) {
      const auto cables = cables_.at({solution_.card[ends.first], solution_.card[ends.second]}).cables;
      for (const auto place : {ends.first, ends.second})
        for (std::uint32_t n = 0; n < cables; ++n) fabric[{place, 0}] += card(place).link;
    }
    for (const auto& [where, amounts] : fabric)
      for (std::size_t k = 0; k < kKinds; ++k)
        if (k != kMemoryBytes && amounts[k] > card(where.first).regions[where.second].available[k])
          return "card '" + card(where.first).name + "' has too little " + kind_name(k);
    return {};
  }

  double interval() const {
    double longest = 0;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host)
        longest =
            std::max(longest, static_cast<double>(way(i).interval_cycles) / card(part(i).place).clock_hz);
    std::map<std::uint32_t, std::uint64_t> read;  // place -> bytes, of all its regions
    for (const auto& [where, amounts] : used_) read[where.first] += amounts[kMemoryBytes];
    for (const auto& [place, sum] : read)
      if (sum > 0)
        longest = std::max(longest, static_cast<double>(sum) /
                                        static_cast<double>(card(place).regions[0].available[kMemoryBytes]));
    for (const auto& [ends, loads] : bytes_)
      longest = std::max(
          longest,
          static_cast<double>(*std::max_element(loads.begin(), loads.end())) /
              cables_.at({solution_.card[ends.first], solution_.card[ends.second]}).bytes_per_second);
    return longest;
  }

  struct Beats {
    double first = 0, last = 0;
  };

  /// First and last beat of every tensor, from its producer on; hops ascend, so a tensor is where it leaves
  /// from.
  double latency() const {
    std::map<std::pair<std::uint32_t, std::int64_t>, Beats> known;  // (tensor, place; -1 the host)
    double end = 0;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      const auto& operation = problem_.operations[i];
      Beats in;
      for (const auto t : operation.inputs) {
        auto from = known.find({t, operation.host ? -1 : std::int64_t{part(i).place}});
        if (from == known.end()) from = known.find({t, -1});
        if (from == known.end()) continue;
        in = {std::max(in.first, from->second.first), std::max(in.last, from->second.last)};
      }
      if (operation.host) {
        const double done = in.last + operation.host_seconds;
        for (const auto t : operation.outputs) known[{t, -1}] = {done, done};
        continue;
      }
      const Beats out = through(i, in);
      end = std::max(end, out.last);
      for (const auto t : operation.outputs) {
        known[{t, part(i).place}] = out;
        known[{t, -1}] = {out.last, out.last};
        for (const auto& hop : solution_.hops)
          if (hop.tensor == t) known[{t, hop.to}] = over(hop, known.at({t, hop.from}));
      }
    }
    return end;
  }

  Beats through(std::size_t operation, const Beats& in) const {
    const double clock = card(part(operation).place).clock_hz;
    const double interval = static_cast<double>(way(operation).interval_cycles) / clock;
    const double depth = static_cast<double>(way(operation).depth_cycles) / clock;
    const double fill = static_cast<double>(way(operation).fill_cycles) / clock;
    return {in.first + fill * std::max(1.0, (in.last - in.first) / interval) + depth,
            std::max(in.first + interval, in.last) + depth};
  }

  Beats over(const Hop& hop, const Beats& from) const {
    const Between& cable = cables_.at({solution_.card[hop.from], solution_.card[hop.to]});
    const auto bytes = static_cast<double>(problem_.tensors[hop.tensor].bytes);
    const double packet = std::min(bytes, kPacket) / cable.bytes_per_second + cable.latency_seconds;
    return {from.first + packet, std::max(from.last + packet, from.first + cable.latency_seconds +
                                                                  bytes / cable.bytes_per_second)};
  }

  std::string check_targets() const {
    const Targets& targets = problem_.targets;
    const auto replicas = static_cast<double>(solution_.replicas());
    if (targets.frames_per_second &&
        solution_.interval_seconds * *targets.frames_per_second > replicas * (1 + 1e-6))
      return "the frame rate asked for is not reached";
    if (targets.max_latency_seconds && solution_.latency_seconds > *targets.max_latency_seconds * (1 + 1e-6))
      return "the latency asked for is exceeded";
    return {};
  }

  using Uses = std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts>;  // (place, region)

  const Problem& problem_;
  const Solution& solution_;
  const std::vector<std::size_t>& part_of_;
  std::map<Ends, Between> cables_;
  Uses used_;
  std::map<Ends, std::vector<std::uint64_t>> bytes_;  // of each cable between two places
};

}  // namespace

std::string verify(const Problem& problem, const Solution& solution) {
  std::vector<std::size_t> part_of;
  if (auto wrong = check_cards(problem, solution); !wrong.empty()) return wrong;
  if (auto wrong = check_copies(problem, solution); !wrong.empty()) return wrong;
  if (auto wrong = place_operations(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_edges(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_layers(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_crossing(problem, solution, part_of); !wrong.empty()) return wrong;
  return is_predictable(problem) ? Claims(problem, solution, part_of).check() : std::string();
}

}  // namespace millrace::compiler::explore
