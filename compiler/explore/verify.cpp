// Checks a solution and its figures. Recomputes all figures from the problem, without the search's code.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/explore/format.hpp"
#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {
namespace {

using Ends = std::pair<std::uint32_t, std::uint32_t>;
using Implementations = std::vector<std::uint32_t>;  // [operation]: index of its implementation

constexpr double kPacket = 1024 + 40;  // bytes of a full packet, header and CRC included
constexpr double kTolerance = 1e-6;
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

/// The cables between two cards, with the bandwidth and latency of the slowest cable. If the two cards are joined through
/// the hosts' memory instead of a cable, `through_hosts` is true.
struct Between {
  std::uint32_t cables = 0;
  bool through_hosts = false;
  double bytes_per_second = std::numeric_limits<double>::infinity(), latency_seconds = 0;
  bool operator==(const Between&) const = default;
};

std::map<Ends, Between> cables_of(const Problem& problem) {
  std::map<Ends, Between> out;
  for (const auto& cable : problem.cables)
    for (const auto& ends : {Ends{cable.a, cable.b}, Ends{cable.b, cable.a}}) {
      Between& between = out[ends];
      ++between.cables;
      between.through_hosts = cable.through_hosts;
      between.bytes_per_second = std::min(between.bytes_per_second, cable.bytes_per_second);
      between.latency_seconds = std::max(between.latency_seconds, cable.latency_seconds);
    }
  return out;
}

/// A solution and its problem, with look-up tables.
struct Claim {
  Claim(const Problem& of, const Solution& claimed)
      : problem(of), solution(claimed), cables(cables_of(of)), part_of(of.operations.size(), kNowhere) {}

  const Problem& problem;
  const Solution& solution;
  const std::map<Ends, Between> cables;
  std::vector<std::size_t> part_of;  // [operation]: its part; set by place_operations()

