#include <cmath>

#include "compiler/explore/partition.hpp"
#include "compiler/explore/search.hpp"

namespace millrace::compiler::explore {
namespace {

Status check_targets(const Targets& targets) {
  if (const auto& fps = targets.frames_per_second; fps && !(*fps > 0 && std::isfinite(*fps)))
    return Error(ErrorCode::kInvalidInput, "--target-fps must be above 0");
  if (const auto& most = targets.max_latency_seconds; most && !(*most > 0 && std::isfinite(*most)))
    return Error(ErrorCode::kInvalidInput, "--max-latency must be above 0");
  return {};
}

Status check_cables(const Problem& problem) {
  for (const auto& cable : problem.cables)
    if (!(cable.bytes_per_second > 0) || !(cable.latency_seconds >= 0))
      return Error(ErrorCode::kInvalidInput, "the cable between '" + problem.cards[cable.a].name + "' and '" +
                                                 problem.cards[cable.b].name +
                                                 "' has no bandwidth, or a latency below 0");
  return {};
}

Status check_partitions(const Problem& problem, std::size_t layers) {
  if (!problem.partitions) return {};
  const std::size_t asked = *problem.partitions, cards = problem.cards.size();
  if (asked == 0) return Error(ErrorCode::kInvalidInput, "--partitions 0: at least one is needed");
  if (asked > layers)
    return Error(ErrorCode::kDoesNotFit,
                 "--partitions " + std::to_string(asked) + ": model '" + problem.model + "' has " +
                     plural(layers, "layer") +
                     " a card can hold, and each partition needs one; ask for at most " +
                     std::to_string(layers));
  if (asked > cards)
    return Error(ErrorCode::kDoesNotFit, "--partitions " + std::to_string(asked) + ": cluster '" +
                                             problem.cluster + "' has " + plural(cards, "card") +
                                             "; ask for at most " + std::to_string(cards) +
                                             ", or name a larger cluster");
  return {};
}

}  // namespace

Status check_given(const Problem& problem) {
  MILLRACE_TRY(check_targets(problem.targets));
  return check_cables(problem);
}

Status check_layers(const Problem& problem, std::size_t layers) {
  if (layers == 0)
    return Error(ErrorCode::kInvalidInput,
                 "model '" + problem.model +
                     "' has nothing that a card computes: the host runs every layer. Use a model with "
                     "quantised convolutions or matrix products");
  return check_partitions(problem, layers);
}

Result<Solution> solve(const Problem& problem, bool explain) {
  if (const auto wrong = check(problem); !wrong.empty())
    return Error(ErrorCode::kInternal, "partition: " + wrong);
  if (!is_predictable(problem))
    return Error(ErrorCode::kInternal, "partition: an operation has no implementation, or a card no region");
  MILLRACE_TRY(check_given(problem));
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

}  // namespace millrace::compiler::explore
