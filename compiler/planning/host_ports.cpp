#include "compiler/planning/host_ports.hpp"

#include <algorithm>

#include "compiler/generators/shell.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
using explore::operator+=;

gen::ShellPort port_of(const gen::Design& design, const gen::PortDesign& port, bool input, bool link) {
  const auto& stream = design.netlist.streams[port.stream];
  gen::ShellPort out{input, link, stream.lanes, stream.beats, port.type};
  out.type.bits = static_cast<std::uint8_t>(stream.bits);
  return out;
}

bool has(const kernels::Program& program, const std::vector<kernels::TensorIndex>& tensors,
         const std::string& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](auto t) { return program.tensors[t].name == name; });
}

}  // namespace

explore::Amounts amounts_of(const gen::Cost& cost) {
  return {cost.lut, cost.lutram, cost.ff, cost.dsp, cost.ramb18 + 2 * cost.ramb36, cost.uram, 0};
}

explore::Amounts own_shell(const runtime::plan::Device& device) {
  return explore::less(explore::amounts(device.shell), explore::amounts(device.shell_of_platform));
}

Result<HostPorts> HostPorts::make(const gen::Catalog& catalog, const kernels::Program& program,
                                  const explore::Problem& problem, const runtime::plan::Cluster& cluster) {
  HostPorts out;
  for (const auto& card : cluster.cards) {
    const auto& device = cluster.device_of(card);
    MILLRACE_ASSIGN(const gen::Cost always, gen::shell_cost(catalog, {}, device.clock_mhz, 0));
    const auto room = explore::less(own_shell(device), amounts_of(always));
    for (std::size_t k = 0; k < explore::kKinds; ++k) out.room_[k] = std::max(out.room_[k], room[k]);
  }
  const auto on_host = [&](std::uint32_t block) { return problem.operations[block].host; };
  std::vector<std::vector<std::uint32_t>> readers(program.tensors.size());
  std::vector<bool> from_card(program.tensors.size(), false);
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    for (const auto t : program.blocks[b].inputs) readers[t].push_back(b);
    for (const auto t : program.blocks[b].outputs) from_card[t] = !on_host(b);
  }
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (on_host(b)) continue;
    const auto& block = program.blocks[b];
    Ends ends;
    for (std::size_t i = 0; i < block.inputs.size(); ++i) {
      const auto t = block.inputs[i];
      // Count a tensor's port to the host only if exactly one block on a card reads the tensor. If several blocks read
      // it, the port may be on another card, or as wide as another block needs.
      const auto cards = std::count_if(readers[t].begin(), readers[t].end(),
                                       [&](const auto reader) { return !on_host(reader); });
      if (!from_card[t] && cards == 1) ends.inputs.emplace_back(i, program.tensors[t].type);
    }
    for (std::size_t i = 0; i < block.outputs.size(); ++i) {
      const auto t = block.outputs[i];
      const bool leaves =
          std::find(program.outputs.begin(), program.outputs.end(), t) != program.outputs.end();
      if (leaves || std::any_of(readers[t].begin(), readers[t].end(), on_host))
        ends.outputs.emplace_back(i, program.tensors[t].type);
    }
    if (!ends.inputs.empty() || !ends.outputs.empty()) out.ends_[block.name] = std::move(ends);
  }
  return out;
}

Result<explore::Amounts> HostPorts::least(const gen::Catalog& catalog, const std::string& block,
                                          const gen::Candidate& candidate) const {
  explore::Amounts sum{};
  const auto found = ends_.find(block);
  if (found == ends_.end()) return sum;
  // Sum up by how much each port alone exceeds the reserved room. All ports together exceed it by at least this sum.
  const auto charge = [&](const gen::ShellPort& port) -> Status {
    MILLRACE_ASSIGN(const gen::Cost one, gen::host_port_cost(catalog, port));
    sum += explore::less(amounts_of(one), room_);
    return {};
  };
  for (const auto& [input, type] : found->second.inputs)
    MILLRACE_TRY(charge({true, false, candidate.input_lanes[input], 1, type}));
  for (const auto& [output, type] : found->second.outputs)
    MILLRACE_TRY(charge({false, false, candidate.output_lanes[output], 1, type}));
  return sum;
}

Result<gen::Cost> shell_of(const gen::Catalog& catalog, const std::vector<kernels::Program>& programs,
                           const explore::Solution& solution, std::size_t part, const gen::Design& design,
                           const runtime::plan::Device& device, const runtime::plan::Cluster& cluster) {
  // Whether tensors go from one part of the solution to the other part through the memory of a host.
  const auto through_host = [&](std::size_t other) {
    if (solution.parts[other].host) return true;
    const auto name = [&](std::size_t p) {
      return cluster.cards[solution.card[solution.parts[p].place]].name;
    };
    return std::any_of(cluster.cables.begin(), cluster.cables.end(), [&](const auto& cable) {
      return cable.protocol == runtime::plan::CableProtocol::kMpi &&
             std::minmax(cable.a.card, cable.b.card) == std::minmax(name(part), name(other));
    });
  };
  // A tensor leaves the card through one port for each partition that reads the tensor. A tensor without readers is an
  // output of the model.
  std::vector<gen::ShellPort> ports;
  const auto count = [&](const std::string& tensor, bool as_output, bool host) {
    std::ptrdiff_t parts = 0;
    for (std::size_t p = 0; p < programs.size(); ++p)
      if (p != part && through_host(p) == host)
        parts += has(programs[p], as_output ? programs[p].outputs : programs[p].inputs, tensor) ? 1 : 0;
    return parts;
  };
  for (const auto& port : design.inputs)
    ports.push_back(port_of(design, port, true, count(port.tensor, true, false) > 0));
  for (const auto& port : design.outputs) {
    const auto cards = count(port.tensor, false, false), hosts = count(port.tensor, false, true);
    ports.insert(ports.end(), static_cast<std::size_t>(cards), port_of(design, port, false, true));
    ports.insert(ports.end(), static_cast<std::size_t>(cards + hosts == 0 ? 1 : hosts),
                 port_of(design, port, false, false));
  }
  if (device.link != runtime::plan::Resources{})
    ports.erase(std::remove_if(ports.begin(), ports.end(), [](const auto& port) { return port.link; }),
                ports.end());
  return gen::shell_cost(catalog, ports, device.clock_mhz, device.connectors);
}

}  // namespace millrace::compiler