  const Part& part(std::size_t operation) const { return solution.parts[part_of[operation]]; }
  const Card& card(std::uint32_t place) const { return problem.cards[solution.card[place]]; }
  const Card& card_of(std::size_t operation) const { return card(part(operation).place); }
  const Between& cables_of_hop(const Hop& hop) const {
    return cables.at({solution.card[hop.from], solution.card[hop.to]});
  }
};

std::string check_cards(const Claim& claim) {
  const auto& [problem, solution, cables, part_of] = claim;
  std::set<std::uint32_t> used;
  for (const auto card : solution.card)
    if (card >= problem.cards.size() || !used.insert(card).second)
      return "a card is used twice or does not exist";
  if (problem.partitions && solution.card.size() != *problem.partitions)
    return "the number of cards differs from the requested number";
  if (problem.replicas && solution.replicas() != *problem.replicas)
    return "the number of replicas differs from the requested number";
  return {};
}

/// Sets `part_of`. Checks that each operation is in exactly one part of the solution, and that only host operations are
/// on the host.
std::string place_operations(Claim& claim) {
  auto& [problem, solution, cables, part_of] = claim;
  for (std::size_t p = 0; p < solution.parts.size(); ++p) {
    const Part& part = solution.parts[p];
    if (part.operations.empty()) return "part " + std::to_string(p) + " is empty";
    if (!part.host && part.place >= solution.card.size()) return "part " + std::to_string(p) + " has no card";
    for (const auto operation : part.operations) {
      if (operation >= problem.operations.size())
        return "part " + std::to_string(p) + " holds an operation that does not exist";
      const auto& name = problem.operations[operation].name;
      if (part_of[operation] != kNowhere) return "operation '" + name + "' is listed twice";
      if (problem.operations[operation].host != part.host)
        return "operation '" + name + "' is on the wrong side";
      part_of[operation] = p;
    }
  }
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (part_of[i] == kNowhere) return "operation '" + problem.operations[i].name + "' is nowhere";
  return {};
}

/// Checks that tensors go only to later parts of the solution. Between two cards, a tensor must go over a direct cable
/// or over the cables that the solution names.
std::string check_edges(const Claim& claim) {
  const auto& [problem, solution, cables, part_of] = claim;
  std::map<std::uint32_t, std::size_t> producer;  // tensor -> the part that makes it
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    for (const auto t : problem.operations[i].outputs) producer[t] = part_of[i];
  std::set<std::pair<std::uint32_t, std::uint32_t>> at;  // (tensor, position) for each end of a hop
  for (const auto& hop : solution.hops) {
    const std::string what = hop.tensor < problem.tensors.size()
                                 ? "tensor '" + problem.tensors[hop.tensor].name + "'"
                                 : std::string("a tensor that does not exist");
    const auto made = producer.find(hop.tensor);
    if (made == producer.end() || hop.to >= solution.card.size() || hop.from >= hop.to)
      return what + " has an invalid route";
    if (solution.parts[made->second].place != hop.from && !at.contains({hop.tensor, hop.from}))
      return what + " leaves a card that it has not reached";
    if (!cables.contains({solution.card[hop.from], solution.card[hop.to]}))
      return what + " has no cable to go by";
    at.emplace(hop.tensor, hop.to);
  }
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    for (const auto t : problem.operations[i].inputs) {
      if (!producer.contains(t) || producer[t] == part_of[i]) continue;
      const Part &from = solution.parts[producer[t]], &to = claim.part(i);
      const std::string what = "tensor '" + problem.tensors[t].name + "'";
      if (producer[t] > part_of[i]) return what + " goes back to an earlier part";
      if (from.host || to.host || at.contains({t, to.place})) continue;
      if (!solution.implementation.empty() ||
          !cables.contains({solution.card[from.place], solution.card[to.place]}))
        return what + " has no cable to go by";
    }
  return {};
}

/// Checks that each layer is in only one part of the solution, and that the cards' positions ascend with the layers.
std::string check_layers(const Claim& claim) {
  std::uint32_t last = 0;
  for (const auto& layer : layers(claim.problem)) {
    const std::uint32_t first = layer.operations.front();
    for (const auto operation : layer.operations)
      if (claim.part_of[operation] != claim.part_of[first])
        return "the layer of operation '" + claim.problem.operations[operation].name +
               "' is split between partitions";
    if (claim.part(first).place < last) return "the layers of a card are not contiguous";
    last = claim.part(first).place;
  }
  return {};
}

/// Checks `crossing_bytes`. Each tensor counts at every cut between the operation that makes it and its last reader.
std::string check_crossing(const Claim& claim) {
  std::map<std::uint32_t, std::uint32_t> made, crossed;  // tensor -> position that makes it, number of cuts
  for (std::size_t i = 0; i < claim.problem.operations.size(); ++i) {
    const auto& operation = claim.problem.operations[i];
    if (operation.host) continue;
    const std::uint32_t place = claim.part(i).place;
    for (const auto t : operation.inputs)
      if (made.contains(t)) crossed[t] = std::max(crossed[t], place - made[t]);
    for (const auto t : operation.outputs) made[t] = place;
  }
  std::uint64_t bytes = 0;
  for (const auto& [t, cuts] : crossed) bytes += claim.problem.tensors[t].bytes * cuts;
  return bytes == claim.solution.crossing_bytes ? std::string() : "crossing_bytes is wrong";
}

/// Checks that each operation has an implementation and a region that exist, that each layer is in one region, and
/// that the regions of a card ascend with the layers.
std::string check_choices(const Claim& claim) {
  const auto& [problem, solution, cables, part_of] = claim;
  const std::size_t count = problem.operations.size();
  if (solution.implementation.size() != count || solution.region.size() != count)
    return "not every operation has an implementation and a region";
  for (std::size_t i = 0; i < count; ++i) {
    if (problem.operations[i].host) continue;
    if (solution.implementation[i] >= problem.operations[i].implementations.size())
      return "operation '" + problem.operations[i].name + "' has an implementation that does not exist";
    if (solution.region[i] >= claim.card_of(i).regions.size())
      return "operation '" + problem.operations[i].name + "' is assigned to a region that does not exist";
  }
  std::map<std::uint32_t, std::uint32_t> last;
  for (const auto& layer : layers(problem)) {
    const std::uint32_t region = solution.region[layer.operations.front()];
    for (const auto operation : layer.operations)
      if (solution.region[operation] != region)
        return "the layer of operation '" + problem.operations[operation].name + "' is cut between regions";
    auto& before = last[claim.part(layer.operations.front()).place];
    if (region < before) return "the regions of a card are not used in order";
    before = region;
  }
  return {};
}

/// Computes a solution's budgets, interval and latency with other implementations. Keeps references to its arguments.
class Recomputed {
 public:
  Recomputed(const Claim& claim, const Implementations& implementation)
      : claim_(claim), problem_(claim.problem), implementation_(implementation) {
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      used_[{place(i), claim.solution.region[i]}] += way(i).amounts;
      read_[place(i)] += way(i).amounts[kMemoryBytes];
    }
    std::set<Ends> joined;
    for (const auto& hop : claim.solution.hops) {
      auto& loads = bytes_[{hop.from, hop.to}];
      loads.resize(claim.cables_of_hop(hop).cables, 0);
      *std::min_element(loads.begin(), loads.end()) += problem_.tensors[hop.tensor].bytes;
      if (claim.cables_of_hop(hop).through_hosts) continue;  // needs no link on the cards
      if (!joined.emplace(std::minmax(hop.from, hop.to)).second) continue;
      for (const auto end : {hop.from, hop.to})
        for (std::uint32_t n = 0; n < loads.size(); ++n) used_[{end, 0}] += claim.card(end).link;
    }
  }

