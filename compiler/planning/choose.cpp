#include "compiler/planning/search.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "compiler/explore/partition.hpp"
#include "compiler/planning/split_channels.hpp"
#include "compiler/planning/through_host.hpp"
#include "runtime/base/log.hpp"

namespace millrace::compiler {
namespace {

using explore::Objective;
using runtime::plan::Cluster;

constexpr int kSplits = 4;               // most layers that are split
constexpr std::uint32_t kMostParts = 4;  // most parts of a split layer
constexpr double kNearlyOne = 1 - 1e-6;
constexpr std::size_t kFew = 6;       // up to this number of cards, cabled() adds all missing cables
constexpr double kEndless = 1e6;      // gigabits a second; stands for unlimited bandwidth
constexpr std::uint32_t kNoPlug = 0;  // plug of a cable that exists only in cabled()

/// A lowered model and its best plan.
struct Trial {
  LoweredPtr lowered;
  Result<Predicted> plan;
  bool better = false;  // whether the plan is better than before the last split
};

bool does_not_fit(const Result<Predicted>& plan) {
  return !plan.ok() && plan.error().code() == ErrorCode::kDoesNotFit;
}

double slowest_wanted(const Task& task) {
  const auto& target = task.options.targets.frames_per_second;
  return target ? 1 / *target : 1e6;
}

/// Returns the block that limits the rate of a plan.
std::optional<std::uint32_t> slowest_block(const Predicted& plan) {
  const explore::PlaceAnalysis* slowest = nullptr;
  for (const auto& place : plan.analysis.places)
    if (slowest == nullptr || place.interval_seconds > slowest->interval_seconds) slowest = &place;
  return slowest == nullptr ? std::nullopt : std::optional(slowest->slowest);
}

/// Returns the smallest fraction of a region, over all regions of all cards, that a block needs with an interval of at
/// most `seconds`. Returns infinity if no card can run the block that fast.
double least_load(const explore::Problem& problem, std::uint32_t block, double seconds) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& card : problem.cards)
    for (const auto& region : card.regions)
      for (const auto& way : problem.operations[block].implementations) {
        if (static_cast<double>(way.interval_cycles) > seconds * card.clock_hz) continue;
        double share = 0;
        for (std::size_t k = 0; k < explore::kMemoryBytes; ++k)
          share = std::max(share, static_cast<double>(way.amounts[k]) /
                                      std::max(1.0, static_cast<double>(region.available[k])));
        least = std::min(least, share);
      }
  return least;
}

/// Returns the block, of those that can be split, that fills the largest share of a region at an interval of `seconds`.
std::optional<std::uint32_t> largest_block(const Lowered& lowered, double seconds) {
  std::optional<std::uint32_t> largest;
  double most = 0;
  for (std::uint32_t i = 0; i < lowered.problem.operations.size(); ++i) {
    if (lowered.problem.operations[i].host) continue;
    if (!can_split(lowered.program, i, 2) && !can_split(lowered.program, i, 3)) continue;
    const double load = least_load(lowered.problem, i, seconds);
    if (load <= most) continue;
    most = load;
    largest = i;
  }
  return largest;
}

/// Whether each of the `count` blocks from `first` on fits into some region.
bool fit(const Task& task, const Lowered& lowered, std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t block = first; block < first + count; ++block)
    if (least_load(lowered.problem, block, slowest_wanted(task)) > 1) return false;
  return true;
}

bool is_bottleneck(const Predicted& plan, const std::string& prefix) {
  const auto block = slowest_block(plan);
  return block && plan.program().blocks[*block].name.starts_with(prefix);
}

