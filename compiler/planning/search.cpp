#include "compiler/planning/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/format.hpp"
#include "compiler/explore/partition.hpp"

namespace millrace::compiler {
namespace {

constexpr int kAttempts = 6;      // most searches; each has a harder problem than the search before
constexpr double kProven = 1e-6;  // smaller gaps are rounding errors and count as 0

bool by_latency(const Task& task) {
  return task.options.targets.objective == explore::Objective::kLatency;
}

Status check_solution(const explore::Problem& problem, const explore::Solution& solution) {
  const auto wrong = explore::verify(problem, solution);
  return wrong.empty()
             ? Status()
             : Error(ErrorCode::kInternal, "the partition that was just found is invalid: " + wrong);
}

Result<explore::Solution> solved(const Task& task, const explore::Problem& problem, bool explain) {
  return task.steps.run("partition", [&]() -> Result<explore::Solution> {
    MILLRACE_ASSIGN(explore::Solution solution, explore::solve_replicated(problem, explain));
    MILLRACE_TRY(check_solution(problem, solution));
    return solution;
  });
}

/// Computes a bound that no plan can beat from the first solution that the search finds and from this solution's gap,
/// which is its distance to the best possible solution.
Bound bound_by(const Task& task, const explore::Problem& problem, const explore::Solution& first) {
  const auto replicas = static_cast<double>(first.replicas());
  const double cards = static_cast<double>(first.card.size()) * replicas;
  double seconds =
      (by_latency(task) ? first.latency_seconds : first.interval_seconds / replicas) / (1 + first.gap);
  if (!by_latency(task)) seconds = std::max(seconds, explore::host_seconds(problem));
  return {seconds, std::ceil(cards / (1 + first.gap) - kProven), first.exact};
}

/// Predicts a solution's figures, and recomputes from them `exact` and the gap (the distance to the best possible
/// plan). The search's gap is not valid: the solution may belong to a problem with smaller budgets or stricter targets,
/// and blocks that wait for each other may be slower than the slowest block.
Result<Predicted> judged(const Task& task, const LoweredPtr& lowered, explore::Solution solution,
                         const Bound& bound) {
  MILLRACE_ASSIGN(Predicted plan, predicted(task, {lowered, std::move(solution)}));
  plan.bound = bound;
  const auto [gap, exact] = judge(plan, plan.interval_seconds, plan.latency_seconds);
  plan.solution.gap = gap;
  plan.solution.exact = exact;
  return plan;
}

/// Whether plan a is better than plan b, by the objective and the predicted figures.
bool is_better(const Task& task, const Predicted& a, const Predicted& b) {
  const auto key = [&](const Predicted& plan) {
    const double cards =
        task.options.targets.objective == explore::Objective::kCards ? static_cast<double>(plan.cards()) : 0;
    return by_latency(task) ? std::tuple(plan.latency_seconds, cards, plan.interval_seconds)
                            : std::tuple(cards, plan.interval_seconds, plan.latency_seconds);
  };
  return key(a) < key(b);
}

/// Reduces budgets of overfull regions, and makes missed targets stricter. Returns false if neither is necessary.
bool tighten(const Predicted& plan, explore::Problem& problem) {
  bool again = tighten_regions(plan, problem);
  if (auto& target = problem.targets.frames_per_second;
      target && plan.frames_per_second() < *plan.problem().targets.frames_per_second) {
    again = true;
    *target *= *plan.problem().targets.frames_per_second / plan.frames_per_second() * 1.001;
  }
  if (auto& most = problem.targets.max_latency_seconds;
      most && plan.latency_seconds > *plan.problem().targets.max_latency_seconds) {
    again = true;
    *most *= *plan.problem().targets.max_latency_seconds / plan.latency_seconds * 0.999;
  }
  return again;
}

/// Returns the largest factor by which a plan misses one of its targets. It is at most 1 if the plan meets all targets.
double excess(const Predicted& plan) {
  const auto& targets = plan.problem().targets;
  return std::max(targets.frames_per_second ? *targets.frames_per_second / plan.frames_per_second() : 1,
                  targets.max_latency_seconds ? plan.latency_seconds / *targets.max_latency_seconds : 1);
}

/// Returns the error of a search that found no plan. `nearest` describes the plan, if any, that misses the targets by
/// least. `tightened` is the search problem of the last attempt. If `explain` is set, the error also
/// says what limits that plan and which targets could be met.
Error no_plan_holds(const std::string& nearest, const explore::Problem& asked,
                    const explore::Problem& tightened, bool explain) {
  const std::string model = "model '" + asked.model + "': ";
  std::string reason;
  if (explain) {
    // First try the original targets, because the FIFOs and adapters between blocks may already rule them out.
    explore::Problem smaller = tightened;
    smaller.targets = asked.targets;
    auto found = explore::solve_replicated(smaller, true);
    if (found.ok()) found = explore::solve_replicated(tightened, true);
    if (!found.ok())
      reason = ". A search that also counts FIFOs, width converters and waiting times reports: " +
               found.error().message();
  }
  if (nearest.empty())
    return Error(
        ErrorCode::kDoesNotFit,
        model +
            "FIFOs and width converters between the blocks need more resources than the cards have left; "
            "lower --target-fps, raise --max-utilisation, or provide more cards" +
            reason);
  return Error(ErrorCode::kDoesNotFit,
               model +
                   "no plan was found that remains valid when simulated clock by clock; "
                   "the nearest plan reaches " +
                   nearest + ". Request no more than this plan reaches, or provide more or larger cards" +
                   reason);
}

/// Simulates several plans with short latencies, because simulated latencies differ from the sums over blocks that the
/// search compares. Among these plans and `best`, returns the best plan that meets the targets, or nothing.
Result<std::optional<Predicted>> shortest_played(const Task& task, const LoweredPtr& lowered,
                                                 const Bound& bound, std::optional<Predicted> best) {
  explore::Problem tightened = lowered->problem;
  bool full = true;
  for (int attempt = 0; full && attempt < kAttempts / 2; ++attempt) {
    full = false;
    explore::Problem untimed = tightened;  // solve_short_latencies() ignores the latency target
    untimed.targets.max_latency_seconds.reset();
    for (auto& candidate :
         task.steps.run("partition", [&] { return explore::solve_short_latencies(tightened); })) {
      MILLRACE_TRY(check_solution(untimed, candidate));
      MILLRACE_ASSIGN(Predicted plan, judged(task, lowered, std::move(candidate), bound));
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

std::string missed(const Predicted& plan) {
  return explore::missed(plan.problem().targets, plan.frames_per_second(), plan.latency_seconds);
}

std::string overfull(const Predicted& plan) {
  std::string out;
  for (const auto& place : plan.analysis.places)
    for (std::size_t r = 0; r < place.regions.size(); ++r)
      explore::add_overfull(out, plan.problem().cards[place.card], r, place.regions[r].used);
  return out;
}

bool tighten_regions(const Predicted& plan, explore::Problem& problem) {
  if (overfull(plan).empty()) return false;
  const auto scaled = [](std::uint64_t amount, double factor) {
    return static_cast<std::uint64_t>(static_cast<double>(amount) * factor);
  };
  const explore::Analysis searched = explore::analyse(plan.problem(), plan.solution);
  for (std::uint32_t place = 0; place < plan.analysis.places.size(); ++place) {
    std::vector<std::uint32_t> cards{plan.solution.card[place]};  // this position's cards in all replicas
    for (const auto& copy : plan.solution.copies) cards.push_back(copy[place]);
    for (std::size_t r = 0; r < plan.analysis.places[place].regions.size(); ++r)
      for (std::size_t k = 0; k < explore::kMemoryBytes; ++k) {
        const auto& region = plan.analysis.places[place].regions[r];
        if (region.used[k] <= region.available[k]) continue;
        const double factor =
            0.995 * static_cast<double>(region.available[k]) / static_cast<double>(region.used[k]);
        // Reduce the budget of all cards of this device by the same ratio. For the plan's own cards, also keep the
        // budget below what the search counted, or the search could find the same plan again.
        for (auto& card : problem.cards)
          if (card.device == problem.cards[cards.front()].device)
            card.regions[r].available[k] = scaled(card.regions[r].available[k], factor);
        for (const auto card : cards) {
          auto& available = problem.cards[card].regions[r].available[k];
          available = std::min(available, scaled(searched.places[place].regions[r].used[k], factor));
        }
      }
  }
  return true;
}

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
  std::string nearest;  // the figures of the plan that misses the targets by the smallest factor
  double by = std::numeric_limits<double>::infinity();
  bool late = false;  // whether some plan's predicted latency misses the target
  const bool copies = problem.replicas.value_or(1) > 1;
  bool alone = false;  // whether the last plan has only one pipeline
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto found = solved(task, problem, explain && !bound);
    if (!found.ok() && bound && found.error().code() == ErrorCode::kDoesNotFit) break;
    MILLRACE_ASSIGN(explore::Solution solution, std::move(found));
    if (!bound) bound = bound_by(task, lowered->problem, solution);
    MILLRACE_ASSIGN(Predicted plan, judged(task, lowered, std::move(solution), *bound));
    alone = !copies && plan.replicas() == 1;
    if (!tighten(plan, problem)) {
      if (!by_latency(task) || !plan.placed.played || !alone) return plan;
      MILLRACE_ASSIGN(auto shortest, shortest_played(task, lowered, *bound, std::move(plan)));
      return std::move(*shortest);
    }
    if (const std::string now = missed(plan); !now.empty() && excess(plan) < by) {
      nearest = now;
      by = excess(plan);
    }
    late = late || (most && plan.latency_seconds > *most);
  }
  if (late && alone) {
    auto shortest = shortest_played(task, lowered, *bound, std::nullopt);
    if (shortest.ok() && *shortest) return std::move(**shortest);
  }
  return no_plan_holds(nearest, lowered->problem, problem, explain);
}

}  // namespace millrace::compiler
