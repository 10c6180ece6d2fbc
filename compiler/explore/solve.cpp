#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/explore/partition.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr std::uint64_t kInfinite = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kMaxTrials = 1000000;

using Cuts = std::vector<std::size_t>;  // first layer of each piece, and the number of layers at the end

/// A tensor that goes from one layer to later ones.
struct Edge {
  std::uint32_t tensor;
  std::size_t from, last;
};

/// Everything about the layers that a cut is judged by.
struct Chain {
  std::vector<Layer> layers;
  std::vector<Edge> edges;
  std::vector<std::uint64_t> cost_before;  // of layers 0..i-1
  std::vector<std::uint64_t> live_bytes;   // of tensors that cross a cut before layer i
  std::vector<std::size_t> farthest;       // last layer that reads anything made before layer i

  std::uint64_t cost(std::size_t begin, std::size_t end) const {
    return cost_before[end] - cost_before[begin];
  }
};

Chain make_chain(const Problem& problem) {
  Chain chain;
  chain.layers = layers(problem);
  const std::size_t count = chain.layers.size();
  std::vector<std::size_t> layer_of(problem.operations.size(), count);  // count: on the host
  for (std::size_t i = 0; i < count; ++i)
    for (const auto operation : chain.layers[i].operations) layer_of[operation] = i;

  std::vector<std::size_t> made(problem.tensors.size(), count), read(problem.tensors.size(), 0);
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    if (layer_of[i] == count) continue;
    for (const auto t : problem.operations[i].outputs) made[t] = layer_of[i];
    for (const auto t : problem.operations[i].inputs) read[t] = std::max(read[t], layer_of[i]);
  }
  chain.cost_before.assign(count + 1, 0);
  chain.live_bytes.assign(count + 1, 0);
  chain.farthest.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i)
    chain.cost_before[i + 1] = chain.cost_before[i] + chain.layers[i].cost;
  for (std::uint32_t t = 0; t < problem.tensors.size(); ++t) {
    if (made[t] == count || read[t] <= made[t]) continue;
    chain.edges.push_back({t, made[t], read[t]});
    for (std::size_t i = made[t] + 1; i <= read[t]; ++i) chain.live_bytes[i] += problem.tensors[t].bytes;
    for (std::size_t i = made[t] + 1; i <= count; ++i)
      chain.farthest[i] = std::max(chain.farthest[i], read[t]);
  }
  return chain;
}

/// Dynamic programming over (pieces, layers): the smallest `value` of a piece combined along the way.
template <class Value, class Combine, class Allowed>
std::uint64_t best_cuts(std::size_t count, std::size_t pieces, Value value, Combine combine, Allowed allowed,
                        Cuts* cuts) {
  std::vector<std::vector<std::uint64_t>> best(pieces + 1, std::vector<std::uint64_t>(count + 1, kInfinite));
  std::vector<std::vector<std::size_t>> begin(pieces + 1, std::vector<std::size_t>(count + 1, 0));
  best[0][0] = 0;
  for (std::size_t n = 1; n <= pieces; ++n)
    for (std::size_t end = n; end <= count; ++end)
      for (std::size_t i = n - 1; i < end; ++i) {
        if (best[n - 1][i] == kInfinite || !allowed(i, end)) continue;
        const std::uint64_t total = combine(best[n - 1][i], value(i, end));
        if (total < best[n][end]) {
          best[n][end] = total;
          begin[n][end] = i;
        }
      }
  if (cuts != nullptr && best[pieces][count] != kInfinite) {
    *cuts = {count};
    for (std::size_t n = pieces; n > 0; --n) cuts->insert(cuts->begin(), begin[n][cuts->front()]);
  }
  return best[pieces][count];
}

