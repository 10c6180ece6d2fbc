#include "compiler/planning/plan.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/explore/partition.hpp"
#include "compiler/planning/search.hpp"
#include "compiler/planning/weights.hpp"

namespace millrace::compiler {
namespace {

/// The model, the cluster and what else all alternatives share.
Result<Task> read_task(const PlanOptions& options, Steps& steps) {
  MILLRACE_TRY(check_options(options));
  Task task{options, steps, {}, {}, {}, {}};
  MILLRACE_ASSIGN(task.cluster,
                  steps.run("read_cluster", [&] { return runtime::plan::load_cluster(options.cluster); }));
  MILLRACE_ASSIGN(task.model, read_model(options, steps));
  MILLRACE_TRY(place_parameters(task.model.program, options.weights.value_or(kernels::Placement::kBaked)));
  if (!options.generator_plugin.empty()) {
    MILLRACE_ASSIGN(task.plugin, generators::Plugin::open(options.generator_plugin, options.plugin_time));
  }
  MILLRACE_ASSIGN(task.catalog, steps.run("read_catalog", [] { return generators::load_catalog(); }));
  return task;
}

Result<Chosen> search_for_plan(const Task& task) {
  MILLRACE_ASSIGN(Predicted plan, choose(task));
  return Chosen{std::move(plan), {}};
}

bool near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

Status wrong(const std::string& figure, double said, double found) {
  return Error(ErrorCode::kInternal, "the plan just made does not hold: its " + figure + " is " +
                                         std::to_string(said) + ", recomputed it is " +
                                         std::to_string(found));
}

double slowest_part(const Plan& plan) {
  double longest = 0;
  for (std::size_t p = 0; p < plan.placed.programs.size(); ++p) {
    const auto& part = plan.placed.solution.parts[p];
    if (part.host) continue;
    const auto& design = plan.placed.designs.at(plan.placed.programs[p].name);
    const auto& card = plan.problem().cards[plan.solution.card[part.place]];
    longest = std::max(longest, static_cast<double>(design.interval_cycles) / card.clock_hz);
  }
  return longest;
}

}  // namespace

std::string Plan::unpredicted() const {
  const auto& without = lowered->candidates.without;
  if (without.empty()) return {};
  const std::vector<std::string> names = blocks_of(without);
  std::string why = without.front().reason;
  if (names.size() > 1) why += "; nor is there hardware for " + joined({names.begin() + 1, names.end()});
  const auto& all = lowered->problem.operations;
  const auto on_cards = std::count_if(all.begin(), all.end(), [](const auto& one) { return !one.host; });
  if (static_cast<std::size_t>(on_cards) == names.size()) return why;
  why += "; the other layers get hardware if the host computes " +
         std::string(names.size() == 1 ? "this one:" : "these:");
  for (const auto& block : names) why += " --host " + block;
  return why;
}

Result<Plan> make_plan(const PlanOptions& options) {
  PlanTimes times;
  Steps steps(times.steps);
  MILLRACE_ASSIGN(Task task, read_task(options, steps));
  MILLRACE_ASSIGN(Chosen chosen, options.plan.empty() ? search_for_plan(task) : follow(task));
  Plan plan{std::move(chosen.plan), std::move(task.model), {}, std::move(chosen.followed), {}};
  if (plan.unpredicted().empty()) {
    MILLRACE_TRY(steps.run("verify", [&] { return verify(plan); }));
    plan.extrapolated = extrapolations(task.catalog, plan);
  }
  times.prediction_ms = steps.total("predict");
  times.exploration_ms = steps.total() - times.prediction_ms;
  plan.times = std::move(times);
  if (plan.unpredicted().empty()) plan.analysis = explained(plan);
  return plan;
}

Status verify(const Plan& plan) {
  // One core of the host runs the blocks between cards, for all replicas.
  const double host = explore::host_seconds(plan.problem()) * static_cast<double>(plan.replicas());
  const double transfers = explore::transfer_seconds(plan.problem(), plan.solution);
  const double interval = std::max({slowest_part(plan), transfers, host});
  if (!near(plan.interval_seconds, interval))
    return wrong("interval in us", plan.interval_seconds * 1e6, interval * 1e6);
  double latency = plan.solution.latency_seconds;
  if (plan.placed.played) {
    MILLRACE_ASSIGN(latency, played_latency(plan));
  }
  if (!near(plan.latency_seconds, latency))
    return wrong("latency in us", plan.latency_seconds * 1e6, latency * 1e6);
  if (plan.followed) return {};
  const auto [gap, exact] = judge(plan, interval, latency);
  if (plan.solution.exact != exact) return wrong("exactness", plan.solution.exact ? 1 : 0, exact ? 1 : 0);
  if (!near(plan.solution.gap, gap) && std::abs(plan.solution.gap - gap) > 1e-9)
    return wrong("gap", plan.solution.gap, gap);
  return {};
}

}  // namespace millrace::compiler
