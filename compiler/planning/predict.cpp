#include "compiler/planning/predict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/explore/explain.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/host_ports.hpp"
#include "compiler/planning/host_work.hpp"
#include "compiler/planning/passages.hpp"
#include "compiler/planning/relays.hpp"
#include "compiler/planning/weights.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

constexpr double kMostPlayed = 1e6;  // cycles times blocks of all parts; some 0.4 s

/// Of a block on a card.
const gen::Folding& chosen_folding(const Plan& plan, std::uint32_t block) {
  const auto& way = plan.problem.operations[block].implementations[plan.solution.implementation[block]];
  return plan.candidates.of_block[block][way.candidate].folding;
}

class Prediction {
 public:
  Prediction(const gen::Catalog& catalog, Plan& plan, Steps& steps, Play play)
      : catalog_(catalog), plan_(plan), steps_(steps), play_(play) {}

  Result<double> run() {
    MILLRACE_TRY(place_solution(plan_));
    plan_.analysis = explore::analyse(plan_.problem, plan_.solution);
    plan_.interval_seconds = plan_.solution.interval_seconds;
    plan_.latency_seconds = plan_.solution.latency_seconds;
    MILLRACE_TRY(steps_.run("predict", [&] { return play(); }));
    const double played = plan_.interval_seconds;
    // One core does it for all replicas.
    const auto replicas = static_cast<double>(plan_.replicas());
    if (const double host = host_seconds_between(plan_); host * replicas > plan_.interval_seconds) {
      explore::change_interval(plan_.analysis, plan_.interval_seconds, host * replicas);
      plan_.interval_seconds = host * replicas;
    }
    return played;
  }

 private:
  double clock(const explore::Part& part) const {
    return plan_.problem.cards[plan_.placed.card[part.place]].clock_hz;
  }

  const runtime::plan::Device& device(std::uint32_t place) const {
    return plan_.cluster.device_of(plan_.cluster.cards[plan_.placed.card[place]]);
  }

  Result<gen::Folding> folding_of(std::uint32_t block, const explore::Part& part) const {
    // Blocks that were explored are found by name; the others pass tensors on.
    const auto& name = plan_.placed_program.blocks[block].name;
    for (std::uint32_t i = 0; i < plan_.program.blocks.size(); ++i)
      if (plan_.program.blocks[i].name == name) return chosen_folding(plan_, i);
    MILLRACE_ASSIGN(const auto generator, gen::Generator::make(plan_.placed_program, block));
    auto foldings =
        generator->foldings(static_cast<std::uint64_t>(plan_.solution.interval_seconds * clock(part)));
    if (foldings.empty()) foldings = generator->foldings(generator->intervals().front());
    return foldings.front();
  }

  /// Whether all parts together are played quickly enough: some alone would give no figures.
  bool affordable() const {
    double work = 0;
    for (const auto& part : plan_.placed.parts)
      if (!part.host)
        work += plan_.solution.interval_seconds * clock(part) * static_cast<double>(part.operations.size());
    return work <= kMostPlayed;
  }

