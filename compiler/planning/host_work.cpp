#include "compiler/planning/host_work.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler {
namespace {

/// Some of them, where they are many.
std::string block_names(const Plan& plan) {
  constexpr std::size_t kMost = 12;
  const auto& blocks = plan.program.blocks;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, blocks.size()); ++i) names.push_back(blocks[i].name);
  return joined(names) + (blocks.size() > kMost ? " and others: see the plan without --host" : "");
}

}  // namespace

void time_host(const PlanOptions& options, const generators::Catalog& catalog, Plan& plan) {
  plan.host.clear();
  const auto stage = explore::stages(plan.problem);
  for (std::size_t i = 0; i < plan.problem.operations.size(); ++i) {
    auto& operation = plan.problem.operations[i];
    if (!operation.host) continue;
    const bool between =
        stage[i] > 0 && std::any_of(stage.begin(), stage.end(), [&](auto other) { return other > stage[i]; });
    const double measured = generators::host_seconds(catalog, plan.program, plan.program.blocks[i]);
    const double seconds = between && options.host_seconds ? *options.host_seconds : measured;
    operation.host_seconds = between ? seconds : 0;
    plan.host.push_back({operation.name, seconds, between});
  }
}

Status check_host(const PlanOptions& options, const Plan& plan) {
  for (const auto& name : options.host_blocks)
    if (std::none_of(plan.program.blocks.begin(), plan.program.blocks.end(),
                     [&](const auto& block) { return block.name == name; }))
      return Error(ErrorCode::kInvalidInput,
                   "--host " + name + ": the model has no such block; it has " + block_names(plan));
  const auto& target = options.targets.frames_per_second;
  if (const double host = host_seconds_between(plan); target && host * *target > 1)
    return Error(ErrorCode::kDoesNotFit, "the host takes " + std::to_string(std::lround(host * 1e9)) +
                                             " ns of a core for each frame between cards: at most " +
                                             std::to_string(std::lround(1 / host)) +
                                             " frames/s; lower --target-fps, or see host_times");
  if (!options.no_host) return {};
  std::vector<std::string> names = plan.candidates.without;
  for (std::size_t i = 0; i < plan.program.blocks.size(); ++i) {
    const auto& operation = plan.program.blocks[i].operation;
    const bool converts = std::holds_alternative<kernels::Quantise>(operation) ||
                          std::holds_alternative<kernels::Dequantise>(operation) ||
                          std::holds_alternative<kernels::Permute>(operation);
    if (plan.problem.operations[i].host && !converts) names.push_back(plan.program.blocks[i].name);
  }
  if (names.empty()) return {};
  return Error(ErrorCode::kDoesNotFit, "--no-host: the host would have to compute " + joined(names) +
                                           "; leave --no-host out, or cut the model before them");
}

double host_seconds_between(const Plan& plan) {
  double sum = 0;
  for (const auto& host : plan.host) sum += host.between ? host.seconds : 0;
  return sum;
}

double host_seconds_of(const Plan& plan, const std::string& block) {
  for (const auto& host : plan.host)
    if (host.block == block && host.between) return host.seconds;
  return 0;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace millrace::compiler
