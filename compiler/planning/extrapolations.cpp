#include <algorithm>
#include <set>

#include "compiler/generators/design.hpp"
#include "compiler/generators/shell.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

namespace gen = generators;

std::vector<gen::Extrapolation> extrapolations(const gen::Catalog& catalog, const Predicted& plan) {
  std::set<gen::Extrapolation> found;
  const auto add = [&](const std::string& module, const gen::Parameters& parameters) {
    for (auto& one : gen::extrapolations(catalog, module, parameters)) found.insert(std::move(one));
  };
  for (const auto& [name, design] : plan.placed.designs) {
    const gen::Netlist& netlist = design.netlist;
    for (const auto& reader : netlist.readers) add(reader.instance.module, reader.instance.parameters);
    for (const auto& unit : netlist.units)
      if (unit.wiring == gen::Wiring::kNone) add(unit.instance.module, unit.instance.parameters);
    std::uint64_t rest = gen::load_words(netlist);
    for (const auto& table : netlist.loads) {
      rest -= table.words();
      add("mr_load", gen::load_parameters(table, rest));
    }
    if (!netlist.loads.empty()) add("mr_parameters", gen::loader_parameters(netlist));
  }
  // Ports to the host, with the lanes that their blocks were chosen with.
  const auto& program = plan.program();
  const auto& operations = plan.problem().operations;
  std::set<std::uint32_t> made_on_card, read_on_host(program.outputs.begin(), program.outputs.end());
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    const auto& block = program.blocks[b];
    if (operations[b].host)
      read_on_host.insert(block.inputs.begin(), block.inputs.end());
    else
      made_on_card.insert(block.outputs.begin(), block.outputs.end());
  }
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (operations[b].host) continue;
    const auto& block = program.blocks[b];
    const auto& way = operations[b].implementations[plan.solution.implementation[b]];
    const auto& candidate = plan.lowered->candidates.of_block[b][way.candidate];
    const auto add_port = [&](bool input, std::uint32_t lanes, std::uint32_t tensor) {
      const auto unit = gen::host_port({input, false, lanes, 1, program.tensors[tensor].type});
      add(unit.module, unit.parameters);
    };
    for (std::size_t i = 0; i < block.inputs.size(); ++i)
      if (!made_on_card.contains(block.inputs[i])) add_port(true, candidate.input_lanes[i], block.inputs[i]);
    for (const auto tensor : block.outputs)
      if (read_on_host.contains(tensor)) add_port(false, candidate.output_lanes, tensor);
  }
  return std::vector(found.begin(), found.end());
}

}  // namespace millrace::compiler
