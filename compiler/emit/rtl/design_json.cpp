#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "compiler/emit/rtl/parts.hpp"
#include "compiler/emit/rtl/text.hpp"

namespace millrace::compiler::emit {
namespace {

namespace json = boost::json;
using generators::Design;
using generators::Implementation;
using generators::PortDesign;

/// Appends a value as JSON, indented by two spaces a level. Members keep the order in which they were added.
void print(const json::value& value, std::size_t depth, std::string& out) {
  const std::string line = "\n" + std::string(2 * depth, ' ');
  bool first = true;
  if (const auto* object = value.if_object()) {
    out += '{';
    for (const auto& [key, member] : *object) {
      out += (first ? "" : ",") + line + "  " + json::serialize(json::string(key)) + ": ";
      print(member, depth + 1, out);
      first = false;
    }
    out += (first ? "" : line) + "}";
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (const auto& element : *array) {
      out += (first ? "" : ",") + line + "  ";
      print(element, depth + 1, out);
      first = false;
    }
    out += (first ? "" : line) + "]";
  } else if (const double* number = value.if_double()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", *number);
    out += text;
  } else {
    out += json::serialize(value);
  }
}

json::object cost_json(const generators::Cost& cost) {
  return {{"lut", cost.lut},       {"lutram", cost.lutram}, {"ff", cost.ff},    {"dsp", cost.dsp},
          {"ramb18", cost.ramb18}, {"ramb36", cost.ramb36}, {"uram", cost.uram}};
}

json::object resources_json(json::object to, const runtime::plan::Resources& r) {
  for (const auto& [name, count] :
       {std::pair("lut", r.lut), std::pair("lutram", r.lutram), std::pair("ff", r.ff),
        std::pair("dsp", r.dsp), std::pair("bram36", r.bram36), std::pair("uram", r.uram)})
    to[name] = count;
  return to;
}

json::object stream_json(json::object to, const generators::Stream& stream) {
  to["lanes"] = stream.lanes;
  to["bits"] = stream.bits;
  to["beats"] = stream.beats;
  return to;
}

json::array ports_json(const Design& design, const std::vector<PortDesign>& ports) {
  using Kind = kernels::ElementType::Kind;
  json::array made;
  for (const auto& port : ports) {
    const char* kind = port.type.kind == Kind::kUnsigned  ? "unsigned"
                       : port.type.kind == Kind::kBipolar ? "bipolar"
                                                          : "signed";
    made.push_back(stream_json({{"port", port.name}, {"tensor", port.tensor}, {"kind", kind}},
                               design.netlist.streams[port.stream]));
  }
  return made;
}

json::array fifos_json(const Design& design) {
  constexpr std::size_t kSuffix = 5;  // "_fifo"
  json::array made;
  for (const auto& fifo : design.fifos) {
    const auto& unit = design.netlist.units[fifo.unit];
    const std::string& name = unit.instance.name;
    json::object one = stream_json({{"name", name.substr(0, name.size() - kSuffix)}},
                                   design.netlist.streams[unit.inputs.front()]);
    one["fifo"] = name;
    one["depth"] = fifo.depth;
    one["high_water"] = fifo.high_water;
    made.push_back(std::move(one));
  }
  return made;
}

json::array blocks_json(const Design& design, const kernels::Program& program) {
  json::array made;
  for (std::size_t b = 0; b < design.blocks.size(); ++b) {
    const auto& block = design.blocks[b];
    const auto implementation = block.folding.implementation;
    made.push_back({{"name", block.block},
                    {"operation", operation_name(program.blocks[b].operation)},
                    {"implementation", implementation == Implementation::kUnrolled ? "unrolled"
                                       : implementation == Implementation::kPlugin ? "plugin"
                                                                                   : "folded"},
                    {"folding", to_string(block.folding)},
                    {"interval_cycles", block.interval_cycles},
                    {"multiply_accumulates", block.multiply_accumulates},
                    {"busy_cycles", block.busy_cycles},
                    {"resources", cost_json(block.cost)}});
  }
  return made;
}

json::array instances_json(const Design& design, const std::vector<runtime::plan::Region>& regions) {
  json::array made;
  const auto add = [&](const generators::Instance& instance, const std::string& source, std::int32_t block,
                       std::size_t region) {
    json::object one = {{"name", instance.name}, {"module", instance.module}};
    if (!source.empty()) one["source"] = source;
    one["block"] = block < 0 ? "" : design.blocks[static_cast<std::size_t>(block)].block;
    if (!design.regions.empty() && region < regions.size()) one["region"] = regions[region].name;
    auto& parameters = one["parameters"].emplace_object();
    for (const auto& [key, value] : instance.parameters) parameters[key] = value;
    made.push_back(std::move(one));
  };
  for (std::size_t u = 0; u < design.netlist.units.size(); ++u) {
    const auto& unit = design.netlist.units[u];
    if (unit.wiring == generators::Wiring::kNone)
      add(unit.instance, unit.source, unit.block, design.regions.empty() ? 0 : design.regions[u]);
  }
  for (const auto& reader : design.netlist.readers) {
    std::int32_t block = -1;
    for (const auto& unit : design.netlist.units)
      if (unit.instance.name == reader.unit) block = unit.block;
    add(reader.instance, "", block, 0);
  }
  std::uint64_t rest = generators::load_words(design.netlist);
  for (const auto& table : design.netlist.loads) {
    rest -= table.words();
    add({"mr_load", table.name, generators::load_parameters(table, rest)}, "", -1, 0);
  }
  return made;
}

}  // namespace

std::string design_json(const Design& design, const kernels::Program& program, const RtlOptions& options,
                        const std::vector<std::string>& files, const std::string& digest) {
  json::object made = {{"schema", 1},
                       {"partition", design.partition},
                       {"dataflow", design.partition + "_dataflow"},
                       {"top", design.partition + "_top"},
                       {"device", options.device.name},
                       {"clock_mhz", options.device.clock_mhz},
                       {"family", options.device.family},
                       {"available", resources_json({}, options.available)}};
  const auto& used = design.regions;
  const std::size_t last = used.empty() ? 0 : *std::max_element(used.begin(), used.end());
  json::array regions;
  for (const auto& region : options.device.regions)
    if (regions.size() <= last) regions.push_back(resources_json({{"name", region.name}}, region.resources));
  if (!regions.empty()) made["regions"] = std::move(regions);
  made["digest"] = digest;
  made["files"] = json::value_from(files);
  made["inputs"] = ports_json(design, design.inputs);
  made["outputs"] = ports_json(design, design.outputs);
  if (!design.netlist.loads.empty())
    made["load"] = {{"words", generators::load_words(design.netlist)}, {"hops", design.netlist.loads.size()}};
  if (!design.netlist.readers.empty()) {
    json::array ports;
    for (std::size_t i = 0; i < design.netlist.readers.size(); ++i) ports.emplace_back(weights_port(i));
    made["streamed"] = {{"bytes", streamed_bytes(design.netlist)}, {"ports", ports}};
  }
  made["streams"] = fifos_json(design);
  made["blocks"] = blocks_json(design, program);
  made["instances"] = instances_json(design, options.device.regions);
  json::object predicted = {{"interval_cycles", design.interval_cycles},
                            {"latency_cycles", design.latency_cycles},
                            {"first_output_cycles", design.first_output_cycles}};
  if (options.passage_cycles != 0) predicted["passage_cycles"] = options.passage_cycles;
  predicted["resources"] = cost_json(design.cost);
  made["predicted"] = std::move(predicted);
  std::string text;
  print(made, 0, text);
  return text + "\n";
}

}  // namespace millrace::compiler::emit