  /// Names a card and a resource that it lacks. Returns an empty text if no resource is short.
  std::string overfull() const {
    for (const auto& [where, amounts] : used_)
      for (std::size_t k = 0; k < kMemoryBytes; ++k)
        if (amounts[k] > claim_.card(where.first).regions[where.second].available[k])
          return "card '" + claim_.card(where.first).name + "' has too little " + kind_name(k);
    return {};
  }

  /// Whether the operation's region has room for another implementation of it, if all other operations stay the same.
  bool has_room(std::size_t operation, const Implementation& other) const {
    const std::pair where{place(operation), claim_.solution.region[operation]};
    const auto& available = claim_.card(where.first).regions[where.second].available;
    for (std::size_t k = 0; k < kMemoryBytes; ++k)
      if (used_.at(where)[k] - way(operation).amounts[k] + other.amounts[k] > available[k]) return false;
    return true;
  }

  /// Returns the longest time for which one frame occupies a memory or a cable.
  double transfers() const {
    double longest = 0;
    for (const auto& [at, bytes] : read_)
      if (bytes > 0)
        longest =
            std::max(longest, static_cast<double>(bytes) /
                                  static_cast<double>(claim_.card(at).regions[0].available[kMemoryBytes]));
    for (const auto& [ends, loads] : bytes_)
      longest = std::max(longest, static_cast<double>(*std::max_element(loads.begin(), loads.end())) /
                                      claim_.cables_of_hop({0, ends.first, ends.second}).bytes_per_second);
    return longest;
  }

  double interval() const {
    double longest = transfers();
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host)
        longest = std::max(longest, static_cast<double>(way(i).interval_cycles) / claim_.card_of(i).clock_hz);
    return longest;
  }

  /// Computes when the first and the last word of every tensor arrive. Hops (transfers of a tensor over one cable) are
  /// in ascending order, so the time at the start of a hop is always known.
  double latency() const {
    std::map<std::pair<std::uint32_t, std::int64_t>, Beats> known;  // (tensor, position; -1 is the host)
    double end = 0;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      const auto& operation = problem_.operations[i];
      Beats in;
      for (const auto t : operation.inputs) {
        auto from = known.find({t, operation.host ? -1 : std::int64_t{place(i)}});
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
        known[{t, place(i)}] = out;
        known[{t, -1}] = {out.last, out.last};
        for (const auto& hop : claim_.solution.hops)
          if (hop.tensor == t) known[{t, hop.to}] = over(hop, known.at({t, hop.from}));
      }
    }
    return end;
  }

  /// Returns a sentence about a missed target, or an empty text if all are met.
  std::string missed() const {
    const Targets& targets = problem_.targets;
    const auto replicas = static_cast<double>(claim_.solution.replicas());
    if (targets.frames_per_second && interval() * *targets.frames_per_second > replicas * (1 + kTolerance))
      return "the required frame rate is not reached";
    if (targets.max_latency_seconds && latency() > *targets.max_latency_seconds * (1 + kTolerance))
      return "the maximum latency is exceeded";
    return {};
  }

  bool hold() const { return overfull().empty() && missed().empty(); }

 private:
  struct Beats {
    double first = 0, last = 0;
  };

  std::uint32_t place(std::size_t operation) const { return claim_.part(operation).place; }
  const Implementation& way(std::size_t operation) const {
    return problem_.operations[operation].implementations[implementation_[operation]];
  }

  Beats through(std::size_t operation, const Beats& in) const {
    const double clock = claim_.card_of(operation).clock_hz;
    const double interval = static_cast<double>(way(operation).interval_cycles) / clock;
    const double depth = static_cast<double>(way(operation).depth_cycles) / clock;
    const double fill = static_cast<double>(way(operation).fill_cycles) / clock;
    return {in.first + fill * std::max(1.0, (in.last - in.first) / interval) + depth,
            std::max(in.first + interval, in.last) + depth};
  }

  Beats over(const Hop& hop, const Beats& from) const {
    const Between& cable = claim_.cables_of_hop(hop);
    const auto bytes = static_cast<double>(problem_.tensors[hop.tensor].bytes);
    if (cable.through_hosts) {  // the host sends a tensor on when all of it has arrived
      const double done = from.last + cable.latency_seconds + bytes / cable.bytes_per_second;
      return {done, done};
    }
    const double packet = std::min(bytes, kPacket) / cable.bytes_per_second + cable.latency_seconds;
    return {from.first + packet, std::max(from.last + packet, from.first + cable.latency_seconds +
                                                                  bytes / cable.bytes_per_second)};
  }

  const Claim& claim_;
  const Problem& problem_;
  const Implementations& implementation_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts> used_;  // (position, region); includes cables
  std::map<std::uint32_t, std::uint64_t> read_;                      // position -> bytes read from its memory
  std::map<Ends, std::vector<std::uint64_t>> bytes_;                 // positions -> bytes on each cable
};

