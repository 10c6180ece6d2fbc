#include "compiler/planning/predict.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/explore/analysis.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/host_ports.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

/// The figures of the designs on one card.
struct CardFigures {
  std::vector<explore::Amounts> used;  // of each region
  gen::Cost shell;
  double interval_seconds = 0;
};

double clock_of(const Predicted& plan, const explore::Part& part) {
  return plan.problem().cards[plan.solution.card[part.place]].clock_hz;
}

Result<std::vector<CardFigures>> card_figures(const Task& task, const Predicted& plan) {
  std::vector<CardFigures> cards(plan.analysis.places.size());
  for (std::size_t place = 0; place < cards.size(); ++place)
    cards[place].used.resize(plan.analysis.places[place].regions.size());
  for (std::size_t p = 0; p < plan.placed.programs.size(); ++p) {
    const auto& part = plan.placed.solution.parts[p];
    if (part.host) continue;
    CardFigures& card = cards[part.place];
    const auto found = plan.placed.designs.find(plan.placed.programs[p].name);
    if (found == plan.placed.designs.end()) {
      const double estimated = plan.analysis.places[part.place].interval_seconds;
      card.interval_seconds = std::max(card.interval_seconds, estimated);
      continue;
    }
    MILLRACE_ASSIGN(const auto costs, gen::region_costs(task.catalog, found->second, card.used.size()));
    for (std::size_t r = 0; r < card.used.size(); ++r) card.used[r] += amounts_of(costs[r]);
    card.shell += found->second.shell;
    const double interval = static_cast<double>(found->second.interval_cycles) / clock_of(plan, part);
    card.interval_seconds = std::max(card.interval_seconds, interval);
  }
  return cards;
}

/// Replaces the sums over blocks with the figures of the designs on a card. Gives the interval that the card
/// allows.
double take_figures(const CardFigures& card, const runtime::plan::Device& device,
                    explore::PlaceAnalysis& place) {
  double interval = card.interval_seconds;
  place.interval_seconds = interval;
  place.roofline.attained = 1 / interval;
  if (std::isfinite(place.roofline.memory) && place.memory_bytes > 0)
    interval = std::max(interval, 1 / place.roofline.memory);
  for (std::size_t r = 0; r < place.regions.size(); ++r) {
    auto& region = place.regions[r];
    const std::uint64_t memory = region.used[explore::kMemoryBytes];
    region.used = card.used[r];
    if (r == 0) {
      region.used += place.links;
      region.used += explore::less(amounts_of(card.shell), own_shell(device));
    }
    region.used[explore::kMemoryBytes] = memory;
  }
  return interval;
}

void change_interval(Predicted& plan, double seconds) {
  explore::change_interval(plan.analysis, plan.interval_seconds, seconds);
  plan.interval_seconds = seconds;
}

}  // namespace

Result<double> played_latency(const Predicted& plan) {
  const auto& parts = plan.placed.solution.parts;
  const auto& programs = plan.placed.programs;
  if (plan.placed.designs.size() == 1) {
    const auto& [name, design] = *plan.placed.designs.begin();
    for (std::size_t p = 0; p < programs.size(); ++p)
      if (programs[p].name == name)
        return static_cast<double>(design.latency_cycles) / clock_of(plan, parts[p]);
  }
  std::vector<double> host(programs.size(), 0);
  for (std::size_t p = 0; p < programs.size(); ++p)
    for (const auto block : parts[p].operations)
      host[p] += host_seconds_of(plan.lowered->host, plan.placed.program.blocks[block].name);
  MILLRACE_ASSIGN(const auto passages, compiler::passages(programs, plan.placed.solution, plan.cluster(),
                                                          plan.placed.designs, host));
  double end = 0;
  for (const auto& passage : passages) end = std::max(end, passage.last_output);
  return end;
}

Result<Predicted> predict(const Task& task, Attempt attempt, Placed placed) {
  Predicted plan{std::move(attempt), std::move(placed), {}};
  plan.analysis = explore::analyse(plan.problem(), plan.solution);
  plan.interval_seconds = plan.solution.interval_seconds;
  plan.latency_seconds = plan.solution.latency_seconds;
  MILLRACE_ASSIGN(const auto cards, card_figures(task, plan));
  double longest = 0;
  for (const auto& cable : plan.analysis.cables) longest = std::max(longest, cable.seconds);
  for (std::uint32_t place = 0; place < cards.size(); ++place)
    longest =
        std::max(longest, take_figures(cards[place], device_at(plan, place), plan.analysis.places[place]));
  change_interval(plan, longest);
  if (plan.placed.played && plan.lowered->candidates.without.empty()) {
    MILLRACE_ASSIGN(plan.latency_seconds, played_latency(plan));
  }
  // One core of the host works for all replicas.
  const double host = host_seconds_between(plan.lowered->host) * static_cast<double>(plan.replicas());
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
  const double host = host_seconds_between(plan.lowered->host);
  if (host * static_cast<double>(plan.replicas()) < plan.interval_seconds * (1 - 1e-9)) {
    explore::explain(plan.problem(), plan.solution, out);
    return out;
  }
  out.bottleneck = "the host limits: between cards it takes " + std::to_string(std::lround(host * 1e9)) +
                   " ns of a core for each frame";
  out.lifts.clear();
  return out;
}

}  // namespace millrace::compiler
