#include "compiler/planning/lower.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/planning/split_channels.hpp"
#include "compiler/planning/through_host.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;

Result<kernels::Program> with_splits(kernels::Program program, const std::vector<Split>& splits) {
  for (const Split& split : splits) {
    const std::uint32_t block = find_block(program, split.block);
    if (!can_split(program, block, split.parts))
      return Error(ErrorCode::kInvalidInput,
                   "--split " + split.block + "=" + std::to_string(split.parts) +
                       ": only ungrouped convolutions and fully connected blocks can be split, "
                       "and the number of parts must divide the number of output channels");
    program = split_channels(program, block, split.parts);
  }
  return program;
}

/// Refuses --host for a block that a plugin computes.
Status check_plugin_blocks(const kernels::Program& program, const Changes& changes) {
  for (const std::string& name : changes.host_blocks) {
    const std::uint32_t found = find_block(program, name);
    if (found >= program.blocks.size()) continue;
    const auto* op = std::get_if<kernels::PluginOperator>(&program.blocks[found].operation);
    if (op == nullptr) continue;
    return Error(ErrorCode::kInvalidInput,
                 "block '" + name + "' belongs to plugin '" + op->plugin +
                     "', which computes the block on cards only; leave --host " + name +
                     " out. "
                     "If the plugin offers no hardware for the block, the block's speed cannot be predicted, "
                     "so leave targets and objective out, too");
  }
  return {};
}

/// Returns the names of all blocks, or of the first twelve if there are more.
std::string block_names(const kernels::Program& program) {
  constexpr std::size_t kMost = 12;
  const auto& blocks = program.blocks;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, blocks.size()); ++i) names.push_back(blocks[i].name);
  return joined(names) +
         (blocks.size() > kMost ? " and others (a plan without --host lists all blocks)" : "");
}

/// Returns the host's blocks with their times. Also sets host_seconds of the operations that the host runs between two
/// cards, because there the host's time is part of a frame's latency.
std::vector<HostBlock> time_host(const PlanOptions& options, const gen::Catalog& catalog,
                                 const kernels::Program& program, explore::Problem& problem) {
  std::vector<HostBlock> host;
  const auto stage = explore::stages(problem);
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    auto& operation = problem.operations[i];
    if (!operation.host) continue;
    const bool between =
        stage[i] > 0 && std::any_of(stage.begin(), stage.end(), [&](auto other) { return other > stage[i]; });
    const double measured = gen::host_seconds(catalog, program, program.blocks[i]);
    const double seconds = between && options.host_seconds ? *options.host_seconds : measured;
    operation.host_seconds = between ? seconds : 0;
    host.push_back({operation.name, seconds, between});
  }
  return host;
}

/// Returns where all weights are stored if the options demand one place for all of them and another place would have
/// been possible. In this case, the plan is the best only among plans with this place. Otherwise returns nothing.
std::optional<kernels::Placement> given_weights(const PlanOptions& options, const Lowered& lowered) {
  const auto all = options.weights.value_or(kernels::Placement::kBaked);
  const bool several =
      all == kernels::Placement::kBaked ? can_stream(lowered) : kernels::has_parameters(lowered.program);
  return several && !lowered.changes.streamed ? std::optional(all) : std::nullopt;
}

/// Returns the notes that say why nodes run on the host, one a line; at most eight.
std::string host_reasons(const std::vector<std::string>& notes) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t found = 0;
  for (const std::string& note : notes) {
    const bool on_host = note.find("on the host: ") != std::string::npos;
    if (on_host && ++found <= kMost) text += "\n  " + note;
  }
  if (found > kMost) text += "\n  and " + std::to_string(found - kMost) + " more";
  return text;
}

}  // namespace

bool needs_prediction(const PlanOptions& options) {
  const auto& targets = options.targets;
  return targets.frames_per_second || targets.max_latency_seconds || !options.plan.empty() ||
         targets.objective != explore::Objective::kCards;
}

Result<std::vector<explore::Card>> cards_of(const Task& task, const kernels::Program& program, bool loader) {
  auto cards = explore::make_problem(program, task.cluster, {}, task.options.shares).cards;
  if (!loader) return cards;
  // The unit that loads constants is in the first region, next to the shell. If one card needs this unit, most other
  // cards do too, so its cost is subtracted on every card.
  MILLRACE_ASSIGN(const gen::Cost cost, gen::largest_loader_cost(task.catalog));
  explore::Amounts taken = explore::amounts(cost.resources());
  for (std::size_t k = 0; k < explore::kKinds; ++k)
    taken[k] = static_cast<std::uint64_t>(std::ceil(static_cast<double>(taken[k]) * task.options.shares[k]));
  for (auto& card : cards)
    if (!card.regions.empty())
      card.regions.front().available = explore::less(card.regions.front().available, taken);
  return cards;
}

