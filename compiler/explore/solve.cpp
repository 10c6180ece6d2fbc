#include <cmath>

#include "compiler/explore/format.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

Status check_partitions(const Problem& problem, std::size_t layers) {
  if (!problem.partitions) return {};
  const std::size_t asked = *problem.partitions, cards = problem.cards.size();
  if (asked == 0) return Error(ErrorCode::kInvalidInput, "--partitions 0: at least one is needed");
  if (asked > layers)
    return Error(ErrorCode::kDoesNotFit, "--partitions " + std::to_string(asked) + ": model '" +
                                             problem.model + "' has " + plural(layers, "layer") +
                                             " that cards can compute, "
                                             "and each partition needs at least one layer; "
                                             "request at most " +
                                             std::to_string(layers));
  if (asked > cards)
    return Error(ErrorCode::kDoesNotFit, "--partitions " + std::to_string(asked) + ": cluster '" +
                                             problem.cluster + "' has " + plural(cards, "card") +
                                             "; request at most " + std::to_string(cards) +
                                             ", or name a larger cluster");
  return {};
}

Error wrong(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "the plan is invalid: " + what);
}

/// Converts a person's choice of cards, regions and implementations to an assignment. Checks that each layer is in one
/// region, that layers are in order, and that no card is empty.
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
                     "' but is assigned to a different card or region than that layer");
    const std::uint32_t at = choice.place[first];
    if (at >= choice.card.size() || at < place || at > place + (l == 0 ? 0U : 1U))
      return wrong("'" + name +
                   "' is assigned to a card out of order: "
                   "each card must compute the layers that follow those of the previous card");
    if (at != place) region = 0;
    const Card& card = problem.cards[choice.card[at]];
    if (choice.region[first] >= card.regions.size() || choice.region[first] < region)
      return wrong("'" + name + "' is assigned to card '" + card.name +
                   "', but to a region that does not exist or precedes the region of the previous layer");
    place = at;
    region = choice.region[first];
    out.place[l] = place;
    out.region[l] = region;
  }
  if (place + 1 != choice.card.size()) return wrong("a card holds nothing");
  return {};
}

/// Names the resources that regions lack. Returns an empty text if no resource is short.
std::string overfull(const Board& board, const Assignment& a) {
  const auto blocks = board.usage(a, {}).blocks;
  std::string out;
  for (std::size_t p = 0; p < a.card.size(); ++p)
    for (std::size_t r = 0; r < blocks[p].size(); ++r)
      add_overfull(out, board.problem.cards[a.card[p]], r, blocks[p][r]);
  return out.empty() ? "links need more resources than a card has left, or a memory has no bandwidth" : out;
}

/// Names the targets that a solution misses. Returns an empty text if it meets all.
std::string missed(const Problem& problem, const Solution& solution) {
  std::string out = missed(problem.targets, 1 / solution.interval_seconds, solution.latency_seconds);
  if (problem.partitions && solution.card.size() != *problem.partitions)
    out += (out.empty() ? "" : ", and ") + plural(solution.card.size(), "card") + " where " +
           std::to_string(*problem.partitions) + " are required (--partitions)";
  return out;
}

}  // namespace

Status check_targets(const Targets& targets) {
  if (const auto& fps = targets.frames_per_second; fps && !(*fps > 0 && std::isfinite(*fps)))
    return Error(ErrorCode::kInvalidInput, "--target-fps must be above 0");
  if (const auto& most = targets.max_latency_seconds; most && !(*most > 0 && std::isfinite(*most)))
    return Error(ErrorCode::kInvalidInput, "--max-latency must be above 0");
  return {};
}

Status check_layers(const Problem& problem, std::size_t layers) {
  if (layers == 0)
    return Error(ErrorCode::kInvalidInput,
                 "model '" + problem.model +
                     "' has nothing that a card computes: the host runs every layer. "
                     "Use a model with quantised convolutions or matrix products");
  return check_partitions(problem, layers);
}

Result<Solution> solve(const Problem& problem, bool explain) {
  if (const auto wrong = check(problem); !wrong.empty())
    return Error(ErrorCode::kInternal, "partition: " + wrong);
  if (!is_predictable(problem))
    return Error(ErrorCode::kInternal,
                 "partition: an operation has no implementation, or a card has no region");
  MILLRACE_TRY(check_targets(problem.targets));
  const Board board(problem);
  MILLRACE_TRY(check_layers(problem, board.chain.size()));
  auto solution = Search(board).run();
  if (!solution && !explain)
    return Error(ErrorCode::kDoesNotFit,
                 "model '" + problem.model + "' does not fit cluster '" + problem.cluster + "'");
  if (!solution) return diagnose(board);
  return std::move(*solution);
}

std::vector<Solution> solve_short_latencies(const Problem& problem) {
  const Board board(problem);
  return Search(board).short_latencies();
}

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
      return wrong("'" + problem.operations[i].name +
                   "': the number of the chosen implementation is too high");
  }
  MILLRACE_TRY(arrange(board, choice, assignment));
  std::uint32_t tensor = 0;
  if (!board.route(assignment, &tensor))
    return Error(ErrorCode::kDoesNotFit, "the plan is impossible: tensor '" + problem.tensors[tensor].name +
                                             "' must pass between cards that no cables connect");
  auto solution = board.assess(assignment);
  if (!solution)
    return Error(ErrorCode::kDoesNotFit, "the plan does not fit: " + overfull(board, assignment));
  if (!meets(problem, *solution))
    return Error(ErrorCode::kDoesNotFit, "the plan misses its targets: " + missed(problem, *solution));
  return std::move(*solution);
}

}  // namespace millrace::compiler::explore
