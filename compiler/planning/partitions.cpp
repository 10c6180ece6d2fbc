#include "compiler/planning/partitions.hpp"

#include <algorithm>

namespace millrace::compiler {
namespace {

std::string partition_name(const explore::Solution& solution, std::size_t part) {
  const auto& parts = solution.parts;
  if (parts[part].host)
    return part == 0 ? "input" : part + 1 == parts.size() ? "output" : "host" + std::to_string(part);
  const auto cards = std::count_if(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(part),
                                   [](const auto& p) { return !p.host; });
  return "part" + std::to_string(cards);
}

std::vector<std::string> names(const kernels::Program& program,
                               const std::vector<kernels::TensorIndex>& tensors) {
  std::vector<std::string> out;
  for (const auto t : tensors) out.push_back(program.tensors[t].name);
  return out;
}

/// Between the cards of all places.
generators::Links links(const explore::Solution& solution, const runtime::plan::Cluster& cluster) {
  std::map<std::string, std::uint32_t> place;
  for (std::uint32_t p = 0; p < solution.card.size(); ++p) place[cluster.cards[solution.card[p]].name] = p;
  generators::Links out;
  for (const auto& cable : cluster.cables) {
    const auto a = place.find(cable.a.card), b = place.find(cable.b.card);
    if (a == place.end() || b == place.end()) continue;
    const generators::Link link{cable.gigabits_per_second * 1e9 / 8, cable.latency_ns * 1e-9};
    out.try_emplace({a->second, b->second}, link);
    out.try_emplace({b->second, a->second}, link);
  }
  return out;
}

}  // namespace

std::vector<kernels::Program> partition_programs(const kernels::Program& program,
                                                 const explore::Solution& solution) {
  std::vector<kernels::Program> programs;
  for (std::size_t i = 0; i < solution.parts.size(); ++i) {
    programs.push_back(kernels::extract(program, solution.parts[i].operations, partition_name(solution, i)));
    // The host computes with the weights that its program holds.
    if (!solution.parts[i].host) continue;
    for (auto& block : programs.back().blocks) block.placement = kernels::Placement::kBaked;
  }
  return programs;
}

std::vector<std::uint32_t> regions_of(const explore::Solution& solution, const explore::Part& part) {
  std::vector<std::uint32_t> regions;
  for (const auto block : part.operations) regions.push_back(solution.region[block]);
  return regions;
}

Result<std::vector<generators::Passage>> passages(const std::vector<kernels::Program>& programs,
                                                  const explore::Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const Designs& designs,
                                                  const std::vector<double>& host_seconds) {
  std::vector<generators::Stage> stages;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& part = solution.parts[i];
    generators::Stage& stage = stages.emplace_back();
    stage.inputs = names(programs[i], programs[i].inputs);
    stage.outputs = names(programs[i], programs[i].outputs);
    if (part.host) {
      stage.host_seconds = host_seconds.empty() ? 0 : host_seconds[i];
      continue;
    }
    stage.design = &designs.at(programs[i].name);
    stage.clock_hz = cluster.device_of(cluster.cards[solution.card[part.place]]).clock_mhz * 1e6;
    stage.card = part.place;
  }
  return generators::play_first_frame(stages, links(solution, cluster));
}

}  // namespace millrace::compiler