Result<LoweredPtr> lower(const Task& task, Changes changes) {
  const PlanOptions& options = task.options;
  MILLRACE_TRY(check_plugin_blocks(task.model.program, changes));
  Lowered out;
  out.changes = std::move(changes);
  out.cluster = task.cluster;
  MILLRACE_ASSIGN(out.program, with_splits(task.model.program, out.changes.splits));
  std::vector<std::string> on_host = out.changes.host_blocks;
  const auto problem = [&] {
    return explore::make_problem(out.program, out.cluster, options.partitions, options.shares, on_host);
  };
  out.problem = problem();
  if (out.changes.through_host) {
    ThroughHost through = copy_through_host(out.program, out.problem);
    out.program = std::move(through.program);
    on_host.insert(on_host.end(), through.copies.begin(), through.copies.end());
    out.problem = problem();
  }
  out.problem.targets = options.targets;
  out.problem.replicas = options.replicas;
  out.loader = out.changes.streamed || kernels::has_parameters(out.program);
  if (out.loader) {
    MILLRACE_ASSIGN(out.problem.cards, cards_of(task, out.program, true));
  }
  out.host = time_host(options, task.catalog, out.program, out.problem);
  if (task.plugins)
    MILLRACE_TRY(task.steps.run("ask_plugins", [&] { return task.plugins->prepare(out.program); }));
  out.candidates.plugins = task.plugins;
  MILLRACE_ASSIGN(out.candidates.ports, HostPorts::make(task.catalog, out.program, out.problem, out.cluster));
  MILLRACE_TRY(task.steps.run("candidates", [&] { return add_candidates(task, out); }));
  out.weights_given = given_weights(options, out);
  return LoweredPtr(std::make_shared<const Lowered>(std::move(out)));
}

bool can_stream(const Lowered& lowered) {
  const auto has_memory = [](const explore::Card& card) {
    return std::any_of(card.regions.begin(), card.regions.end(),
                       [](const auto& region) { return region.available[explore::kMemoryBytes] > 0; });
  };
  const auto& cards = lowered.problem.cards;
  if (std::none_of(cards.begin(), cards.end(), has_memory)) return false;
  for (std::size_t i = 0; i < lowered.program.blocks.size(); ++i)
    if (!lowered.problem.operations[i].host && gen::can_stream(lowered.program.blocks[i])) return true;
  return false;
}

Status check_host(const Task& task, const Lowered& lowered) {
  const PlanOptions& options = task.options;
  for (const auto& name : options.host_blocks)
    if (std::none_of(lowered.program.blocks.begin(), lowered.program.blocks.end(),
                     [&](const auto& block) { return block.name == name; }))
      return Error(ErrorCode::kInvalidInput, "--host " + name + ": the model has no such block; it has " +
                                                 block_names(lowered.program));
  const auto& target = options.targets.frames_per_second;
  if (const double host = explore::host_seconds(lowered.problem); target && host * *target > 1)
    return Error(ErrorCode::kDoesNotFit,
                 "the host's work between cards takes " + std::to_string(std::lround(host * 1e9)) +
                     " ns of one core per frame, "
                     "which allows at most " +
                     std::to_string(std::lround(1 / host)) +
                     " frames/s; lower --target-fps. "
                     "The output of 'plan --json' has the time of each block on the host under host_times");
  if (!options.no_host) return {};
  std::vector<std::string> names = blocks_of(lowered.candidates.without);
  for (std::size_t i = 0; i < lowered.program.blocks.size(); ++i) {
    const auto& operation = lowered.program.blocks[i].operation;
    const bool converts = std::holds_alternative<kernels::Quantise>(operation) ||
                          std::holds_alternative<kernels::Dequantise>(operation) ||
                          std::holds_alternative<kernels::Rearrange>(operation);
    if (lowered.problem.operations[i].host && !converts) names.push_back(lowered.program.blocks[i].name);
  }
  if (names.empty()) return {};
  return Error(ErrorCode::kDoesNotFit, "--no-host: the host would have to compute " + joined(names) +
                                           "; leave --no-host out, or cut the model before these blocks" +
                                           host_reasons(task.model.notes));
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace millrace::compiler
