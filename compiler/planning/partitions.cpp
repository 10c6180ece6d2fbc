#include "compiler/planning/partitions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/planning/names.hpp"
#include "kernels/program/packing.hpp"

namespace millrace::compiler {
namespace {

using explore::Part;
using explore::Solution;
using kernels::Block;
using kernels::Program;

std::string partition_name(const Solution& solution, std::size_t part) {
  const auto& parts = solution.parts;
  if (parts[part].host)
    return part == 0 ? "input" : part + 1 == parts.size() ? "output" : "host" + std::to_string(part);
  const auto cards = std::count_if(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(part),
                                   [](const auto& p) { return !p.host; });
  return "part" + std::to_string(cards);
}

std::vector<std::string> names(const Program& program, const std::vector<kernels::TensorIndex>& tensors) {
  std::vector<std::string> out;
  for (const auto t : tensors) out.push_back(program.tensors[t].name);
  return out;
}

/// Returns the links between the cards of the solution's pipeline.
generators::Links links(const Solution& solution, const runtime::plan::Cluster& cluster) {
  std::map<std::string, std::uint32_t> place;
  for (std::uint32_t p = 0; p < solution.card.size(); ++p) place[cluster.cards[solution.card[p]].name] = p;
  generators::Links out;
  for (const auto& cable : cluster.cables) {
    const auto a = place.find(cable.a.card), b = place.find(cable.b.card);
    if (a == place.end() || b == place.end()) continue;
    const generators::Link link{cable.aurora_gigabits_per_second() * 1e9 / 8, cable.latency_ns * 1e-9,
                                cable.protocol == runtime::plan::CableProtocol::kMpi};
    out.try_emplace({a->second, b->second}, link);
    out.try_emplace({b->second, a->second}, link);
  }
  return out;
}

/// A block that forwards a tensor through the card at position `place`. `input` and `output` are copies of `tensor`.
struct Relay {
  std::uint32_t tensor, place, input, output;
};

std::string as_file_name(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return out.substr(0, 80);
}

/// Applies the renumbering of blocks (block i gets the index moved[i]) to the solution's parts. Adds the relays (blocks
/// that forward a tensor) in `added` to the parts at these positions. The key of `added` is (stage, position), where
/// the stage says how often the frame has moved between host and cards.
void take_relays(Solution& solution, const std::vector<std::uint32_t>& moved,
                 std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>>& added) {
  for (auto& part : solution.parts) {
    for (auto& block : part.operations) block = moved[block];
    if (part.host) continue;
    if (const auto more = added.extract({part.stage, part.place})) {
      part.operations.insert(part.operations.end(), more.mapped().begin(), more.mapped().end());
      std::sort(part.operations.begin(), part.operations.end());
    }
  }
  // A relay is a block that forwards a tensor through a card. If the solution has no part for the relay's stage and
  // card, the relay becomes a new part.
  for (auto& [at, relays] : added) {
    const auto behind =
        std::find_if(solution.parts.begin(), solution.parts.end(),
                     [&key = at](const Part& other) { return std::pair(other.stage, other.place) > key; });
    solution.parts.insert(behind, Part{false, at.second, at.first, relays});
  }
}

}  // namespace

std::vector<Program> partition_programs(const Program& program, const Solution& solution) {
  std::vector<Program> programs;
  for (std::size_t i = 0; i < solution.parts.size(); ++i) {
    programs.push_back(kernels::extract(program, solution.parts[i].operations, partition_name(solution, i)));
    // Blocks on the host always use the weights that are stored in their program.
    if (!solution.parts[i].host) continue;
    for (auto& block : programs.back().blocks) block.placement = kernels::Placement::kBaked;
  }
  return programs;
}

std::vector<std::uint32_t> regions_of(const Solution& solution, const Part& part) {
  std::vector<std::uint32_t> regions;
  for (const auto block : part.operations) regions.push_back(solution.region[block]);
  return regions;
}

Result<std::vector<generators::Passage>> passages(const std::vector<Program>& programs,
                                                  const Solution& solution,
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

double cable_tail(const runtime::plan::Cable& cable, std::uint64_t frame_bytes) {
  constexpr std::uint64_t kPacket = runtime::plan::kPacketBytes;
  const bool whole = cable.protocol == runtime::plan::CableProtocol::kMpi;  // a message has a whole tensor
  const std::uint64_t last = frame_bytes == 0 ? 0 : (frame_bytes - 1) % kPacket + 1;
  const std::uint64_t wire =
      whole ? runtime::plan::frame_bytes_on_wire(frame_bytes) : runtime::plan::packet_bytes_on_wire(last);
  return static_cast<double>(wire) / (cable.aurora_gigabits_per_second() * 1e9 / 8) + cable.latency_ns * 1e-9;
}

std::vector<double> tails(const std::vector<Program>& programs, const Solution& solution,
                          const runtime::plan::Cluster& cluster, const std::vector<double>& last_outputs,
                          const std::vector<double>& host_seconds) {
  struct Made {
    std::size_t part = 0;
    std::uint64_t bytes = 0;  // of the packed form
  };
  std::map<std::string, Made> made;
  std::vector<double> out(programs.size(), 0), last(programs.size(), 0);
  const auto card = [&](std::size_t p) { return cluster.cards[solution.card[solution.parts[p].place]].name; };
  const auto arrival = [&](const Made& tensor, std::size_t reader) {
    if (solution.parts[tensor.part].host || solution.parts[reader].host) return last[tensor.part];
    for (const auto& cable : cluster.cables)
      if ((cable.a.card == card(tensor.part) && cable.b.card == card(reader)) ||
          (cable.b.card == card(tensor.part) && cable.a.card == card(reader)))
        return last[tensor.part] + cable_tail(cable, tensor.bytes);
    return last[tensor.part];
  };
  for (std::size_t p = 0; p < programs.size(); ++p) {
    double all_arrived = 0;
    for (const auto& name : names(programs[p], programs[p].inputs))
      if (const auto tensor = made.find(name); tensor != made.end())
        all_arrived = std::max(all_arrived, arrival(tensor->second, p));
    last[p] = solution.parts[p].host ? all_arrived + (host_seconds.empty() ? 0 : host_seconds[p])
                                     : std::max(last_outputs[p], all_arrived);
    out[p] = last[p] - all_arrived;
    for (const auto t : programs[p].outputs) {
      const auto& tensor = programs[p].tensors[t];
      made[tensor.name] = {p, kernels::packed_bytes(tensor.type, tensor.elements())};
    }
  }
  return out;
}

void insert_relays(Program& program, Solution& solution) {
  const std::vector<explore::Hop> hops = std::exchange(solution.hops, {});
  std::vector<std::optional<std::uint32_t>> place(program.blocks.size());  // empty for blocks on the host
  std::vector<std::uint32_t> stage(program.blocks.size(), 0);
  for (const auto& part : solution.parts)
    for (const auto block : part.operations) {
      if (!part.host) place[block] = part.place;
      stage[block] = part.stage;
    }
  std::map<std::uint32_t, std::optional<std::uint32_t>> made_at;  // tensor -> position that makes it
  TakenNames taken(program);
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b)
    for (const auto t : program.blocks[b].outputs) made_at[t] = place[b];

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>
      copy;  // (tensor, position) -> the copy that blocks on this card read
  const auto read_at = [&](std::uint32_t tensor, std::uint32_t reader) {
    const auto found = copy.find({tensor, reader});
    return found == copy.end() ? tensor : found->second;
  };
  // A card that forwards a tensor which another card made gets a relay block. Hops (transfers of a tensor over one
  // cable) are in ascending order, so the hops out of a relay are neighbours in this list, and the hops into the relay
  // come before them.
  std::vector<Relay> relays;
  for (const auto& hop : hops) {
    if (made_at.at(hop.tensor) == hop.from) continue;
    if (relays.empty() || relays.back().tensor != hop.tensor || relays.back().place != hop.from) {
      relays.push_back({hop.tensor, hop.from, read_at(hop.tensor, hop.from),
                        static_cast<std::uint32_t>(program.tensors.size())});
      kernels::Tensor tensor = program.tensors[hop.tensor];
      tensor.name = new_name(tensor.name + ".relay" + std::to_string(hop.from), taken.tensors);
      program.tensors.push_back(std::move(tensor));
    }
    copy[{hop.tensor, hop.to}] = relays.back().output;
  }
  if (relays.empty()) return;

  std::vector<Block> before = std::exchange(program.blocks, {});
  std::vector<std::uint32_t> moved(before.size());  // old index -> new index
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> added;  // (stage, position)
  const auto implementations = std::exchange(solution.implementation, {});
  const auto regions = std::exchange(solution.region, {});
  const auto add = [&](Block block, std::uint32_t implementation, std::uint32_t region) {
    program.blocks.push_back(std::move(block));
    solution.implementation.push_back(implementation);
    solution.region.push_back(region);
    return static_cast<std::uint32_t>(program.blocks.size() - 1);
  };
  for (std::uint32_t b = 0; b < before.size(); ++b) {
    Block block = std::move(before[b]);
    const auto outputs = block.outputs;
    if (place[b])
      for (auto& t : block.inputs) t = read_at(t, *place[b]);
    moved[b] = add(std::move(block), implementations[b], regions[b]);
    for (const auto& relay : relays) {
      if (std::find(outputs.begin(), outputs.end(), relay.tensor) == outputs.end()) continue;
      const auto& tensor = program.tensors[relay.tensor];
      Block pass;
      pass.name =
          new_name("relay_" + as_file_name(tensor.name) + "_" + std::to_string(relay.place), taken.blocks);
      pass.inputs = {relay.input};
      pass.outputs = {relay.output};
      pass.operation = kernels::Rearrange{};
      added[{stage[b], relay.place}].push_back(add(std::move(pass), 0, 0));
    }
  }
  take_relays(solution, moved, added);
}

}  // namespace millrace::compiler
