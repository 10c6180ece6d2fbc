
#include "compiler/explore/board.hpp"
#include "compiler/explore/format.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

Error wrong(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "the plan cannot be: " + what);
}

/// A layer stands whole, layers ascend through places and regions, no place is empty.
Status arrange(const Board& board, const Choice& choice, Assignment& out) {
  const Problem& problem = board.problem;
  std::uint32_t place = 0, region = 0;
  for (std::size_t l = 0; l < board.chain.size(); ++l) {
    const auto& operations = board.chain.layers[l].operations;
    const std::uint32_t first = operations.front();
    const std::string& name = problem.operations[first].name;
    for (const auto operation : operations)
      if (choice.place[operation] != choice.place[first] || choice.region[operation] != choice.region[first])
        return wrong("'" + problem.operations[operation].name + "' belongs to the layer of '" + name +
                     "' and stands elsewhere");
    const std::uint32_t at = choice.place[first];
    if (at >= choice.card.size() || at < place || at > place + (l == 0 ? 0U : 1U))
      return wrong("'" + name +
                   "' stands on a card out of order: each takes the layers after those before it");
    if (at != place) region = 0;
    const Card& card = problem.cards[choice.card[at]];
    if (choice.region[first] >= card.regions.size() || choice.region[first] < region)
      return wrong("'" + name + "' stands in a region of '" + card.name +
                   "' that is not there or comes before");
    place = at;
    region = choice.region[first];
    out.place[l] = place;
    out.region[l] = region;
  }
  if (place + 1 != choice.card.size()) return wrong("a card holds nothing");
  return {};
}

/// What the first region that is overfull has too little of.
std::string overfull(const Board& board, const Assignment& a) {
  const Problem& problem = board.problem;
  for (std::uint32_t p = 0; p < a.card.size(); ++p)
    for (std::uint32_t r = 0; r < problem.cards[a.card[p]].regions.size(); ++r) {
      Amounts used{};
      for (std::size_t i = 0; i < problem.operations.size(); ++i)
        if (const std::size_t l = board.chain.layer_of[i];
            l != board.chain.size() && a.place[l] == p && a.region[l] == r)
          used += problem.operations[i].implementations[a.implementation[i]].amounts;
      const Region& region = problem.cards[a.card[p]].regions[r];
      for (std::size_t k = 0; k < kMemoryBytes; ++k)
        if (used[k] > region.available[k])
          return "card '" + problem.cards[a.card[p]].name + "', region '" + region.name +
                 "': " + std::to_string(used[k]) + " " + kind_name(k) + " are needed, " +
                 std::to_string(region.available[k]) + " are left to it";
    }
  return "cables take more of a card than is left, or a memory has no bandwidth";
}

/// What a solution does not meet.
std::string missed(const Problem& problem, const Solution& solution) {
  std::string out = missed(problem.targets, 1 / solution.interval_seconds, solution.latency_seconds);
  if (problem.partitions && solution.card.size() != *problem.partitions)
    out += (out.empty() ? "" : ", and ") + plural(solution.card.size(), "card") + " where " +
           std::to_string(*problem.partitions) + " are asked for (--partitions)";
  return out;
}

}  // namespace

Result<Solution> solution_of(const Problem& problem, const Choice& choice) {
  if (const auto bad = check(problem); !bad.empty()) return Error(ErrorCode::kInternal, "plan: " + bad);
  const Board board(problem);
  const std::size_t count = problem.operations.size();
  if (choice.place.size() != count || choice.region.size() != count ||
      choice.implementation.size() != count || choice.card.empty())
    return wrong("it does not name every block");
  for (std::size_t i = 0; i < choice.card.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (choice.card[i] >= problem.cards.size() || choice.card[i] == choice.card[j])
        return wrong("a card is not there or named twice");
  Assignment assignment;
  assignment.card = choice.card;
  assignment.place.assign(board.chain.size(), 0);
  assignment.region.assign(board.chain.size(), 0);
  assignment.implementation = choice.implementation;
  for (std::size_t i = 0; i < count; ++i) {
    if (problem.operations[i].host)
      assignment.implementation[i] = 0;
    else if (choice.implementation[i] >= problem.operations[i].implementations.size())
      return wrong("'" + problem.operations[i].name + "' has no such implementation");
  }
  MILLRACE_TRY(arrange(board, choice, assignment));
  std::uint32_t tensor = 0;
  if (!board.route(assignment, &tensor))
    return Error(ErrorCode::kDoesNotFit,
                 "the plan cannot be: tensor '" + problem.tensors[tensor].name +
                     "' has no cables to go by between the cards it is made and read on");
  auto solution = board.assess(assignment);
  if (!solution)
    return Error(ErrorCode::kDoesNotFit, "the plan does not fit: " + overfull(board, assignment));
  if (!meets(problem, *solution))
    return Error(ErrorCode::kDoesNotFit, "the plan misses its targets: " + missed(problem, *solution));
  return std::move(*solution);
}

}  // namespace millrace::compiler::explore
