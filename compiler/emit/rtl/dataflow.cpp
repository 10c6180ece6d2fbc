#include <boost/json.hpp>
#include <map>
#include <set>

#include "compiler/emit/rtl/parts.hpp"
#include "compiler/emit/rtl/text.hpp"
#include "compiler/generators/module.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::emit {
namespace {

namespace json = boost::json;
using generators::Design;
using generators::Netlist;
using generators::Stream;
using generators::StreamIndex;
using generators::Unit;
using generators::Wiring;

std::string shape(const kernels::Tensor& tensor) {
  std::string text;
  for (const auto n : tensor.shape) text += (text.empty() ? "" : "x") + number(n);
  return text;
}

class Dataflow {
 public:
  Dataflow(const Design& design, const kernels::Program& program, const RtlOptions& options)
      : design_(design), netlist_(design.netlist), program_(program), options_(options) {
    ports_.insert(netlist_.inputs.begin(), netlist_.inputs.end());
    ports_.insert(netlist_.outputs.begin(), netlist_.outputs.end());
  }

  std::string text() {
    const std::uint64_t words = generators::load_words(netlist_);
    json::object values = {{"partition", design_.partition},
                           {"device", clocked(options_.device)},
                           {"generator", options_.generator},
                           {"interval", design_.interval_cycles},
                           {"latency", design_.latency_cycles},
                           {"words", words},
                           {"loads", loads(words)},
                           {"streamed", streamed_bytes(netlist_)}};
    add_ports(values);
    add_readers(values);
    json::array units;
    std::int32_t block = -2;
    for (const auto& unit : netlist_.units) {
      units.push_back(values_of(unit, unit.block != block));
      block = unit.block;
    }
    values["units"] = std::move(units);
    values["unused"] = json::value_from(unused_);
    values["any_unused"] = !unused_.empty();
    return fill(text_of("dataflow"), values);
  }

 private:
  const Stream& stream(StreamIndex s) const { return netlist_.streams[s]; }

  void add_ports(json::object& values) const {
    json::array all;
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports) {
        const Stream& s = stream(port.stream);
        all.push_back({{"port", port.name},
                       {"input", ports == &design_.inputs},
                       {"type", to_string(port.type)},
                       {"lanes", s.lanes},
                       {"beats", s.beats},
                       {"width", s.width()},
                       {"tensor", printable(port.tensor)}});
      }
    values["ports"] = std::move(all);
    std::vector<std::string> blocks;
    for (const auto& block : program_.blocks) blocks.push_back(block.name);
    values["blocks"] = joined(blocks, ", ");
  }

  /// Returns the chain of mr_load units, through which all words of the loaded constants pass.
  json::array loads(std::uint64_t words) {
    json::array made;
    std::string from = "load";
    for (const auto& table : netlist_.loads) {
      for (const auto& unit : table.units) table_of_[unit] = &table;
      words -= table.words();
      made.push_back({{"name", table.name},
                      {"bits", table.bits},
                      {"lines", table.lines},
                      {"rest", words},
                      {"from", from}});
      from = table.name + "_pass";
    }
    if (!made.empty()) unused_ = {from + "_valid", from + "_data"};
    return made;
  }