/// Empty where there is no such cut. `neighbours_only`: no tensor may be read two pieces on or later.
Cuts cut(const Chain& chain, std::size_t pieces, bool neighbours_only) {
  const std::size_t count = chain.layers.size();
  const auto allowed = [&](std::size_t i, std::size_t end) {
    return !neighbours_only || i == 0 || end == count || chain.farthest[i] < end;
  };
  const auto cost = [&](std::size_t i, std::size_t end) { return chain.cost(i, end); };
  const auto larger = [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); };
  const std::uint64_t bound = best_cuts(count, pieces, cost, larger, allowed, nullptr);
  Cuts cuts;
  if (bound == kInfinite) return cuts;
  const auto bounded = [&](std::size_t i, std::size_t end) {
    return allowed(i, end) && chain.cost(i, end) <= bound;
  };
  const auto bytes = [&](std::size_t i, std::size_t) { return i == 0 ? 0 : chain.live_bytes[i]; };
  const auto sum = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  best_cuts(count, pieces, bytes, sum, bounded, &cuts);
  return cuts;
}

using Neighbours =
    std::set<std::pair<std::uint32_t, std::uint32_t>>;  // places a < b with a channel between them

Neighbours neighbours(const Problem& problem, const Chain& chain, const Cuts& cuts) {
  std::vector<std::uint32_t> place(chain.layers.size());
  for (std::uint32_t p = 0; p + 1 < cuts.size(); ++p)
    for (std::size_t i = cuts[p]; i < cuts[p + 1]; ++i) place[i] = p;
  std::map<std::uint32_t, std::uint32_t> from;
  for (const auto& edge : chain.edges) from[edge.tensor] = place[edge.from];
  Neighbours found;
  for (std::size_t i = 0; i < chain.layers.size(); ++i)
    for (const auto operation : chain.layers[i].operations)
      for (const auto t : problem.operations[operation].inputs)
        if (const auto made = from.find(t); made != from.end() && made->second != place[i])
          found.emplace(made->second, place[i]);
  return found;
}

/// Cards for the places, the first that fit in the cluster's order; empty where none do.
class Embedding {
 public:
  Embedding(const Problem& problem, const Neighbours& needs, std::uint32_t places)
      : problem_(problem), needs_(needs), places_(places), used_(problem.cards.size(), false) {
    for (const auto& [a, b] : problem.cables) {
      cables_.emplace(a, b);
      cables_.emplace(b, a);
    }
  }

  std::vector<std::uint32_t> find() { return place_next() ? card_ : std::vector<std::uint32_t>(); }

 private:
  bool place_next() {
    const auto place = static_cast<std::uint32_t>(card_.size());
    if (place == places_) return true;
    for (std::uint32_t c = 0; c < problem_.cards.size(); ++c) {
      if (used_[c] || ++trials_ > kMaxTrials || !joined(place, c)) continue;
      used_[c] = true;
      card_.push_back(c);
      if (place_next()) return true;
      card_.pop_back();
      used_[c] = false;
    }
    return false;
  }

  bool joined(std::uint32_t place, std::uint32_t card) const {
    return std::all_of(needs_.begin(), needs_.end(), [&](const auto& need) {
      return need.second != place || cables_.contains({card_[need.first], card});
    });
  }

  const Problem& problem_;
  const Neighbours& needs_;
  std::uint32_t places_;
  std::vector<bool> used_;
  std::vector<std::uint32_t> card_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> cables_;
  std::uint32_t trials_ = 0;
};

Solution make_solution(const Problem& problem, const Chain& chain, const Cuts& cuts,
                       std::vector<std::uint32_t> card) {
  Solution solution;
  solution.card = std::move(card);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Part> parts;  // by stage, then place
  const auto stage = stages(problem);
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i)
    if (problem.operations[i].host) parts[{stage[i], 0}].operations.push_back(i);
  for (std::uint32_t p = 0; p + 1 < cuts.size(); ++p) {
    solution.largest_cost = std::max(solution.largest_cost, chain.cost(cuts[p], cuts[p + 1]));
    if (p > 0) solution.crossing_bytes += chain.live_bytes[cuts[p]];
    for (std::size_t i = cuts[p]; i < cuts[p + 1]; ++i) {
      auto& operations = parts[{chain.layers[i].stage, p}].operations;
      operations.insert(operations.end(), chain.layers[i].operations.begin(),
                        chain.layers[i].operations.end());
    }
  }
  for (auto& [key, part] : parts) {
    part.stage = key.first;
    part.place = key.second;
    part.host = part.stage % 2 == 0;
    std::sort(part.operations.begin(), part.operations.end());
    solution.parts.push_back(std::move(part));
  }
  return solution;
}

