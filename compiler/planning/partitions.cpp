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

}  // namespace millrace::compiler