  /// Every part on a card put together, and played clock by clock where that is affordable or asked for.
  Status play() {
    plan_.foldings.assign(plan_.placed.parts.size(), {});
    plan_.designs.clear();
    plan_.played = play_ == Play::kAll || (play_ == Play::kWhereQuick && affordable());
    const auto programs = partition_programs(plan_.placed_program, plan_.placed);
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const auto& part = plan_.placed.parts[p];
      if (part.host) continue;
      for (const auto block : part.operations) {
        MILLRACE_ASSIGN(const gen::Folding folding, folding_of(block, part));
        plan_.foldings[p].push_back(folding);
      }
      auto design = gen::assemble(catalog_, programs[p], plan_.foldings[p],
                                  {false, plan_.plugin.get(), regions_of(plan_.placed, part), plan_.played});
      if (!design.ok()) return design.error().within("prediction of " + programs[p].name);
      MILLRACE_ASSIGN(design->shell,
                      shell_of(catalog_, programs, plan_.placed, p, *design, device(part.place)));
      plan_.designs.emplace(programs[p].name, std::move(*design));
    }
    return take_figures(programs);
  }

  /// Interval, latency and resources of the designs in place of the blocks' sums.
  Status take_figures(const std::vector<kernels::Program>& programs) {
    double longest = 0;
    for (const auto& cable : plan_.analysis.cables) longest = std::max(longest, cable.seconds);
    std::vector<std::vector<explore::Amounts>> used;  // place -> region
    for (const auto& place : plan_.analysis.places)
      used.emplace_back(place.regions.size(), explore::Amounts{});
    std::vector<double> slowest(plan_.placed.card.size(), 0);
    std::vector<gen::Cost> shell(plan_.placed.card.size());
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const auto found = plan_.designs.find(programs[p].name);
      if (found == plan_.designs.end()) continue;
      const auto& part = plan_.placed.parts[p];
      MILLRACE_ASSIGN(const auto costs, gen::region_costs(catalog_, found->second, used[part.place].size()));
      for (std::size_t r = 0; r < used[part.place].size(); ++r) used[part.place][r] += amounts_of(costs[r]);
      shell[part.place] += found->second.shell;
      slowest[part.place] =
          std::max(slowest[part.place], static_cast<double>(found->second.interval_cycles) / clock(part));
    }
    for (std::size_t place = 0; place < used.size(); ++place) {
      auto& figures = plan_.analysis.places[place];
      longest = std::max(longest, slowest[place]);
      figures.interval_seconds = slowest[place];
      figures.roofline.attained = 1 / slowest[place];
      if (std::isfinite(figures.roofline.memory) && figures.memory_bytes > 0)
        longest = std::max(longest, 1 / figures.roofline.memory);
      for (std::size_t r = 0; r < figures.regions.size(); ++r) {
        auto& region = figures.regions[r];
        const std::uint64_t memory = region.used[explore::kMemoryBytes];
        region.used = used[place][r];
        if (r == 0) {
          region.used += figures.links;
          region.used +=
              explore::less(amounts_of(shell[place]), own_shell(device(static_cast<std::uint32_t>(place))));
        }
        region.used[explore::kMemoryBytes] = memory;
      }
    }
    plan_.interval_seconds = longest;
    explore::change_interval(plan_.analysis, plan_.solution.interval_seconds, longest);
    if (plan_.played) {
      MILLRACE_ASSIGN(plan_.latency_seconds, latency(programs));
    }
    return {};
  }

  /// Of a frame through all parts, over cables in packets; the host's time between cards counts.
  Result<double> latency(const std::vector<kernels::Program>& programs) const {
    if (plan_.designs.size() == 1) {
      const auto& [name, design] = *plan_.designs.begin();
      for (std::size_t p = 0; p < programs.size(); ++p)
        if (programs[p].name == name)
          return static_cast<double>(design.latency_cycles) / clock(plan_.placed.parts[p]);
    }
    std::vector<double> host(programs.size(), 0);
    for (std::size_t p = 0; p < programs.size(); ++p)
      for (const auto block : plan_.placed.parts[p].operations)
        host[p] += host_seconds_of(plan_, plan_.placed_program.blocks[block].name);
    MILLRACE_ASSIGN(const auto passages,
                    compiler::passages(programs, plan_.placed, plan_.cluster, plan_.designs, host));
    double end = 0;
    for (const auto& passage : passages) end = std::max(end, passage.last_output);
    return end;
  }

  const gen::Catalog& catalog_;
  Plan& plan_;
  Steps& steps_;
  Play play_;
};

}  // namespace

Status place_solution(Plan& plan) {
  plan.placed_program = plan.program;
  plan.placed = plan.solution;
  for (std::uint32_t i = 0; i < plan.program.blocks.size() && !plan.solution.implementation.empty(); ++i)
    if (!plan.problem.operations[i].host)
      MILLRACE_TRY(place_parameters(plan.placed_program, i, chosen_folding(plan, i).weights));
  insert_relays(plan.placed_program, plan.placed);
  return {};
}

Result<double> predict(const gen::Catalog& catalog, Plan& plan, Steps& steps, Play play) {
  return Prediction(catalog, plan, steps, play).run();
}

void explain(Plan& plan) {
  const double host = host_seconds_between(plan);
  if (host * static_cast<double>(plan.replicas()) < plan.interval_seconds * (1 - 1e-9))
    return explore::explain(plan.problem, plan.solution, plan.analysis);
  plan.analysis.bottleneck = "the host limits: between cards it takes " +
                             std::to_string(std::lround(host * 1e9)) + " ns of a core for each frame";
  plan.analysis.lifts.clear();
}

}  // namespace millrace::compiler