/// Splits the bottleneck of `now` into the smallest number of parts with which the model fits or is at least 1 % faster
/// than `rate`. If no number of parts achieves this, uses the smallest number with which the block is no longer the
/// bottleneck: if several blocks are equally slow, the plan improves only after the last of them is split. Returns
/// nothing if neither number exists.
Result<std::optional<Trial>> split_bottleneck(const Task& task, const Trial& now, double rate) {
  const bool fits = now.plan.ok();
  const Lowered& whole = *now.lowered;
  const double seconds = slowest_wanted(task);
  const auto block = fits ? slowest_block(*now.plan) : largest_block(whole, seconds);
  std::optional<Trial> relieved;
  if (!block) return relieved;
  const std::string& name = whole.program.blocks[*block].name;
  const bool too_large = !fits && least_load(whole.problem, *block, seconds) > 1;
  const auto cards = static_cast<std::uint32_t>(task.cluster.cards.size());
  for (std::uint32_t parts = 2; parts <= std::min(cards, kMostParts); ++parts) {
    if (!can_split(whole.program, *block, parts)) continue;
    Changes changes = whole.changes;
    changes.splits.push_back({name, parts});
    MILLRACE_ASSIGN(LoweredPtr lowered, lower(task, std::move(changes)));
    Trial next{lowered, search(task, lowered, false)};
    if (!next.plan.ok() && !does_not_fit(next.plan)) return next.plan.error();
    next.better = next.plan.ok() && (!fits || rate < next.plan->frames_per_second() * 0.99);
    if (next.better) return std::optional(std::move(next));
    const bool less = fits ? next.plan.ok() && !is_bottleneck(*next.plan, name + "_part")
                           : too_large && fit(task, *lowered, *block, parts);
    if (!relieved && less) relieved = std::move(next);
  }
  return relieved;
}

/// Splits one layer after another until the model fits or, if the objective is throughput, as long as splitting helps.
Result<Predicted> split_layers(const Task& task, const LoweredPtr& lowered, Result<Predicted> unsplit) {
  Trial now{lowered, unsplit};
  Result<Predicted> best = std::move(unsplit);
  for (int round = 0; round < kSplits; ++round) {
    MILLRACE_ASSIGN(auto next, split_bottleneck(task, now, best.ok() ? best->frames_per_second() : 0));
    if (!next) break;
    now = std::move(*next);
    if (!now.better) continue;
    best = now.plan;
    if (task.options.targets.objective != Objective::kThroughput) break;
  }
  return best;
}

/// Returns the best plan of a lowered model. If a layer is too large or too slow for one card, splits it over several.
Result<Predicted> search_with_splits(const Task& task, const LoweredPtr& lowered, bool explain) {
  const bool one_card = task.cluster.cards.size() < 2;
  Result<Predicted> found = search(task, lowered, one_card && explain);
  if (one_card || (!found.ok() && !does_not_fit(found))) return found;
  if (found.ok()) {
    // Splitting layers does not help if the plan has several copies, because they already use all cards, or if the host
    // limits the rate.
    const double host = found->frames_per_second() * explore::host_seconds(lowered->problem);
    if (task.options.targets.objective != Objective::kThroughput || found->replicas() > 1 ||
        host > kNearlyOne)
      return found;
  } else if (only_latency_is_missed(task, *lowered)) {
    return explain ? search(task, lowered, true) : std::move(found);
  }
  Result<Predicted> split = split_layers(task, lowered, std::move(found));
  return does_not_fit(split) && explain ? search(task, lowered, true) : std::move(split);
}

/// Returns a plan for a model that has blocks without hardware. A partition with such a block is emulated as a whole,
/// so the model is distributed over as many cards as possible to keep hardware for the other partitions. If their
/// hardware does not fit, the whole model is emulated.
Result<Predicted> search_emulated(const Task& task, const LoweredPtr& lowered) {
  LoweredPtr now = lowered;
  while (true) {
    const auto layers = static_cast<std::uint32_t>(explore::layers(now->problem).size());
    const auto most = std::clamp(layers, 1U, static_cast<std::uint32_t>(task.cluster.cards.size()));
    const auto asked = task.options.partitions;
    const bool last = !now->changes.hardware;
    Result<Predicted> found = Error(ErrorCode::kInternal, "no card to plan for");
    for (std::uint32_t cards = asked.value_or(most); cards > 0; --cards) {
      Lowered on = *now;
      on.problem.partitions = cards;
      found = search(task, std::make_shared<const Lowered>(std::move(on)), last && (asked || cards == 1));
      if (asked || !does_not_fit(found)) break;
    }
    if (!does_not_fit(found) || last) return found;
    Changes changes = now->changes;
    changes.hardware = false;
    MILLRACE_ASSIGN(now, lower(task, std::move(changes)));
  }
}