  /// Adds the readers of streamed weights. Each reader has its own memory port.
  void add_readers(json::object& values) {
    json::array made;
    std::vector<std::string> names;
    std::string ports;
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < netlist_.readers.size(); ++i) {
      const auto& instance = netlist_.readers[i].instance;
      const auto p = [&](const char* key) {
        return static_cast<std::uint64_t>(generators::parameter(instance, key, 1));
      };
      const std::string bus = weights_port(i) + "_axi";
      made.push_back({{"name", instance.name},
                      {"bytes", p("DATA_BYTES")},
                      {"burst", p("BURST")},
                      {"width", p("WIDTH")},
                      {"lines", p("LINES")},
                      {"offset", offset},
                      {"bus", bus_connections("axi", bus, kAxiRead)}});
      ports += bus_ports(bus, kAxiRead);
      names.push_back(instance.name);
      reader_of_[netlist_.readers[i].unit] = instance.name;
      offset += generators::weight_pass(p("WIDTH"), p("LINES"));
    }
    values["readers"] = std::move(made);
    values["reader_ports"] = ports;
    values["quiet"] = joined(names, " && ", "_quiet");
    values["error"] = joined(names, " || ", "_error");
  }

  /// Returns the comment that the SystemVerilog has above the units of a block.
  std::string comment(std::int32_t index) const {
    if (index < 0) return "Between blocks.";
    const auto& block = program_.blocks[static_cast<std::size_t>(index)];
    const auto& design = design_.blocks[static_cast<std::size_t>(index)];
    std::string text = block.name + ": " + operation_name(block.operation) + ", ";
    for (const auto t : block.inputs) text += shape(program_.tensors[t]) + " ";
    text += "->";
    for (const auto t : block.outputs) text += " " + shape(program_.tensors[t]);
    return text + "; " + to_string(design.folding) + "; busy for " + number(design.interval_cycles) + " of " +
           number(design_.interval_cycles) + " cycles.";
  }

  json::object values_of(const Unit& unit, bool begins_block) {
    json::object made = {{"unit", unit.instance.name}, {"wiring", unit.wiring != Wiring::kNone}};
    made["comment"] = begins_block ? comment(unit.block) : std::string();
    auto& wires = made["wires"].emplace_array();
    for (const auto s : unit.outputs)
      if (!ports_.contains(s)) wires.push_back({{"wire", stream(s).name}, {"width", stream(s).width()}});
    if (unit.wiring == Wiring::kNone)
      add_instance(unit, made);
    else
      add_wiring(unit, made);
    return made;
  }

  static std::string connection(const std::string& port, const std::string& name) {
    return fill(".%port%_valid(%name%_valid), .%port%_ready(%name%_ready), .%port%_data(%name%_data)",
                {{"port", port}, {"name", name}});
  }

  std::string bundle(const std::string& port, const std::vector<StreamIndex>& streams) const {
    std::vector<std::string> names;
    for (const StreamIndex s : streams) names.push_back(stream(s).name);
    return "." + port + "_valid(" + concatenation(names, "_valid") + "), ." + port + "_ready(" +
           concatenation(names, "_ready") + "), ." + port + "_data(" + concatenation(names, "_data") + ")";
  }

  void add_instance(const Unit& unit, json::object& made) {
    const auto& module = *generators::find_module(unit.instance.module);
    const std::string& name = unit.instance.name;
    std::vector<std::string> ports;
    if (module.bundles_inputs) {
      ports.push_back(bundle("s", unit.inputs));
    } else if (const auto reader = reader_of_.find(name); reader != reader_of_.end()) {
      ports.push_back(connection("s0", stream(unit.inputs.front()).name));
      ports.push_back(connection("s1", reader->second));
    } else {
      for (std::size_t i = 0; i < unit.inputs.size(); ++i)
        ports.push_back(
            connection(unit.inputs.size() > 1 ? "s" + number(i) : "s", stream(unit.inputs[i]).name));
    }
    if (module.bundles_outputs) ports.push_back(bundle("m", unit.outputs));
    for (std::size_t i = 0; !module.bundles_outputs && i < unit.outputs.size(); ++i)
      ports.push_back(
          connection(unit.outputs.size() > 1 ? "m" + number(i) : "m", stream(unit.outputs[i]).name));
    if (module.load_bits != nullptr) {
      const std::string ready = name + "_load_ready";
      made["load_ready"] = ready;
      unused_.push_back(ready);
      const auto table = table_of_.find(name);
      const bool loaded = table != table_of_.end();
      ports.push_back(".l_valid(" + (loaded ? table->second->name + "_valid" : "1'b0") + "), .l_ready(" +
                      ready + "), .l_data(" + (loaded ? table->second->name + "_data)" : "'0)"));
      const auto values = generators::Values::of(module, unit.instance.parameters);
      made["long_zero"] = !loaded && values.ok() && module.load_bits(*values) > kLongZero;
    }
    made["module"] = unit.source.empty() ? unit.instance.module : unit.source;
    made["parameters"] = unit.source.empty() ? parameter_list(unit) : std::string();
    made["connections"] = json::value_from(ports);
  }

  static constexpr std::int64_t kLongZero = 8192;  // bits; Verilator warns about a longer '0

  void add_wiring(const Unit& unit, json::object& made) const {
    const Stream &in = stream(unit.inputs.front()), &out = stream(unit.outputs.front());
    made["in"] = in.name;
    made["out"] = out.name;
    made["lanes"] = out.lanes;
    made["in_bits"] = in.bits;
    made["out_bits"] = out.bits;
    made["interleaves"] = unit.wiring == Wiring::kInterleave;
    made["extends_sign"] = unit.wiring == Wiring::kSignExtend;
  }

  const Design& design_;
  const Netlist& netlist_;
  const kernels::Program& program_;
  const RtlOptions& options_;
  std::set<StreamIndex> ports_;
  std::map<std::string, const generators::LoadTable*> table_of_;  // unit's name -> the table that it loads
  std::map<std::string, std::string> reader_of_;                  // unit's name -> the reader of its weights
  std::vector<std::string> unused_;
};

}  // namespace

std::uint64_t streamed_bytes(const generators::Netlist& netlist) {
  std::uint64_t bytes = 0;
  for (const auto& reader : netlist.readers)
    bytes += generators::weight_pass(
        static_cast<std::uint64_t>(generators::parameter(reader.instance, "WIDTH", 1)),
        static_cast<std::uint64_t>(generators::parameter(reader.instance, "LINES", 1)));
  return bytes;
}

std::string dataflow_text(const Design& design, const kernels::Program& program, const RtlOptions& options) {
  return Dataflow(design, program, options).text();
}

}  // namespace millrace::compiler::emit
