#include "compiler/planning/candidates.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/planning/weights.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

constexpr std::uint64_t kFifoDepth = 32;  // beats; the assumed depth of a FIFO that was not sized yet

/// The cost of what joins a block to the one before it, by lanes and bits of its input.
using Interconnect = std::map<std::pair<std::uint32_t, std::uint32_t>, gen::Cost>;

Result<gen::Cost> interconnect(const gen::Catalog& catalog, std::uint32_t lanes, std::uint32_t bits,
                               Interconnect& known) {
  const auto at = known.find({lanes, bits});
  if (at != known.end()) return at->second;
  // The lanes of the block before are not known yet: half of this block's lanes are assumed for any other number.
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

/// The intervals that are far enough apart, the shortest and the longest included.
std::vector<std::uint64_t> spaced(const std::vector<std::uint64_t>& all, const CandidateOptions& options) {
  std::vector<std::uint64_t> out;
  double next = 0;
  for (const auto interval : all) {
    if (static_cast<double>(interval) < next) continue;
    out.push_back(interval);
    next = static_cast<double>(interval) * options.step;
  }
  if (!all.empty() && out.back() != all.back()) out.push_back(all.back());
  return out;
}

Status add_block(const gen::Catalog& catalog, const kernels::Program& program, std::uint32_t block,
                 const gen::Generator& generator, const CandidateOptions& options,
                 explore::Operation& operation, std::vector<gen::Candidate>& candidates) {
  std::set<decltype(sortable({}))> seen;
  Interconnect known;
  for (const auto interval : spaced(generator.intervals(), options))
    for (const auto& folding : generator.foldings(interval)) {
      if (!options.unrolled && folding.implementation == gen::Implementation::kUnrolled) continue;
      if (!seen.insert(sortable(folding)).second) continue;
      auto asked = generator.candidate(catalog, folding);
      // A folding can be quick enough and still impossible, because a unit takes fewer lanes.
      if (!asked.ok() && asked.error().code() == ErrorCode::kInvalidInput) continue;
      if (!asked.ok()) return asked.error();
      gen::Candidate candidate = std::move(*asked);
      MILLRACE_ASSIGN(explore::Implementation way,
                      weigh(catalog, program, program.blocks[block], candidate, options.ports, known));
      way.candidate = static_cast<std::uint32_t>(candidates.size());
      candidates.push_back(std::move(candidate));
      auto& ways = operation.implementations;
      // A circuit made of constants never replaces another candidate, because it may be left out later.
      const auto comparable = [&](const explore::Implementation& other) {
        const auto unrolled = gen::Implementation::kUnrolled;
        return (candidates[other.candidate].folding.implementation == unrolled) ==
               (candidates[way.candidate].folding.implementation == unrolled);
      };
      if (std::any_of(ways.begin(), ways.end(),
                      [&](const auto& other) { return comparable(other) && as_good(other, way); }))
        continue;
      ways.erase(std::remove_if(ways.begin(), ways.end(),
                                [&](const auto& other) { return comparable(other) && as_good(way, other); }),
                 ways.end());
      ways.push_back(std::move(way));
    }
  return {};
}

/// Adds ways to build the block with its weights in memory, if there is hardware that reads them.
Status add_streamed(const gen::Catalog& catalog, const kernels::Program& program, std::uint32_t block,
                    const CandidateOptions& options, explore::Operation& operation,
                    std::vector<gen::Candidate>& candidates) {
  const auto& baked = program.blocks[block];
  if (baked.placement != kernels::Placement::kBaked || !gen::can_stream(baked)) return {};
  const auto placed = placed_alone(program, block, kernels::Placement::kStreamed);
  if (!placed.ok() && placed.error().code() == ErrorCode::kUnsupported) return {};  // sums too wide
  if (!placed.ok()) return placed.error();
  MILLRACE_ASSIGN(const auto generator, gen::Generator::make(*placed, 0));
  return add_block(catalog, *placed, 0, *generator, options, operation, candidates);
}

/// Drops the candidates that no remaining implementation refers to.
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

/// Fills the block's candidates. If no generator has any, gives the reason.
Result<std::string> add_hardware(const gen::Catalog& catalog, const kernels::Program& program,
                                 std::uint32_t block, const CandidateOptions& options,
                                 explore::Operation& operation, std::vector<gen::Candidate>& candidates) {
  const auto generator = gen::Generator::make(program, block, options.plugin.get());
  if (!generator.ok() && generator.error().code() == ErrorCode::kUnsupported)
    return generator.error().message();
  if (!generator.ok()) return generator.error();
  if (!options.hardware) return std::string();
  MILLRACE_TRY(add_block(catalog, program, block, **generator, options, operation, candidates));
  if (options.streamed) MILLRACE_TRY(add_streamed(catalog, program, block, options, operation, candidates));
  drop_unused(operation, candidates);
  return operation.implementations.empty() ? "block '" + program.blocks[block].name + "' has no folding"
                                           : std::string();
}

/// A block without hardware, on an emulated card.
explore::Implementation emulated(const gen::Catalog& catalog, const kernels::Program& program,
                                 const kernels::Block& block, const explore::Problem& problem) {
  double clock_hz = 0;
  for (const auto& card : problem.cards) clock_hz = std::max(clock_hz, card.clock_hz);
  explore::Implementation way;
  way.name = "emulated";
  way.interval_cycles = 1 + static_cast<std::uint64_t>(gen::host_seconds(catalog, program, block) * clock_hz);
  way.fill_cycles = way.interval_cycles;  // it begins once it has the whole input
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

Result<Candidates> add_candidates(const gen::Catalog& catalog, const kernels::Program& program,
                                  CandidateOptions options, explore::Problem& problem) {
  Candidates out;
  out.of_block.resize(program.blocks.size());
  for (std::uint32_t i = 0; i < program.blocks.size(); ++i) {
    auto& operation = problem.operations[i];
    operation.implementations.clear();
    if (operation.host) continue;
    MILLRACE_ASSIGN(const std::string reason,
                    add_hardware(catalog, program, i, options, operation, out.of_block[i]));
    if (!reason.empty()) out.without.push_back({program.blocks[i].name, reason});
    if (operation.implementations.empty())
      operation.implementations = {emulated(catalog, program, program.blocks[i], problem)};
  }
  out.ports = std::move(options.ports);
  out.plugin = std::move(options.plugin);
  return out;
}

}  // namespace millrace::compiler