bool is_clearly_better(const Task& task, const Predicted& a, const Predicted& b) {
  const bool faster = a.frames_per_second() > b.frames_per_second() * 1.01;
  switch (task.options.targets.objective) {
    case Objective::kCards:
      return a.cards() < b.cards() || (a.cards() == b.cards() && faster);
    case Objective::kThroughput:
      return faster;
    case Objective::kLatency:
      return a.latency_seconds * 1.01 < b.latency_seconds;
  }
  return false;
}

/// Returns the best plan with layers' weights in the cards' memory if that plan is at least 1 % better than `baked`,
/// the plan with all weights in the FPGA images. Otherwise returns `baked`. The margin favours weights on the chip,
/// because they need no memory bandwidth.
Result<Predicted> with_streamed(const Task& task, const LoweredPtr& lowered, Result<Predicted> baked) {
  Changes changes = lowered->changes;
  changes.streamed = true;
  MILLRACE_ASSIGN(LoweredPtr streamed, lower(task, std::move(changes)));
  Result<Predicted> found = search_with_splits(task, streamed, !baked.ok() && task.explains);
  const bool failed = !found.ok() && !does_not_fit(found);
  if (!baked.ok() || failed || (found.ok() && is_clearly_better(task, *found, *baked))) return found;
  return baked;
}

/// Checks that the cards have work. Returns kInvalidInput if --host puts all blocks on the host.
Status check_cards_have_work(const PlanOptions& options, const explore::Problem& problem) {
  const auto& all = problem.operations;
  if (options.host_blocks.empty() ||
      std::any_of(all.begin(), all.end(), [](const auto& one) { return !one.host; }))
    return {};
  return Error(ErrorCode::kInvalidInput,
               "model '" + problem.model +
                   "' has no layer left for the cards: --host moves every layer to the host; "
                   "leave one of the --host options out");
}

/// Lowers the model with the splits and host blocks of the options. If the options need predicted figures, blocks
/// without hardware also run on the host.
Result<LoweredPtr> lower_as_asked(const Task& task, bool through_host) {
  Changes changes{task.options.splits, task.options.host_blocks, through_host};
  MILLRACE_ASSIGN(LoweredPtr lowered, lower(task, changes));
  if (!lowered->candidates.without.empty() && needs_prediction(task.options) && !task.options.no_host) {
    const auto without = blocks_of(lowered->candidates.without);
    changes.host_blocks.insert(changes.host_blocks.end(), without.begin(), without.end());
    log::info("plan", "on the host, for want of hardware: " + joined(without));
    MILLRACE_ASSIGN(lowered, lower(task, changes));
  }
  MILLRACE_TRY(check_host(task, *lowered));
  MILLRACE_TRY(check_cards_have_work(task.options, lowered->problem));
  return lowered;
}

Result<Predicted> choose_weights(const Task& task, const LoweredPtr& lowered) {
  if (!lowered->candidates.without.empty()) return search_emulated(task, lowered);
  if (task.options.weights || !can_stream(*lowered)) return search_with_splits(task, lowered, task.explains);
  Result<Predicted> baked = search_with_splits(task, lowered, false);
  if (!baked.ok() && !does_not_fit(baked)) return baked;
  // If the objective is the fewest cards at a target rate, streamed weights may need fewer cards than split layers.
  const auto& targets = task.options.targets;
  const bool rate_is_enough = targets.objective == Objective::kCards && targets.frames_per_second;
  const bool split = baked.ok() && baked->lowered->changes.splits.size() > lowered->changes.splits.size();
  if (baked.ok() && task.options.baked_first && !(split && rate_is_enough)) return baked;
  return with_streamed(task, lowered, std::move(baked));
}

