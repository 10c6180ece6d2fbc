#include "compiler/planning/host_work.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler {
namespace {

/// The names of all blocks, or of the first twelve.
std::string block_names(const kernels::Program& program) {
  constexpr std::size_t kMost = 12;
  const auto& blocks = program.blocks;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, blocks.size()); ++i) names.push_back(blocks[i].name);
  return joined(names) + (blocks.size() > kMost ? " and others: see the plan without --host" : "");
}

}  // namespace

std::vector<HostBlock> time_host(const PlanOptions& options, const generators::Catalog& catalog,
                                 const kernels::Program& program, explore::Problem& problem) {
  std::vector<HostBlock> host;
  const auto stage = explore::stages(problem);
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    auto& operation = problem.operations[i];
    if (!operation.host) continue;
    const bool between =
        stage[i] > 0 && std::any_of(stage.begin(), stage.end(), [&](auto other) { return other > stage[i]; });
    const double measured = generators::host_seconds(catalog, program, program.blocks[i]);
    const double seconds = between && options.host_seconds ? *options.host_seconds : measured;
    operation.host_seconds = between ? seconds : 0;
    host.push_back({operation.name, seconds, between});
  }
  return host;
}

Status check_host(const PlanOptions& options, const Lowered& lowered) {
  for (const auto& name : options.host_blocks)
    if (std::none_of(lowered.program.blocks.begin(), lowered.program.blocks.end(),
                     [&](const auto& block) { return block.name == name; }))
      return Error(ErrorCode::kInvalidInput, "--host " + name + ": the model has no such block; it has " +
                                                 block_names(lowered.program));
  const auto& target = options.targets.frames_per_second;
  if (const double host = host_seconds_between(lowered.host); target && host * *target > 1)
    return Error(ErrorCode::kDoesNotFit, "the host takes " + std::to_string(std::lround(host * 1e9)) +
                                             " ns of a core for each frame between cards: at most " +
                                             std::to_string(std::lround(1 / host)) +
                                             " frames/s; lower --target-fps, or see host_times");
  if (!options.no_host) return {};
  std::vector<std::string> names = blocks_of(lowered.candidates.without);
  for (std::size_t i = 0; i < lowered.program.blocks.size(); ++i) {
    const auto& operation = lowered.program.blocks[i].operation;
    const bool converts = std::holds_alternative<kernels::Quantise>(operation) ||
                          std::holds_alternative<kernels::Dequantise>(operation) ||
                          std::holds_alternative<kernels::Permute>(operation);
    if (lowered.problem.operations[i].host && !converts) names.push_back(lowered.program.blocks[i].name);
  }
  if (names.empty()) return {};
  return Error(ErrorCode::kDoesNotFit, "--no-host: the host would have to compute " + joined(names) +
                                           "; leave --no-host out, or cut the model before them");
}

double host_seconds_between(const std::vector<HostBlock>& host) {
  double sum = 0;
  for (const auto& one : host) sum += one.between ? one.seconds : 0;
  return sum;
}

double host_seconds_of(const std::vector<HostBlock>& host, const std::string& block) {
  for (const auto& one : host)
    if (one.block == block && one.between) return one.seconds;
  return 0;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace millrace::compiler
