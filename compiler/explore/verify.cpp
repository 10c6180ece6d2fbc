#include <algorithm>
#include <map>
#include <set>

#include "compiler/explore/claims.hpp"
#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

/// Sets the part of each operation, and checks that each stands once and on its own side.
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

bool alike(const Card& a, const Card& b) {
  return a.device == b.device && a.clock_hz == b.clock_hz && a.link == b.link &&
         std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                    [](const Region& x, const Region& y) { return x.available == y.available; });
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
      return "a replica has " + std::to_string(copy.size()) + (copy.size() == 1 ? " card" : " cards") +
             ", the first one " + std::to_string(solution.card.size());
    for (std::size_t place = 0; place < copy.size(); ++place) {
      if (copy[place] >= problem.cards.size()) return "a replica has a card that does not exist";
      const Card &card = problem.cards[copy[place]], &first = problem.cards[solution.card[place]];
      if (!used.insert(copy[place]).second) return "card '" + card.name + "' is used twice";
      if (!alike(card, first))
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
  std::vector<std::size_t> part_of;
  if (auto wrong = check_cards(problem, solution); !wrong.empty()) return wrong;
  if (auto wrong = place_operations(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_edges(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_copies(problem, solution); !wrong.empty()) return wrong;
  if (auto wrong = check_layers(problem, solution, part_of); !wrong.empty()) return wrong;
  if (auto wrong = check_crossing(problem, solution, part_of); !wrong.empty()) return wrong;
  return is_predictable(problem) ? check_claims(problem, solution, part_of) : std::string();
}

}  // namespace millrace::compiler::explore