/// Returns the better of two plans: in one, tensors that pass beside host blocks (residual connections around them) go
/// directly from card to card; in the other, they go through the host. Without such tensors, there is only one plan.
Result<Predicted> choose_routes(const Task& task) {
  MILLRACE_ASSIGN(const LoweredPtr lowered, lower_as_asked(task, false));
  if (tensors_beside_host(lowered->problem).empty()) return choose_weights(task, lowered);
  Task quiet = task;  // the plan through the host says why nothing fits
  quiet.explains = false;
  Result<Predicted> direct = choose_weights(quiet, lowered);
  const bool emulated = !lowered->candidates.without.empty();
  if (direct.ok() ? emulated : !does_not_fit(direct)) return direct;
  const Result<LoweredPtr> copied = lower_as_asked(task, true);
  if (!copied.ok() && copied.error().code() == ErrorCode::kDoesNotFit)  // the host has no time for the copies
    return direct.ok() || !task.explains ? std::move(direct) : choose_weights(task, lowered);
  if (!copied.ok()) return copied.error();
  const LoweredPtr& through = *copied;
  quiet.explains = task.explains && !direct.ok();
  Result<Predicted> passed = choose_weights(quiet, through);
  if (!direct.ok() || (!passed.ok() && !does_not_fit(passed))) return passed;
  return passed.ok() && is_clearly_better(task, *passed, *direct) ? std::move(passed) : std::move(direct);
}

/// Returns the cluster with additional cables of unlimited bandwidth, to find out whether more cables would help. In a
/// cluster of at most kFew cards, joins every two cards. In a larger cluster, joins each group of cabled cards to
/// another group.
Cluster cabled(Cluster cluster, const explore::Problem& problem) {
  const auto join = [&](std::uint32_t a, std::uint32_t b) {
    const std::string &from = cluster.cards[a].name, &to = cluster.cards[b].name;
    cluster.cables.push_back({from + "-" + to, {from, kNoPlug}, {to, kNoPlug}, kEndless, 0});
  };
  const auto group = explore::joined_groups(problem);
  for (std::uint32_t b = 1; b < group.size(); ++b) {
    std::uint32_t last = 0;  // the last card of the group before
    for (std::uint32_t a = 0; a < group.size(); ++a) {
      if (group[a] < b && std::pair(group[a], a) > std::pair(group[last], last)) last = a;
      const auto joins = [&](const auto& cable) {
        return std::minmax(cable.a, cable.b) == std::minmax(a, b);
      };
      if (group.size() <= kFew && a < b && std::none_of(problem.cables.begin(), problem.cables.end(), joins))
        join(a, b);
    }
    if (group.size() > kFew && group[b] == b) join(last, b);
  }
  return cluster;
}

/// Adds to the error of a search that `cards` cards would suffice if cables joined them. (cabled() adds such cables to a
/// cluster.)
Error for_want_of_cables(const Cluster& cluster, std::size_t joined, std::size_t cards, const Error& error) {
  const std::string all = std::to_string(cluster.cards.size());
  const std::string what =
      joined == 1 ? "no two of its " + all + " cards are joined by a cable"
                  : "cables join no more than " + std::to_string(joined) + " of its " + all + " cards";
  return Error(error.code(), "cluster '" + cluster.name + "': " + what + ", and " + std::to_string(cards) +
                                 " connected cards would be enough: add cables to the cluster file; "
                                 "as the file is now, " +
                                 error.message());
}

}  // namespace

Result<Predicted> choose(const Task& task) {
  Result<Predicted> found = choose_routes(task);
  if (does_not_fit(found) && task.cluster.hosts.size() > 1) {
    // Let tensors pass from host to host over MPI only if no other plan fits.
    Task joined = task;
    joined.cluster = runtime::plan::join_hosts(task.cluster);
    if (Result<Predicted> over_mpi = choose_routes(joined); over_mpi.ok()) return over_mpi;
  }
  const explore::Problem problem = explore::make_problem(task.model.program, task.cluster, {});
  const std::size_t joined = explore::most_joined(problem);
  // If the user asks for more partitions than the number of cards that cables join, the error already names the missing
  // cables.
  const bool asked = task.options.partitions.value_or(0) > joined;
  if (joined == task.cluster.cards.size() || asked || !does_not_fit(found)) return found;
  // Cables do not join all cards. Find out whether more cables would help.
  Task more = task;
  more.cluster = cabled(task.cluster, problem);
  more.explains = false;
  const Result<Predicted> with_cables = choose_routes(more);
  if (!with_cables.ok()) return found;
  return for_want_of_cables(task.cluster, joined, with_cables->solution.card.size(), found.error());
}

}  // namespace millrace::compiler
