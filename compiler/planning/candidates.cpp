#include "compiler/planning/candidates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/planning/lower.hpp"
#include "compiler/planning/weights.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

constexpr std::uint64_t kFifoDepth = 32;  // in words; the assumed depth of a FIFO that was not sized yet

/// A cache of the cost of the FIFO and the adapter before a block. The key is (lanes, bits) of the block's input.
using Interconnect = std::map<std::pair<std::uint32_t, std::uint32_t>, gen::Cost>;

Result<gen::Cost> interconnect(const gen::Catalog& catalog, std::uint32_t lanes, std::uint32_t bits,
                               Interconnect& known) {
  const auto at = known.find({lanes, bits});
  if (at != known.end()) return at->second;
  // The number of lanes of the preceding block is not known yet. Assume half as many lanes as this block reads.
  MILLRACE_ASSIGN(const gen::Cost cost,
                  gen::edge_cost(catalog, lanes % 2 == 0 ? lanes / 2 : lanes, lanes, bits, kFifoDepth));
  known.emplace(std::pair(lanes, bits), cost);
  return cost;
}

Result<explore::Implementation> weigh(const gen::Catalog& catalog, const kernels::Program& program,
                                      const kernels::Block& block, const gen::Candidate& candidate,
                                      const HostPorts& ports, Interconnect& known) {
  explore::Implementation way;
  way.name = gen::to_string(candidate.folding);
  if (candidate.folding.weights != gen::Placement::kBaked)
    way.name += candidate.memory_bytes > 0 ? ", weights streamed" : ", constants loaded";
  way.interval_cycles = std::max<std::uint64_t>(1, candidate.interval_cycles);
  way.fill_cycles = static_cast<std::uint64_t>(std::clamp(candidate.lead, 0.0, 1.0) *
                                               static_cast<double>(way.interval_cycles));
  way.depth_cycles = candidate.depth_cycles;
  gen::Cost cost = candidate.cost;
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    MILLRACE_ASSIGN(const gen::Cost before, interconnect(catalog, candidate.input_lanes[i],
                                                         program.tensors[block.inputs[i]].type.bits, known));
    cost += before;
  }
  way.amounts = amounts_of(cost);
  MILLRACE_ASSIGN(const explore::Amounts host, ports.least(catalog, block.name, candidate));
  way.amounts += host;
  way.amounts[explore::kMemoryBytes] = candidate.memory_bytes;
  return way;
}

auto sortable(const gen::Folding& f) {
  return std::tuple(f.pe, f.simd, f.pixels, f.window_lanes, f.window, f.multiplier, f.implementation,
                    f.weights, f.memory, f.variant);
}

/// Drops intervals that are less than 2 % longer than the kept interval before them, to speed up the search. Keeps the
/// shortest and the longest.
std::vector<std::uint64_t> spaced(const std::vector<std::uint64_t>& all) {
  constexpr double kStep = 1.02;
  std::vector<std::uint64_t> out;
  double next = 0;
  for (const auto interval : all) {
    if (static_cast<double>(interval) < next) continue;
    out.push_back(interval);
    next = static_cast<double>(interval) * kStep;
  }
  if (!all.empty() && out.back() != all.back()) out.push_back(all.back());
  return out;
}

/// Adds the candidates of block i. `program` and `block` describe the block with its weights in the wanted memory.
Status add_block(const Task& task, Lowered& lowered, std::uint32_t i, const kernels::Program& program,
                 const kernels::Block& block, const gen::Generator& generator) {
  auto& ways = lowered.problem.operations[i].implementations;
  auto& candidates = lowered.candidates.of_block[i];
  std::set<decltype(sortable({}))> seen;
  Interconnect known;
  const auto is_unrolled = [](const gen::Folding& folding) {
    return folding.implementation == gen::Implementation::kUnrolled;
  };
  for (const auto interval : spaced(generator.intervals()))
    for (const auto& folding : generator.foldings(interval)) {
      // If quantisation is only assumed (--assume), the integer weights are not known and cannot become a circuit of
      // constants.
      if (is_unrolled(folding) && !task.options.assume.empty()) continue;
      if (!seen.insert(sortable(folding)).second) continue;
      auto candidate = generator.candidate(task.catalog, folding);
      // A folding (a degree of parallelism) can be fast enough but impossible, because a hardware unit may support
      // fewer lanes.
      if (!candidate.ok() && candidate.error().code() == ErrorCode::kInvalidInput) continue;
      if (!candidate.ok()) return candidate.error();
      MILLRACE_ASSIGN(explore::Implementation way,
                      weigh(task.catalog, program, block, *candidate, lowered.candidates.ports, known));
      way.candidate = static_cast<std::uint32_t>(candidates.size());
      candidates.push_back(std::move(*candidate));
      // A circuit of constants may be dropped later, so it never replaces a candidate with other hardware.
      const auto comparable = [&](const explore::Implementation& other) {
        return is_unrolled(candidates[other.candidate].folding) == is_unrolled(folding);
      };
      if (std::any_of(ways.begin(), ways.end(),
                      [&](const auto& other) { return comparable(other) && as_good(other, way); }))
        continue;
      std::erase_if(ways, [&](const auto& other) { return comparable(other) && as_good(way, other); });
      ways.push_back(std::move(way));
    }
  return {};
}

