#include "compiler/planning/search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/explore/replicas.hpp"
#include "compiler/planning/tighten.hpp"

namespace millrace::compiler {
namespace {

constexpr int kAttempts = 6;      // searches, each with what the joints turned out to cost
constexpr double kProven = 1e-6;  // a gap below this is rounding

bool by_latency(const Task& task) {
  return task.options.targets.objective == explore::Objective::kLatency;
}

Status check_solution(const explore::Problem& problem, const explore::Solution& solution) {
  const auto wrong = explore::verify(problem, solution);
  return wrong.empty() ? Status()
                       : Error(ErrorCode::kInternal, "the partition just found does not hold: " + wrong);
}

Result<explore::Solution> solved(const Task& task, const explore::Problem& problem, bool explain) {
  return task.steps.run("partition", [&]() -> Result<explore::Solution> {
    MILLRACE_ASSIGN(explore::Solution solution, explore::solve_replicated(problem, explain));
    MILLRACE_TRY(check_solution(problem, solution));
    return solution;
  });
}

/// The best that any plan can reach, from the search's first answer.
Bound bound_by(const Task& task, const explore::Problem& problem, const explore::Solution& first) {
  const auto replicas = static_cast<double>(first.replicas());
  const double cards = static_cast<double>(first.card.size()) * replicas;
  double seconds =
      (by_latency(task) ? first.latency_seconds : first.interval_seconds / replicas) / (1 + first.gap);
  if (!by_latency(task)) seconds = std::max(seconds, explore::host_seconds(problem));
  return {seconds, std::ceil(cards / (1 + first.gap) - kProven), first.exact};
}

/// The plan with gap and `exact` by the figures as predicted. The solution may be of a harder problem than
/// was asked, and a frame may take longer through blocks that wait for each other than the slowest of them
/// does.
Predicted judged(const Task& task, Predicted plan, const Bound& bound) {
  plan.bound = bound;
  auto& now = plan.solution;
  const double reached =
      by_latency(task) ? plan.latency_seconds : plan.interval_seconds / static_cast<double>(plan.replicas());
  now.gap = std::max(0.0, reached / bound.seconds - 1);
  if (task.options.targets.objective == explore::Objective::kCards)
    now.gap = std::max(now.gap, static_cast<double>(plan.cards()) / bound.cards - 1);
  const bool fewest = by_latency(task) || static_cast<double>(plan.cards()) <= bound.cards;
  now.exact = plan.placed.played && bound.exact && now.gap < kProven && fewest;
  if (now.exact) now.gap = 0;
  return plan;
}

/// Whether a is better than b, by the objective and the figures as predicted.
bool is_better(const Task& task, const Predicted& a, const Predicted& b) {
  const auto key = [&](const Predicted& plan) {
    const double cards =
        task.options.targets.objective == explore::Objective::kCards ? static_cast<double>(plan.cards()) : 0;
    return by_latency(task) ? std::tuple(plan.latency_seconds, cards, plan.interval_seconds)
                            : std::tuple(cards, plan.interval_seconds, plan.latency_seconds);
  };
  return key(a) < key(b);
}

/// A search compares latencies that are sums over blocks; those that are played differ. Plays several plans
/// with short latencies and gives the best that keeps the targets, `best` among them; nothing if none does.
Result<std::optional<Predicted>> shortest_played(const Task& task, const LoweredPtr& lowered,
                                                 const Bound& bound, std::optional<Predicted> best) {
  explore::Problem tightened = lowered->problem;
  bool full = true;
  for (int attempt = 0; full && attempt < kAttempts / 2; ++attempt) {
    full = false;
    explore::Problem untimed = tightened;  // solve_short_latencies() need not keep the latency
    untimed.targets.max_latency_seconds.reset();
    for (auto& candidate :
         task.steps.run("partition", [&] { return explore::solve_short_latencies(tightened); })) {
      MILLRACE_TRY(check_solution(untimed, candidate));
      MILLRACE_ASSIGN(Predicted plan, predicted(task, {lowered, std::move(candidate)}));
      plan = judged(task, std::move(plan), bound);
      if (!plan.placed.played) continue;
      if (full || tighten_regions(plan, tightened)) {
        full = true;
        continue;
      }
      if (missed(plan).empty() && (!best || is_better(task, plan, *best))) best = std::move(plan);
    }
  }
  return best;
}

}  // namespace

Result<Predicted> predicted(const Task& task, Attempt attempt) {
  return task.steps.run("predict", [&]() -> Result<Predicted> {
    MILLRACE_ASSIGN(Placed placed, place(task, attempt));
    return predict(task, std::move(attempt), std::move(placed));
  });
}

bool only_latency_is_missed(const Task& task, const Lowered& lowered) {
  explore::Problem open = lowered.problem;
  if (!open.targets.max_latency_seconds) return false;
  open.targets.max_latency_seconds.reset();
  return solved(task, open, false).ok();
}

Result<Predicted> search(const Task& task, const LoweredPtr& lowered, bool explain) {
  explore::Problem problem = lowered->problem;
  const auto& most = lowered->problem.targets.max_latency_seconds;
  std::optional<Bound> bound;
  Nearest nearest;
  bool late = false;  // a plan was found whose latency, as predicted, misses the target
  const bool copies = problem.replicas.value_or(1) > 1;
  bool alone = false;  // the last plan is of one pipeline
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto found = solved(task, problem, explain && !bound);
    if (!found.ok() && bound && found.error().code() == ErrorCode::kDoesNotFit) break;
    MILLRACE_ASSIGN(explore::Solution solution, std::move(found));
    if (!bound) bound = bound_by(task, lowered->problem, solution);
    MILLRACE_ASSIGN(Predicted plan, predicted(task, {lowered, std::move(solution)}));
    plan = judged(task, std::move(plan), *bound);
    alone = !copies && plan.replicas() == 1;
    if (!tighten(plan, problem)) {
      if (!by_latency(task) || !plan.placed.played || !alone) return plan;
      MILLRACE_ASSIGN(auto shortest, shortest_played(task, lowered, *bound, std::move(plan)));
      return std::move(*shortest);
    }
    nearest.compare(plan);
    late = late || (most && plan.latency_seconds > *most);
  }
  if (late && alone) {
    auto shortest = shortest_played(task, lowered, *bound, std::nullopt);
    if (shortest.ok() && *shortest) return std::move(**shortest);
  }
  return nearest.error(lowered->problem, problem, explain);
}

}  // namespace millrace::compiler
