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
    std::int32_t block = -2;
    for (const auto& unit : netlist_.units) {
      if (unit.block != block) begin(unit);
      block = unit.block;
      wires(unit);
      if (unit.wiring == Wiring::kNone)
        instance(unit);
      else
        assigns(unit);
    }
    values["units"] = out_;
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

  /// The chain of mr_load, through which all loaded words pass.
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

  /// The readers of streamed weights, each with a memory port of its own.
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

  /// Writes a comment on the block whose units follow.
  void begin(const Unit& unit) {
    if (unit.block < 0) {
      out_ += "\n  // Between blocks.\n";
      return;
    }
    const auto& block = program_.blocks[static_cast<std::size_t>(unit.block)];
    const auto& design = design_.blocks[static_cast<std::size_t>(unit.block)];
    out_ += "\n  // " + block.name + ": " + operation_name(block.operation) + ", ";
    for (const auto t : block.inputs) out_ += shape(program_.tensors[t]) + " ";
    out_ += "-> " + shape(program_.tensors[block.outputs.front()]) + "; " + to_string(design.folding) + "; " +
            number(design.interval_cycles) + " of " + number(design_.interval_cycles) + " cycles.\n";
  }

  void wires(const Unit& unit) {
    for (const auto s : unit.outputs)
      if (!ports_.contains(s))
        out_ += fill("  logic %name%_valid, %name%_ready;\n  logic %width|range%%name%_data;\n",
                     {{"name", stream(s).name}, {"width", stream(s).width()}});
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

  void instance(const Unit& unit) {
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
    ports.push_back(module.bundles_outputs ? bundle("m", unit.outputs)
                                           : connection("m", stream(unit.outputs.front()).name));
    bool long_zero = false;
    if (module.load_bits != nullptr) {
      const std::string ready = name + "_load_ready";
      out_ += "  logic " + ready + ";\n";
      unused_.push_back(ready);
      const auto table = table_of_.find(name);
      const bool loaded = table != table_of_.end();
      ports.push_back(".l_valid(" + (loaded ? table->second->name + "_valid" : "1'b0") + "), .l_ready(" +
                      ready + "), .l_data(" + (loaded ? table->second->name + "_data)" : "'0)"));
      const auto values = generators::Values::of(module, unit.instance.parameters);
      long_zero = !loaded && values.ok() && module.load_bits(*values) > kLongZero;
    }
    if (long_zero) out_ += "  /* verilator lint_off WIDTHCONCAT */\n";
    out_ += "  " +
            (unit.source.empty() ? unit.instance.module + " " + parameter_list(unit) : unit.source + " ") +
            name + " (.clk, .rst";
    for (const auto& port : ports) out_ += ",\n    " + port;
    out_ += ");\n";
    if (long_zero) out_ += "  /* verilator lint_on WIDTHCONCAT */\n";
  }

  static constexpr std::int64_t kLongZero = 8192;  // bits; Verilator warns if a '0 is longer

  void assigns(const Unit& unit) {
    const Stream &in = stream(unit.inputs.front()), &out = stream(unit.outputs.front());
    const char* value = unit.wiring == Wiring::kInterleave
                            ? "{%lane%, %in%_data[(i+%lanes%)*%in_bits%+:%in_bits%]}"
                        : unit.wiring == Wiring::kSignExtend ? "%out_bits%'($signed(%lane%))"
                                                             : "%out_bits%'(%lane%)";
    json::object names = {{"in", in.name},      {"out", out.name},    {"unit", unit.instance.name},
                          {"lanes", out.lanes}, {"in_bits", in.bits}, {"out_bits", out.bits}};
    names["lane"] = fill("%in%_data[i*%in_bits%+:%in_bits%]", names);
    names["value"] = fill(value, names);
    out_ += fill(text_of("wiring"), names);
  }

  const Design& design_;
  const Netlist& netlist_;
  const kernels::Program& program_;
  const RtlOptions& options_;
  std::set<StreamIndex> ports_;
  std::map<std::string, const generators::LoadTable*> table_of_;  // by unit
  std::map<std::string, std::string> reader_of_;                  // by unit
  std::vector<std::string> unused_;
  std::string out_;
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
