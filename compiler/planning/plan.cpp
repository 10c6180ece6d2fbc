#include "compiler/planning/plan.hpp"

#include <algorithm>

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
    MILLRACE_ASSIGN(plan.extrapolated, extrapolations(task.catalog, plan));
  }
  times.prediction_ms = steps.total("predict");
  times.exploration_ms = steps.total() - times.prediction_ms;
  plan.times = std::move(times);
  if (plan.unpredicted().empty()) plan.analysis = explained(plan);
  return plan;
}

}  // namespace millrace::compiler