/// Gives each operation that takes longer than `seconds` its smallest implementation that is fast enough.
Implementations built_for(const Claim& claim, double seconds) {
  Implementations out = claim.solution.implementation;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (claim.problem.operations[i].host) continue;
    const auto& ways = claim.problem.operations[i].implementations;
    const auto& available = claim.card_of(i).regions[claim.solution.region[i]].available;
    const auto fast_enough = [&](const Implementation& way) {
      return static_cast<double>(way.interval_cycles) <= seconds * claim.card_of(i).clock_hz;
    };
    if (fast_enough(ways[out[i]])) continue;
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t w = 0; w < ways.size(); ++w) {
      double share = 0;  // the largest fraction of any resource
      for (std::size_t k = 0; k < kKinds; ++k)
        if (const auto amount = ways[w].amounts[k]; amount > 0)
          share = std::max(share, static_cast<double>(amount) / static_cast<double>(available[k]));
      if (!fast_enough(ways[w]) || share >= least) continue;
      least = share;
      out[i] = w;
    }
  }
  return out;
}

/// Gives one operation after another its fastest implementation for which its region has room.
Implementations built_fastest(const Claim& claim) {
  const auto cycles = [](const Implementation& way) { return way.interval_cycles + way.depth_cycles; };
  Implementations out = claim.solution.implementation;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (claim.problem.operations[i].host) continue;
    const auto& ways = claim.problem.operations[i].implementations;
    const Implementations now = out;
    const Recomputed figures(claim, now);
    for (std::uint32_t w = 0; w < ways.size(); ++w)
      if (cycles(ways[w]) < cycles(ways[out[i]]) && figures.has_room(i, ways[w])) out[i] = w;
  }
  return out;
}

/// Checks the ceiling, the highest rate that the gap (the distance to the best possible solution) allows for. Other
/// implementations on the same cards must not exceed the ceiling, and the ceiling must not exceed the rate of the
/// fastest implementations.
std::string check_rate_gap(const Claim& claim) {
  const auto& [problem, solution, cables, part_of] = claim;
  const double host = host_seconds(problem);
  const auto rate = [&](double interval, std::size_t copies) {
    const double of_cards = static_cast<double>(copies) / interval;
    return host > 0 ? std::min(of_cards, 1 / host) : of_cards;
  };
  // The gap (the distance to the best possible solution) concerns only the cards, so the limit that the host sets on
  // the rate does not grow with the gap.
  const double ceiling = rate(solution.interval_seconds / (1 + solution.gap), solution.replicas());
  double clock = 0, shortest = 0;
  for (const auto& card : problem.cards) clock = std::max(clock, card.clock_hz);
  for (const auto& operation : problem.operations)
    if (!operation.host)
      shortest = std::max(shortest, static_cast<double>(least_interval(operation)) / clock);
  const auto cards = static_cast<double>(solution.card.size() * solution.replicas());
  const bool is_of_cards =
      problem.targets.objective == Objective::kCards && solution.gap <= cards - 1 + kTolerance;
  if (ceiling > rate(shortest, problem.cards.size()) * (1 + kTolerance) && !is_of_cards)
    return "optimality gap is wrong: no implementations are fast enough for the rate that the gap allows";
  const Implementations other =
      built_for(claim, static_cast<double>(solution.replicas()) / (ceiling * (1 + 2 * kTolerance)));
  const Recomputed figures(claim, other);
  const double reached = rate(figures.interval(), solution.replicas());
  return figures.hold() && reached > ceiling * (1 + kTolerance)
             ? "optimality gap is wrong: "
               "with other implementations, the same cards reach a rate of " +
                   std::to_string(reached) + " frames/s"
             : std::string();
}

