#include "compiler/planning/predict.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/explore/analysis.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/host_ports.hpp"
#include "compiler/planning/split_channels.hpp"
#include "compiler/planning/weights.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

constexpr double kMostPlayed = 1e6;  // cycles times blocks of all parts; simulating them takes about 0.4 s

double clock_of(const Attempt& attempt, const explore::Part& part) {
  return attempt.problem().cards[attempt.solution.card[part.place]].clock_hz;
}

/// Whether simulating all partitions takes little time. A simulation of only some partitions would give no figures for
/// the plan.
bool quickly_played(const Attempt& attempt, const explore::Solution& solution) {
  double work = 0;
  for (const auto& part : solution.parts)
    if (!part.host)
      work +=
          solution.interval_seconds * clock_of(attempt, part) * static_cast<double>(part.operations.size());
  return work <= kMostPlayed;
}

/// Returns the folding (the parallelism) of a block of the placed program, or nothing if the block has no hardware.
/// Finds the folding of an explored block by the block's name. All other blocks are relays, which only forward a
/// tensor; they get the slowest folding that keeps the plan's interval.
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

/// Returns the foldings (degrees of parallelism) of a partition's blocks, or an empty list if one of its blocks has no
/// hardware.
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

/// Replaces sums over blocks in the plan's analysis by the designs' figures. Returns the interval of cards and cables.
Result<double> take_figures(const Task& task, Predicted& plan) {
  const explore::Analysis sums = plan.analysis;
  auto& places = plan.analysis.places;
  std::vector<gen::Cost> shells(places.size());
  for (auto& place : places) {
    place.interval_seconds = 0;
    for (auto& region : place.regions) region.used = {};
  }
  for (std::size_t p = 0; p < plan.placed.programs.size(); ++p) {
    const auto& part = plan.placed.solution.parts[p];
    if (part.host) continue;
    auto& place = places[part.place];
    double seconds = sums.places[part.place].interval_seconds;
    if (const auto found = plan.placed.designs.find(plan.placed.programs[p].name);
        found != plan.placed.designs.end()) {
      const gen::Design& design = found->second;
      MILLRACE_ASSIGN(const auto costs, gen::region_costs(task.catalog, design, place.regions.size()));
      for (std::size_t r = 0; r < costs.size(); ++r) place.regions[r].used += amounts_of(costs[r]);
      shells[part.place] += design.shell;
      seconds = static_cast<double>(design.interval_cycles) / clock_of(plan, part);
    }
    place.interval_seconds = std::max(place.interval_seconds, seconds);
  }
  double longest = 0;
  for (const auto& cable : plan.analysis.cables) longest = std::max(longest, cable.seconds);
  for (std::uint32_t p = 0; p < places.size(); ++p) {
    auto& place = places[p];
    place.roofline.attained = 1 / place.interval_seconds;
    place.regions.front().used += place.links;
    place.regions.front().used += explore::less(amounts_of(shells[p]), own_shell(device_at(plan, p)));
    for (std::size_t r = 0; r < place.regions.size(); ++r)
      place.regions[r].used[explore::kMemoryBytes] = sums.places[p].regions[r].used[explore::kMemoryBytes];
    longest = std::max({longest, place.interval_seconds, 1 / place.roofline.memory});
  }
  return longest;
}

void change_interval(Predicted& plan, double seconds) {
  explore::change_interval(plan.analysis, plan.interval_seconds, seconds);
  plan.interval_seconds = seconds;
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
                                {false, task.plugins.get(), regions_of(out.solution, part), out.played});
    if (!design.ok()) return design.error().within("prediction of " + out.programs[p].name);
    MILLRACE_ASSIGN(design->shell, shell_of(task.catalog, out.programs, out.solution, p, *design,
                                            device_at(attempt, part.place), lowered.cluster));
    out.designs.emplace(out.programs[p].name, std::move(*design));
  }
  return out;
}

