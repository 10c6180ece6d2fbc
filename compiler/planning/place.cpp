#include <algorithm>

#include "compiler/generators/design.hpp"
#include "compiler/planning/host_ports.hpp"
#include "compiler/planning/predict.hpp"
#include "compiler/planning/split_channels.hpp"
#include "compiler/planning/weights.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;

constexpr double kMostPlayed = 1e6;  // cycles times blocks, of all parts; takes some 0.4 s

double clock_of(const Attempt& attempt, const explore::Part& part) {
  return attempt.problem().cards[attempt.solution.card[part.place]].clock_hz;
}

/// Whether playing all parts takes little time. Playing only some of them gives no figures.
bool quickly_played(const Attempt& attempt, const explore::Solution& solution) {
  double work = 0;
  for (const auto& part : solution.parts)
    if (!part.host)
      work +=
          solution.interval_seconds * clock_of(attempt, part) * static_cast<double>(part.operations.size());
  return work <= kMostPlayed;
}

/// The folding of a block of the placed program. Blocks that were explored are found by name. The others are
/// relays, which get the slowest folding that the plan allows. Nothing: the block has no hardware.
Result<std::optional<gen::Folding>> folding_of(const Attempt& attempt, const kernels::Program& program,
                                               std::uint32_t block, double clock_hz) {
  const auto& explored = attempt.program();
  if (const auto i = find_block(explored, program.blocks[block].name); i < explored.blocks.size()) {
    const gen::Folding* chosen = chosen_folding(attempt, i);
    return chosen == nullptr ? std::nullopt : std::optional(*chosen);
  }
  MILLRACE_ASSIGN(const auto generator, gen::Generator::make(program, block));
  auto foldings =
      generator->foldings(static_cast<std::uint64_t>(attempt.solution.interval_seconds * clock_hz));
  if (foldings.empty()) foldings = generator->foldings(generator->intervals().front());
  return std::optional(foldings.front());
}

/// Foldings of a part's blocks, in its order; none if a block has no hardware.
Result<std::vector<gen::Folding>> foldings_of(const Attempt& attempt, const kernels::Program& program,
                                              const explore::Part& part) {
  std::vector<gen::Folding> foldings;
  for (const auto block : part.operations) {
    MILLRACE_ASSIGN(const auto folding, folding_of(attempt, program, block, clock_of(attempt, part)));
    if (!folding) return std::vector<gen::Folding>{};
    foldings.push_back(*folding);
  }
  return foldings;
}

}  // namespace

const gen::Folding* chosen_folding(const Attempt& attempt, std::uint32_t block) {
  const auto& candidates = attempt.lowered->candidates.of_block[block];
  if (candidates.empty()) return nullptr;
  const auto& ways = attempt.problem().operations[block].implementations;
  return &candidates[ways[attempt.solution.implementation[block]].candidate].folding;
}

const runtime::plan::Device& device_at(const Attempt& attempt, std::uint32_t place) {
  const auto& cluster = attempt.cluster();
  return cluster.device_of(cluster.cards[attempt.solution.card[place]]);
}

Result<Placed> place(const Task& task, const Attempt& attempt) {
  const Lowered& lowered = *attempt.lowered;
  Placed out;
  out.program = lowered.program;
  out.solution = attempt.solution;
  for (std::uint32_t i = 0; i < lowered.program.blocks.size(); ++i) {
    if (lowered.problem.operations[i].host) continue;
    if (const gen::Folding* folding = chosen_folding(attempt, i))
      MILLRACE_TRY(place_parameters(out.program, i, folding->weights));
  }
  insert_relays(out.program, out.solution);
  out.programs = partition_programs(out.program, out.solution);
  out.foldings.resize(out.solution.parts.size());
  const Play play = task.options.play;
  out.played = play == Play::kAll || (play == Play::kWhereQuick && quickly_played(attempt, out.solution));
  for (std::size_t p = 0; p < out.programs.size(); ++p) {
    const auto& part = out.solution.parts[p];
    if (part.host) continue;
    MILLRACE_ASSIGN(out.foldings[p], foldings_of(attempt, out.program, part));
    if (out.foldings[p].empty()) continue;
    auto design = gen::assemble(task.catalog, out.programs[p], out.foldings[p],
                                {false, task.plugin.get(), regions_of(out.solution, part), out.played});
    if (!design.ok()) return design.error().within("prediction of " + out.programs[p].name);
    MILLRACE_ASSIGN(design->shell, shell_of(task.catalog, out.programs, out.solution, p, *design,
                                            device_at(attempt, part.place)));
    out.designs.emplace(out.programs[p].name, std::move(*design));
  }
  return out;
}

}  // namespace millrace::compiler
