#include "tests/shortcuts/cuts.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "compiler/explore/board.hpp"
#include "compiler/explore/format.hpp"

namespace millrace::tests {
namespace {

using namespace compiler::explore;

constexpr std::uint64_t kInfinite = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kMaxTrials = 1000000;

using Cuts = std::vector<std::size_t>;  // the first layer of each piece, then the number of layers

/// Finds the cuts with the smallest combined `value` of all pieces, by dynamic programming over pieces and layers.
/// Returns kInfinite if no cuts are allowed.
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

/// Cuts the chain into `pieces` pieces. Returns an empty list if that is impossible. With `neighbours_only`, a tensor
/// may be read only in the piece that makes it and in the next one.
Cuts cut(const Chain& chain, std::size_t pieces, bool neighbours_only) {
  const std::size_t count = chain.layers.size();
  std::vector<std::uint64_t> cost_before(count + 1, 0);  // [i] is the cost of layers 0..i-1
  for (std::size_t i = 0; i < count; ++i) cost_before[i + 1] = cost_before[i] + chain.layers[i].cost;
  std::vector<std::size_t> farthest(count + 1, 0);  // [i]: the last reader of a tensor made before layer i
  for (const auto& edge : chain.edges)
    for (std::size_t i = edge.from + 1; i <= count; ++i) farthest[i] = std::max(farthest[i], edge.last());
  const auto allowed = [&](std::size_t i, std::size_t end) {
    return !neighbours_only || i == 0 || end == count || farthest[i] < end;
  };
  const auto cost = [&](std::size_t i, std::size_t end) { return cost_before[end] - cost_before[i]; };
  const auto larger = [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); };
  const std::uint64_t bound = best_cuts(count, pieces, cost, larger, allowed, nullptr);
  Cuts cuts;
  if (bound == kInfinite) return cuts;
  const auto bounded = [&](std::size_t i, std::size_t end) {
    return allowed(i, end) && cost(i, end) <= bound;
  };
  const auto bytes = [&](std::size_t i, std::size_t) { return i == 0 ? 0 : chain.live_bytes[i]; };
  const auto sum = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  best_cuts(count, pieces, bytes, sum, bounded, &cuts);
  return cuts;
}

std::vector<std::uint32_t> places(const Chain& chain, const Cuts& cuts) {
  std::vector<std::uint32_t> place(chain.size());
  for (std::uint32_t p = 0; p + 1 < cuts.size(); ++p)
    for (std::size_t i = cuts[p]; i < cuts[p + 1]; ++i) place[i] = p;
  return place;
}

using Neighbours =
    std::set<std::pair<std::uint32_t, std::uint32_t>>;  // pieces a < b with a tensor that goes from a to b

Neighbours neighbours(const Chain& chain, const Cuts& cuts) {
  const auto place = places(chain, cuts);
  Neighbours found;
  for (const auto& edge : chain.edges)
    for (const auto reader : edge.readers)
      if (place[edge.from] != place[reader]) found.emplace(place[edge.from], place[reader]);
  return found;
}

/// Chooses a card for each piece, so that pieces which exchange tensors have cables. find() returns the first choice in
/// the cluster's order, or an empty list if there is none.
class Embedding {
 public:
  Embedding(const Problem& problem, const Neighbours& needs, std::uint32_t places)
      : problem_(problem), needs_(needs), places_(places), used_(problem.cards.size(), false) {
    for (const auto& cable : problem.cables) {
      cables_.emplace(cable.a, cable.b);
      cables_.emplace(cable.b, cable.a);
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

Error no_cables(const Problem& problem, const Chain& chain, std::size_t pieces) {
  std::string message = "cluster '" + problem.cluster + "' lacks cables for " + plural(pieces, "partition") +
                        " of '" + problem.model + "'";
  const auto place = places(chain, cut(chain, pieces, false));
  for (const auto& edge : chain.edges) {
    if (place[edge.last()] > place[edge.from] + 1) {
      message += ": tensor '" + problem.tensors[edge.tensor].name + "' goes from partition " +
                 std::to_string(place[edge.from]) + " to " + std::to_string(place[edge.last()]) +
                 ", past the one between";
      break;
    }
  }
  return Error(ErrorCode::kDoesNotFit,
               message + "; add cables between the cards, or ask for another number of --partitions");
}

}  // namespace

Result<Solution> cut_by_work(const Problem& problem) {
  if (const auto wrong = check(problem); !wrong.empty()) return Error(ErrorCode::kInternal, wrong);
  MILLRACE_TRY(check_targets(problem.targets));
  const Chain chain = make_chain(problem);
  MILLRACE_TRY(check_layers(problem, chain.size()));
  const std::size_t count = chain.size(), cards = problem.cards.size();
  const std::size_t asked = problem.partitions.value_or(0);
  const std::size_t most = asked != 0 ? asked : std::min(count, cards), fewest = asked != 0 ? asked : 1;
  const Edge* back = nullptr;
  for (std::size_t pieces = most; pieces >= fewest; --pieces)
    for (const bool neighbours_only : {false, true}) {
      const Cuts cuts = cut(chain, pieces, neighbours_only);
      if (cuts.empty()) continue;
      if (const Edge* found = returning(chain, places(chain, cuts)); found != nullptr) {
        back = found;
        continue;
      }
      auto card = Embedding(problem, neighbours(chain, cuts), static_cast<std::uint32_t>(pieces)).find();
      if (!card.empty()) return make_parts(problem, chain, places(chain, cuts), std::move(card));
    }
  if (back != nullptr)
    return Error(ErrorCode::kUnsupported, "tensor '" + problem.tensors[back->tensor].name +
                                              "' is needed by one card before and after a part that runs on "
                                              "the host; choose another number with --partitions");
  return no_cables(problem, chain, most);
}

}  // namespace millrace::tests
