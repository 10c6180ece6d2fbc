#include "compiler/emit/rtl/dataflow.hpp"

#include <map>
#include <set>

#include "compiler/emit/rtl/text.hpp"
#include "compiler/generators/module.hpp"

namespace millrace::compiler::emit {
namespace {

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
    for (const auto& table : netlist_.loads)
      for (const auto& unit : table.units) table_of_[unit] = &table;
    for (const auto& reader : netlist_.readers) reader_of_[reader.unit] = reader.instance.name;
    header();
    loads();
    readers();
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
    unused();
    return out_ + "endmodule\n`default_nettype wire\n";
  }

 private:
  const Stream& stream(StreamIndex s) const { return netlist_.streams[s]; }

  void header() {
    out_ = notice(design_.partition + "_dataflow: the network of partition " + design_.partition +
                      " of a model for " + clocked(options_.device, options_.clock_mhz) +
                      ", streams in, streams out.",
                  options_.generator);
    out_ += fill(text_of("dataflow_notice"), {{"interval", number(design_.interval_cycles)},
                                              {"latency", number(design_.latency_cycles)}});
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports) {
        const Stream& s = stream(port.stream);
        out_ += "///   " + port.name + "  " + to_string(port.type) + ", " + number(s.lanes) + " a beat, " +
                number(s.beats) + " beats a frame: " + comment(port.tensor) + "\n";
      }
    out_ += "/// Blocks:";
    for (std::size_t i = 0; i < program_.blocks.size(); ++i)
      out_ += (i > 0 ? ", " : " ") + program_.blocks[i].name;
    out_ += "\n`default_nettype none\nmodule " + design_.partition +
            "_dataflow (\n  input  logic clk,\n  input  logic rst";
    if (!netlist_.loads.empty()) out_ += ",\n\n  input  logic load_valid,\n  input  logic [63:0] load_data";
    if (!netlist_.readers.empty()) out_ += text_of("weights_ports");
    for (std::size_t i = 0; i < netlist_.readers.size(); ++i)
      out_ += bus_ports(weights_port(i) + "_axi", kAxiRead);
    for (const auto& port : design_.inputs) port_lines(port, "input ", "output");
    for (const auto& port : design_.outputs) port_lines(port, "output", "input ");
    out_ += "\n);\n";
  }

  void port_lines(const generators::PortDesign& port, const char* forward, const char* back) {
    out_ += fill(text_of("stream_port"), {{"forward", forward},
                                          {"back", back},
                                          {"name", port.name},
                                          {"range", range(stream(port.stream).width())}});
  }

  /// The chain of mr_load, through which all loaded words pass.
  void loads() {
    if (netlist_.loads.empty()) return;
    std::uint64_t rest = generators::load_words(netlist_);
    out_ += "\n  // Loaded constants: " + number(rest) + " words of 64 bits.\n";
    std::string from = "load";
    for (const auto& table : netlist_.loads) {
      rest -= table.words();
      out_ += fill(text_of("load"), {{"name", table.name},
                                     {"range", range(table.bits)},
                                     {"bits", number(table.bits)},
                                     {"lines", number(table.lines)},
                                     {"rest", number(rest)},
                                     {"from", from}});
      from = table.name + "_pass";
    }
    unused_.push_back(from + "_valid");
    unused_.push_back(from + "_data");
  }

  /// The readers of streamed weights, each with a memory port of its own.
  void readers() {
    if (netlist_.readers.empty()) return;
    out_ += "\n  // Weights from memory, pass after pass: " + number(streamed_bytes(netlist_)) +
            " bytes from weights_addr on.\n";
    std::string quiet, error;
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < netlist_.readers.size(); ++i) {
      const auto& instance = netlist_.readers[i].instance;
      const auto p = [&](const char* key) {
        return static_cast<std::uint64_t>(generators::parameter(instance, key, 1));
      };
      out_ +=
          fill(text_of("weight_reader"), {{"name", instance.name},
                                          {"range", range(p("WIDTH"))},
                                          {"bytes", number(p("DATA_BYTES"))},
                                          {"burst", number(p("BURST"))},
                                          {"width", number(p("WIDTH"))},
                                          {"lines", number(p("LINES"))},
                                          {"offset", number(offset)},
                                          {"bus", bus_connections("axi", weights_port(i) + "_axi", kAxiRead)},
                                          {"m", connection("m", instance.name)}});
      quiet += (i > 0 ? " && " : "") + instance.name + "_quiet";
      error += (i > 0 ? " || " : "") + instance.name + "_error";
      offset += generators::weight_pass(p("WIDTH"), p("LINES"));
    }
    out_ += "  assign weights_quiet = " + quiet + ";\n  assign weights_error = " + error + ";\n";
  }

  /// A comment on the units that follow.
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
        out_ += fill("  logic %name%_valid, %name%_ready;\n  logic %range%%name%_data;\n",
                     {{"name", stream(s).name}, {"range", range(stream(s).width())}});
  }

  static std::string connection(const std::string& port, const std::string& name) {
    return fill(".%port%_valid(%name%_valid), .%port%_ready(%name%_ready), .%port%_data(%name%_data)",
                {{"port", port}, {"name", name}});
  }

  /// {last, …, first}: part 0 in the low bits.
  std::string joined(const std::vector<StreamIndex>& streams, const char* what) const {
    std::string text;
    for (std::size_t i = streams.size(); i-- > 0;)
      text += stream(streams[i]).name + "_" + what + (i > 0 ? ", " : "");
    return "{" + text + "}";
  }
  std::string bundle(const std::string& port, const std::vector<StreamIndex>& streams) const {
    return "." + port + "_valid(" + joined(streams, "valid") + "), ." + port + "_ready(" +
           joined(streams, "ready") + "), ." + port + "_data(" + joined(streams, "data") + ")";
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

  static constexpr std::int64_t kLongZero = 8192;  // bits; Verilator warns of a longer '0

  void assigns(const Unit& unit) {
    const Stream &in = stream(unit.inputs.front()), &out = stream(unit.outputs.front());
    const char* value = unit.wiring == Wiring::kInterleave
                            ? "{%lane%, %in%_data[(i+%lanes%)*%in_bits%+:%in_bits%]}"
                        : unit.wiring == Wiring::kSignExtend ? "%out_bits%'($signed(%lane%))"
                                                             : "%out_bits%'(%lane%)";
    std::map<std::string_view, std::string> names = {{"in", in.name},
                                                     {"out", out.name},
                                                     {"unit", unit.instance.name},
                                                     {"lanes", number(out.lanes)},
                                                     {"in_bits", number(in.bits)},
                                                     {"out_bits", number(out.bits)}};
    names["lane"] = fill("%in%_data[i*%in_bits%+:%in_bits%]", names);
    names["value"] = fill(value, names);
    out_ += fill(text_of("wiring"), names);
  }

  void unused() {
    if (unused_.empty()) return;
    out_ += "\n  logic unused;\n  assign unused = &{1'b0";
    for (const auto& name : unused_) out_ += ",\n    " + name;
    out_ += "};\n";
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