std::string check_latency_gap(const Claim& claim) {
  const Implementations other = built_fastest(claim);
  const Recomputed figures(claim, other);
  const double floor = claim.solution.latency_seconds / (1 + claim.solution.gap);
  return figures.hold() && figures.latency() < floor * (1 - kTolerance)
             ? "optimality gap is wrong: "
               "with other implementations on the same cards, the latency is " +
                   std::to_string(figures.latency() * 1e6) + " us"
             : std::string();
}

/// Checks regions, budgets, interval, latency, targets, `gap` and `exact`. `gap` is the distance to the best possible
/// solution. Proving it would need a search, so it is only compared with bounds that need no search.
std::string check_figures(const Claim& claim) {
  const Solution& solution = claim.solution;
  if (auto wrong = check_choices(claim); !wrong.empty()) return wrong;
  const Recomputed figures(claim, solution.implementation);
  if (auto wrong = figures.overfull(); !wrong.empty()) return wrong;
  if (!near(figures.interval(), solution.interval_seconds)) return "interval_seconds is wrong";
  if (!near(figures.latency(), solution.latency_seconds)) return "latency_seconds is wrong";
  if (auto wrong = figures.missed(); !wrong.empty()) return wrong;
  if (!(solution.gap >= 0)) return "optimality gap is wrong: it must be 0 or more";
  if (solution.exact && solution.gap != 0)
    return "optimality gap is wrong: it must be 0 if the solution is exact";
  if (!std::isfinite(solution.gap)) return {};
  return claim.problem.targets.objective == Objective::kLatency ? check_latency_gap(claim)
                                                                : check_rate_gap(claim);
}

}  // namespace

std::string check_copies(const Problem& problem, const Solution& solution) {
  const auto cables = cables_of(problem);
  const auto name = [&](std::uint32_t card) { return "'" + problem.cards[card].name + "'"; };
  const auto between = [&](const std::vector<std::uint32_t>& cards, const Hop& hop) {
    const auto found = cables.find({cards[hop.from], cards[hop.to]});
    return found == cables.end() ? Between{} : found->second;
  };
  std::set<std::uint32_t> used(solution.card.begin(), solution.card.end());
  for (const auto& copy : solution.copies) {
    if (copy.size() != solution.card.size())
      return "a replica has " + plural(copy.size(), "card") + ", but the first replica has " +
             std::to_string(solution.card.size());
    for (std::size_t place = 0; place < copy.size(); ++place) {
      if (copy[place] >= problem.cards.size()) return "a replica has a card that does not exist";
      const Card &card = problem.cards[copy[place]], &first = problem.cards[solution.card[place]];
      if (!used.insert(copy[place]).second) return "card '" + card.name + "' is used twice";
      if (card.device != first.device || !alike(card, first))
        return "card '" + card.name + "' (" + card.device + ") stands for '" + first.name + "' (" +
               first.device + ") in a replica and is not of its kind";
    }
    for (const Hop& hop : solution.hops)
      if (between(copy, hop) != between(solution.card, hop))
        return "cards " + name(copy[hop.from]) + " and " + name(copy[hop.to]) +
               " of a replica are not cabled as " + name(solution.card[hop.from]) + " and " +
               name(solution.card[hop.to]) + " are";
  }
  return {};
}

std::string verify(const Problem& problem, const Solution& solution) {
  Claim claim(problem, solution);
  if (auto wrong = check_cards(claim); !wrong.empty()) return wrong;
  if (auto wrong = place_operations(claim); !wrong.empty()) return wrong;
  if (auto wrong = check_edges(claim); !wrong.empty()) return wrong;
  if (auto wrong = check_copies(problem, solution); !wrong.empty()) return wrong;
  if (auto wrong = check_layers(claim); !wrong.empty()) return wrong;
  if (auto wrong = check_crossing(claim); !wrong.empty()) return wrong;
  return is_predictable(problem) ? check_figures(claim) : std::string();
}

double transfer_seconds(const Problem& problem, const Solution& solution) {
  Claim claim(problem, solution);
  place_operations(claim);
  return Recomputed(claim, solution.implementation).transfers();
}

}  // namespace millrace::compiler::explore
