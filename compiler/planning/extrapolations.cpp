#include <algorithm>
#include <set>

#include "compiler/generators/design.hpp"
#include "compiler/generators/shell.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;

class Collector {
 public:
  Collector(const gen::Catalog& catalog, const Predicted& plan) : catalog_(catalog), plan_(plan) {}

  Result<std::vector<gen::Extrapolation>> run() {
    const auto& programs = plan_.placed.programs;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      const auto& part = plan_.placed.solution.parts[p];
      if (part.host) continue;
      if (const auto design = plan_.placed.designs.find(programs[p].name);
          design != plan_.placed.designs.end())
        add(design->second.netlist);
      else
        MILLRACE_TRY(add_blocks(part, plan_.placed.foldings[p]));
    }
    read_on_host_.insert(plan_.program().outputs.begin(), plan_.program().outputs.end());
    for (std::uint32_t b = 0; b < plan_.program().blocks.size(); ++b) {
      const auto& block = plan_.program().blocks[b];
      if (plan_.problem().operations[b].host)
        read_on_host_.insert(block.inputs.begin(), block.inputs.end());
      else
        made_on_card_.insert(block.outputs.begin(), block.outputs.end());
    }
    for (std::uint32_t b = 0; b < plan_.program().blocks.size(); ++b)
      if (!plan_.problem().operations[b].host) add_ports(b);
    return std::vector(found_.begin(), found_.end());
  }

 private:
  void add(const std::string& module, const gen::Parameters& parameters) {
    for (auto& one : gen::extrapolations(catalog_, module, parameters)) found_.insert(std::move(one));
  }

  void add(const gen::Netlist& netlist) {
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

  Status add_blocks(const explore::Part& part, const std::vector<gen::Folding>& foldings) {
    for (std::size_t i = 0; i < foldings.size(); ++i) {
      MILLRACE_ASSIGN(const auto generator, gen::Generator::make(plan_.placed.program, part.operations[i],
                                                                 plan_.lowered->candidates.plugin.get()));
      MILLRACE_ASSIGN(const auto netlist, generator->build(foldings[i], false));
      add(netlist);
    }
    return {};
  }

  /// Of a block that was explored, with the lanes it was chosen with.
  void add_ports(std::uint32_t b) {
    const auto& block = plan_.program().blocks[b];
    const auto& way = plan_.problem().operations[b].implementations[plan_.solution.implementation[b]];
    const auto& candidate = plan_.lowered->candidates.of_block[b][way.candidate];
    const auto add_port = [&](bool input, std::uint32_t lanes, std::uint32_t tensor) {
      const auto unit = gen::host_port({input, false, lanes, 1, plan_.program().tensors[tensor].type});
      add(unit.module, unit.parameters);
    };
    for (std::size_t i = 0; i < block.inputs.size(); ++i)
      if (!made_on_card_.contains(block.inputs[i])) add_port(true, candidate.input_lanes[i], block.inputs[i]);
    for (const auto tensor : block.outputs)
      if (read_on_host_.contains(tensor)) add_port(false, candidate.output_lanes, tensor);
  }

  const gen::Catalog& catalog_;
  const Predicted& plan_;
  std::set<std::uint32_t> made_on_card_, read_on_host_;  // tensors
  std::set<gen::Extrapolation> found_;
};

}  // namespace

Result<std::vector<gen::Extrapolation>> extrapolations(const gen::Catalog& catalog, const Predicted& plan) {
  return Collector(catalog, plan).run();
}

}  // namespace millrace::compiler