/// Adds implementations of the block with its weights in the card's memory, if hardware exists that reads them.
Status add_streamed(const Task& task, Lowered& lowered, std::uint32_t i) {
  const auto& baked = lowered.program.blocks[i];
  if (baked.placement != kernels::Placement::kBaked || !gen::can_stream(baked)) return {};
  const auto placed = placed_alone(lowered.program, i, kernels::Placement::kStreamed);
  if (!placed.ok() && placed.error().code() == ErrorCode::kUnsupported) return {};  // the sums are too wide
  if (!placed.ok()) return placed.error();
  MILLRACE_ASSIGN(const auto generator, gen::Generator::make(*placed, 0));
  return add_block(task, lowered, i, *placed, placed->blocks[0], *generator);
}

/// Drops the candidates (possible hardware of a block) that no remaining implementation refers to.
void drop_unused(explore::Operation& operation, std::vector<gen::Candidate>& candidates) {
  std::vector<gen::Candidate> kept;
  kept.reserve(operation.implementations.size());
  for (auto& way : operation.implementations) {
    kept.push_back(std::move(candidates[way.candidate]));
    way.candidate = static_cast<std::uint32_t>(kept.size() - 1);
  }
  candidates = std::move(kept);
  operation.implementations.shrink_to_fit();
}

/// Sets the block's candidates. If no generator has any, returns the reason; otherwise an empty text.
Result<std::string> add_hardware(const Task& task, Lowered& lowered, std::uint32_t i) {
  const auto& block = lowered.program.blocks[i];
  const auto generator = gen::Generator::make(lowered.program, i, task.plugins.get());
  if (!generator.ok() && generator.error().code() == ErrorCode::kUnsupported)
    return generator.error().message();
  if (!generator.ok()) return generator.error();
  if (!lowered.changes.hardware) return std::string();
  MILLRACE_TRY(add_block(task, lowered, i, lowered.program, block, **generator));
  if (lowered.changes.streamed) MILLRACE_TRY(add_streamed(task, lowered, i));
  drop_unused(lowered.problem.operations[i], lowered.candidates.of_block[i]);
  return lowered.candidates.of_block[i].empty() ? "block '" + block.name + "' has no folding" : std::string();
}

/// Returns the implementation of a block without hardware, which runs on an emulated card.
explore::Implementation emulated(const Task& task, const Lowered& lowered, const kernels::Block& block) {
  double clock_hz = 0;
  for (const auto& card : lowered.problem.cards) clock_hz = std::max(clock_hz, card.clock_hz);
  const double cycles = gen::host_seconds(task.catalog, lowered.program, block) * clock_hz;
  explore::Implementation way;
  way.name = "emulated";
  way.interval_cycles = 1 + static_cast<std::uint64_t>(cycles);
  way.fill_cycles = way.interval_cycles;  // an emulated block needs its whole input before it begins
  return way;
}

}  // namespace

Result<kernels::Program> placed_alone(const kernels::Program& program, std::uint32_t block,
                                      kernels::Placement placement) {
  kernels::Program alone = kernels::extract(program, {block}, program.blocks[block].name);
  MILLRACE_TRY(place_parameters(alone, 0, placement));
  if (const std::string wrong = kernels::validate(alone); !wrong.empty())
    return Error(ErrorCode::kUnsupported, "block '" + program.blocks[block].name +
                                              "': its weights cannot be " + kernels::to_string(placement) +
                                              ": " + wrong);
  return alone;
}

Result<explore::Implementation> implementation(const gen::Catalog& catalog, const kernels::Program& program,
                                               const kernels::Block& block, const gen::Candidate& candidate,
                                               const HostPorts& ports) {
  Interconnect known;
  return weigh(catalog, program, block, candidate, ports, known);
}

std::vector<std::string> blocks_of(const std::vector<NoHardware>& without) {
  std::vector<std::string> names;
  for (const auto& one : without) names.push_back(one.block);
  return names;
}

Status add_candidates(const Task& task, Lowered& lowered) {
  lowered.candidates.of_block.resize(lowered.program.blocks.size());
  for (std::uint32_t i = 0; i < lowered.program.blocks.size(); ++i) {
    auto& operation = lowered.problem.operations[i];
    if (operation.host) continue;
    MILLRACE_ASSIGN(const std::string reason, add_hardware(task, lowered, i));
    if (!reason.empty()) lowered.candidates.without.push_back({operation.name, reason});
    if (operation.implementations.empty())
      operation.implementations = {emulated(task, lowered, lowered.program.blocks[i])};
  }
  return {};
}

}  // namespace millrace::compiler