Judgement judge(const Predicted& plan, double interval_seconds, double latency_seconds) {
  constexpr double kProven = 1e-6;  // smaller gaps are rounding errors and count as 0
  const auto objective = plan.problem().targets.objective;
  const bool by_latency = objective == explore::Objective::kLatency;
  const auto cards = static_cast<double>(plan.cards());
  const double reached =
      by_latency ? latency_seconds : interval_seconds / static_cast<double>(plan.replicas());
  double gap = std::max(0.0, reached / plan.bound.seconds - 1);
  if (objective == explore::Objective::kCards) gap = std::max(gap, cards / plan.bound.cards - 1);
  const bool exact =
      plan.placed.played && plan.bound.exact && gap < kProven && (by_latency || cards <= plan.bound.cards);
  return {exact ? 0 : gap, exact};
}

std::vector<double> host_times(const Predicted& plan) {
  std::vector<double> host(plan.placed.programs.size(), 0);
  for (std::size_t p = 0; p < host.size(); ++p) {
    if (!plan.placed.solution.parts[p].host) continue;
    for (const auto& block : plan.placed.programs[p].blocks)
      host[p] += plan.problem().operations[find_block(plan.program(), block.name)].host_seconds;
  }
  return host;
}

Result<std::vector<double>> last_outputs(const Predicted& plan) {
  const auto& parts = plan.placed.solution.parts;
  const auto& programs = plan.placed.programs;
  std::vector<double> last(programs.size(), 0);
  if (!plan.placed.played || !plan.lowered->candidates.without.empty()) {
    for (const auto& work : plan.analysis.works)
      for (std::size_t p = 0; p < programs.size(); ++p)
        if (!parts[p].host &&
            find_block(programs[p], plan.program().blocks[work.operation].name) < programs[p].blocks.size())
          last[p] = std::max(last[p], work.last);
    return last;
  }
  if (plan.placed.designs.size() == 1) {
    const auto& [name, design] = *plan.placed.designs.begin();
    for (std::size_t p = 0; p < programs.size(); ++p)
      if (programs[p].name == name)
        last[p] = static_cast<double>(design.latency_cycles) / clock_of(plan, parts[p]);
    return last;
  }
  MILLRACE_ASSIGN(const auto passages, compiler::passages(programs, plan.placed.solution, plan.cluster(),
                                                          plan.placed.designs, host_times(plan)));
  for (std::size_t p = 0; p < programs.size(); ++p) last[p] = passages[p].last_output;
  return last;
}

Result<double> played_latency(const Predicted& plan) {
  MILLRACE_ASSIGN(const auto last, last_outputs(plan));
  return *std::max_element(last.begin(), last.end());
}

Result<Predicted> predict(const Task& task, Attempt attempt, Placed placed) {
  Predicted plan{std::move(attempt), std::move(placed), {}};
  plan.analysis = explore::analyse(plan.problem(), plan.solution);
  plan.interval_seconds = plan.solution.interval_seconds;
  plan.latency_seconds = plan.solution.latency_seconds;
  MILLRACE_ASSIGN(const double cards, take_figures(task, plan));
  change_interval(plan, cards);
  if (plan.placed.played && plan.lowered->candidates.without.empty()) {
    MILLRACE_ASSIGN(plan.latency_seconds, played_latency(plan));
  }
  // One core of the host works for all replicas, so it may limit the rate.
  const double host = explore::host_seconds(plan.problem()) * static_cast<double>(plan.replicas());
  if (host > plan.interval_seconds) change_interval(plan, host);
  return plan;
}

kernels::Placement placement_of(const Attempt& attempt, std::uint32_t block) {
  const generators::Folding* folding = chosen_folding(attempt, block);
  if (folding == nullptr) return attempt.program().blocks[block].placement;
  const auto& ways = attempt.problem().operations[block].implementations;
  const bool read = ways[attempt.solution.implementation[block]].amounts[explore::kMemoryBytes] > 0;
  return folding->weights == kernels::Placement::kStreamed && !read ? kernels::Placement::kLoaded
                                                                    : folding->weights;
}

explore::Analysis explained(const Predicted& plan) {
  explore::Analysis out = plan.analysis;
  const double host = explore::host_seconds(plan.problem());
  if (host * static_cast<double>(plan.replicas()) < plan.interval_seconds * (1 - 1e-9)) {
    explore::explain(plan.problem(), plan.solution, out);
    return out;
  }
  out.bottleneck = "the host limits the rate: its work between cards takes " +
                   std::to_string(std::lround(host * 1e9)) + " ns of one core per frame";
  out.lifts.clear();
  return out;
}

}  // namespace millrace::compiler
