#include "compiler/planning/plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/explore/partition.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/generators/shell.hpp"
#include "compiler/planning/claims.hpp"
#include "compiler/planning/search.hpp"
#include "compiler/planning/weights.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;

/// Reads the model, the cluster and the other inputs that all alternatives share.
Result<Task> read_task(const PlanOptions& options, Steps& steps) {
  MILLRACE_TRY(check_options(options));
  Task task{options, steps, {}, {}, {}, {}};
  MILLRACE_ASSIGN(task.cluster,
                  steps.run("read_cluster", [&] { return runtime::plan::load_cluster(options.cluster); }));
  if (!options.plugins.empty()) {
    MILLRACE_ASSIGN(task.plugins, gen::Plugins::open(options.plugins, options.plugin_time));
  }
  ModelOptions model = options;
  model.claimer = claimer_of(task.plugins);
  MILLRACE_ASSIGN(task.model, read_model(model, steps));
  MILLRACE_TRY(place_parameters(task.model.program, options.weights.value_or(kernels::Placement::kBaked)));
  MILLRACE_ASSIGN(task.catalog, steps.run("read_catalog", [] { return gen::load_catalog(); }));
  return task;
}

bool near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

Status wrong(const std::string& figure, double said, double found) {
  return Error(ErrorCode::kInternal, "the plan that was just made is inconsistent: its " + figure + " is " +
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
  why += "; cards can compute the other layers if the host computes " +
         std::string(names.size() == 1 ? "this layer:" : "these layers:");
  for (const auto& block : names) why += " --host " + block;
  return why;
}

Result<Plan> make_plan(const PlanOptions& options) {
  PlanTimes times;
  Steps steps(times.steps);
  MILLRACE_ASSIGN(Task task, read_task(options, steps));
  MILLRACE_ASSIGN(Predicted predicted, options.plan.empty() ? choose(task) : follow(task));
  Plan plan{std::move(predicted), std::move(task.model), {}, {}};
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
  // One core of the host runs the blocks between cards for all replicas.
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

std::vector<gen::Extrapolation> extrapolations(const gen::Catalog& catalog, const Predicted& plan) {
  std::set<gen::Extrapolation> found;
  const auto add = [&](const std::string& module, const gen::Parameters& parameters) {
    for (auto& one : gen::extrapolations(catalog, module, parameters)) found.insert(std::move(one));
  };
  for (const auto& [name, design] : plan.placed.designs) {
    const gen::Netlist& netlist = design.netlist;
    for (const auto& reader : netlist.readers) add(reader.instance.module, reader.instance.parameters);
    for (const auto& unit : netlist.units)
      if (unit.wiring == gen::Wiring::kNone) add(unit.instance.module, unit.instance.parameters);
    std::uint64_t rest = gen::load_words(netlist);
    for (const auto& table : netlist.loads) {
      rest -= table.words();
      add("mr_load", gen::load_parameters(table, rest));
    }
    if (!netlist.loads.empty()) add("mr_parameters", gen::loader_parameters(netlist));
  }
  // Add the ports to the host, with as many lanes as the chosen implementations of their blocks.
  const auto& program = plan.program();
  const auto& operations = plan.problem().operations;
  std::set<std::uint32_t> made_on_card, read_on_host(program.outputs.begin(), program.outputs.end());
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    const auto& block = program.blocks[b];
    if (operations[b].host)
      read_on_host.insert(block.inputs.begin(), block.inputs.end());
    else
      made_on_card.insert(block.outputs.begin(), block.outputs.end());
  }
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (operations[b].host) continue;
    const auto& block = program.blocks[b];
    const auto& way = operations[b].implementations[plan.solution.implementation[b]];
    const auto& candidate = plan.lowered->candidates.of_block[b][way.candidate];
    const auto add_port = [&](bool input, std::uint32_t lanes, std::uint32_t tensor) {
      const auto unit = gen::host_port({input, false, lanes, 1, program.tensors[tensor].type});
      add(unit.module, unit.parameters);
    };
    for (std::size_t i = 0; i < block.inputs.size(); ++i)
      if (!made_on_card.contains(block.inputs[i])) add_port(true, candidate.input_lanes[i], block.inputs[i]);
    for (std::size_t i = 0; i < block.outputs.size(); ++i)
      if (read_on_host.contains(block.outputs[i]))
        add_port(false, candidate.output_lanes[i], block.outputs[i]);
  }
  return std::vector(found.begin(), found.end());
}

}  // namespace millrace::compiler
