#include "compiler/planning/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/format.hpp"
#include "compiler/explore/partition.hpp"

namespace millrace::compiler {
namespace {

std::uint64_t scaled(std::uint64_t amount, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(amount) * factor);
}

/// The cards that stand at this place of the pipeline: one in each replica.
std::vector<std::uint32_t> cards_at(const explore::Solution& solution, std::uint32_t place) {
  std::vector<std::uint32_t> cards{solution.card[place]};
  for (const auto& copy : solution.copies) cards.push_back(copy[place]);
  return cards;
}

/// Makes one region smaller in the problem. `region` is what the designs take of it; `searched` is what the search
/// counted, without what joins the blocks. All cards of the kind get less of it by the same ratio. The plan's own
/// cards also get less than the search counted: if joints fill much of the region, the ratio alone would let the
/// search find the same plan again.
bool tighten_region(explore::Problem& problem, const std::vector<std::uint32_t>& cards, std::size_t which,
                    const explore::RegionUse& region, const explore::RegionUse& searched) {
  bool again = false;
  for (std::size_t k = 0; k < explore::kMemoryBytes; ++k) {
    if (region.used[k] <= region.available[k]) continue;
    again = true;
    const double factor =
        0.995 * static_cast<double>(region.available[k]) / static_cast<double>(region.used[k]);
    for (auto& card : problem.cards) {
      if (card.device != problem.cards[cards.front()].device) continue;
      auto& available = card.regions[which].available[k];
      available = scaled(available, factor);
    }
    for (const auto card : cards) {
      auto& available = problem.cards[card].regions[which].available[k];
      available = std::min(available, scaled(searched.used[k], factor));
    }
  }
  return again;
}

constexpr int kAttempts = 6;      // searches, each with a harder problem than the one before
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

/// A bound on all plans, from the search's first answer.
Bound bound_by(const Task& task, const explore::Problem& problem, const explore::Solution& first) {
  const auto replicas = static_cast<double>(first.replicas());
  const double cards = static_cast<double>(first.card.size()) * replicas;
  double seconds =
      (by_latency(task) ? first.latency_seconds : first.interval_seconds / replicas) / (1 + first.gap);
  if (!by_latency(task)) seconds = std::max(seconds, explore::host_seconds(problem));
  return {seconds, std::ceil(cards / (1 + first.gap) - kProven), first.exact};
}

/// A prediction of the solution whose gap and `exact` are those of the predicted figures. The solution's own do not
/// hold: it may be of a harder problem than was asked, and blocks that wait for each other may be slower than the
/// slowest of them.
Result<Predicted> judged(const Task& task, const LoweredPtr& lowered, explore::Solution solution,
                         const Bound& bound) {
  MILLRACE_ASSIGN(Predicted plan, predicted(task, {lowered, std::move(solution)}));
  plan.bound = bound;
  const auto [gap, exact] = judge(plan, plan.interval_seconds, plan.latency_seconds);
  plan.solution.gap = gap;
  plan.solution.exact = exact;
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

/// Makes regions that are too full smaller, and targets that the plan misses harder. Whether there were any.
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

/// Of several plans that miss the targets, the one that misses them by least.
class Nearest {
 public:
  void compare(const Predicted& plan);

  /// kDoesNotFit, with that plan's figures. `tightened` is the problem of the last search; `explain` adds
  /// what limits it and which targets could be met.
  Error error(const explore::Problem& asked, const explore::Problem& tightened, bool explain) const;

 private:
  double factor_ = 1;  // by which the plan misses its target
  std::string missed_;
};

void Nearest::compare(const Predicted& plan) {
  const auto& targets = plan.problem().targets;
  double factor = 1;
  if (targets.frames_per_second)
    factor = std::max(factor, *targets.frames_per_second / plan.frames_per_second());
  if (targets.max_latency_seconds)
    factor = std::max(factor, plan.latency_seconds / *targets.max_latency_seconds);
  std::string missed = compiler::missed(plan);
  if (missed.empty() || (!missed_.empty() && factor >= factor_)) return;
  factor_ = factor;
  missed_ = std::move(missed);
}

Error Nearest::error(const explore::Problem& asked, const explore::Problem& tightened, bool explain) const {
  const std::string model = "model '" + asked.model + "': ";
  std::string reason;
  if (explain) {
    // First with the original targets: what joins the blocks may already rule them out.
    explore::Problem smaller = tightened;
    smaller.targets = asked.targets;
    auto found = explore::solve_replicated(smaller, true);
    if (found.ok()) found = explore::solve_replicated(tightened, true);
    if (!found.ok())
      reason =
          ". If FIFOs, width converters and waiting between blocks are counted: " + found.error().message();
  }
  if (missed_.empty())
    return Error(ErrorCode::kDoesNotFit,
                 model +
                     "FIFOs and width converters between the blocks need more than the cards have left; " +
                     "lower --target-fps, raise --max-utilisation, or give more cards" + reason);
  return Error(ErrorCode::kDoesNotFit, model + "no plan was found that holds when it is played clock by " +
                                           "clock; the nearest gives " + missed_ +
                                           ". Ask for no more than that, or give more or larger cards" +
                                           reason);
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
  const explore::Analysis searched = explore::analyse(plan.problem(), plan.solution);
  bool again = false;
  for (std::uint32_t place = 0; place < plan.analysis.places.size(); ++place) {
    const auto& figures = plan.analysis.places[place];
    for (std::size_t r = 0; r < figures.regions.size(); ++r)
      again = tighten_region(problem, cards_at(plan.solution, place), r, figures.regions[r],
                             searched.places[place].regions[r]) ||
              again;
  }
  return again;
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
  Nearest nearest;
  bool late = false;  // a plan was found whose latency, as predicted, misses the target
  const bool copies = problem.replicas.value_or(1) > 1;
  bool alone = false;  // the last plan is of one pipeline
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