/// A tensor of an earlier stage that the same card needs again: it would have to leave and come back.
const Edge* returning(const Chain& chain, const Cuts& cuts) {
  const auto place = [&](std::size_t layer) {
    return std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin();
  };
  for (const auto& edge : chain.edges)
    if (chain.layers[edge.from].stage != chain.layers[edge.last].stage &&
        place(edge.from) == place(edge.last))
      return &edge;
  return nullptr;
}

std::string plural(std::size_t n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

Error no_cables(const Problem& problem, const Chain& chain, std::size_t pieces) {
  std::string message = "cluster '" + problem.cluster + "' lacks cables for " + plural(pieces, "partition") +
                        " of '" + problem.model + "'";
  const Cuts cuts = cut(chain, pieces, false);
  for (const auto& edge : chain.edges) {
    const auto place = [&](std::size_t layer) {
      return std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin() - 1;
    };
    if (place(edge.last) > place(edge.from) + 1) {
      message += ": tensor '" + problem.tensors[edge.tensor].name + "' goes from partition " +
                 std::to_string(place(edge.from)) + " to " + std::to_string(place(edge.last)) +
                 ", past the one between";
      break;
    }
  }
  return Error(ErrorCode::kDoesNotFit,
               message + "; add cables between the cards, or ask for another number of --partitions");
}

}  // namespace

Result<Solution> solve(const Problem& problem) {
  if (const auto wrong = check(problem); !wrong.empty())
    return Error(ErrorCode::kInternal, "partition: " + wrong);
  const Chain chain = make_chain(problem);
  const std::size_t count = chain.layers.size(), cards = problem.cards.size();
  if (count == 0)
    return Error(ErrorCode::kInvalidInput, "model '" + problem.model + "' has nothing that a card computes");
  const std::size_t asked = problem.partitions.value_or(0);
  if (problem.partitions && asked == 0)
    return Error(ErrorCode::kInvalidInput, "--partitions 0: at least one is needed");
  if (asked > count)
    return Error(ErrorCode::kDoesNotFit,
                 "--partitions " + std::to_string(asked) + ": model '" + problem.model + "' has " +
                     plural(count, "layer") +
                     " a card can hold, and each partition needs one; ask for at most " +
                     std::to_string(count));
  if (asked > cards)
    return Error(ErrorCode::kDoesNotFit, "--partitions " + std::to_string(asked) + ": cluster '" +
                                             problem.cluster + "' has " + plural(cards, "card") +
                                             "; ask for at most " + std::to_string(cards) +
                                             ", or name a larger cluster");
  const std::size_t most = asked != 0 ? asked : std::min(count, cards), fewest = asked != 0 ? asked : 1;
  const Edge* back = nullptr;
  for (std::size_t pieces = most; pieces >= fewest; --pieces)
    for (const bool neighbours_only : {false, true}) {
      const Cuts cuts = cut(chain, pieces, neighbours_only);
      if (cuts.empty()) continue;
      if (const Edge* found = returning(chain, cuts); found != nullptr) {
        back = found;
        continue;
      }
      auto card =
          Embedding(problem, neighbours(problem, chain, cuts), static_cast<std::uint32_t>(pieces)).find();
      if (!card.empty()) return make_solution(problem, chain, cuts, std::move(card));
    }
  if (back != nullptr)
    return Error(ErrorCode::kUnsupported, "tensor '" + problem.tensors[back->tensor].name +
                                              "' is needed by one card before and after a part that runs on "
                                              "the host; ask for another number of --partitions");
  return no_cables(problem, chain, most);
}

}  // namespace millrace::compiler::explore
