#include "compiler/emit/rtl/dataflow.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/emit/rtl/text.hpp"

namespace millrace::compiler::emit {
namespace {

using generators::Design;
using generators::Netlist;
using generators::Stream;
using generators::StreamIndex;
using generators::Unit;
using generators::Wiring;

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

std::string shape(const kernels::Tensor& tensor) {
  std::string text;
  for (const auto n : tensor.shape) text += (text.empty() ? "" : "x") + number(n);
  return text;
}

class Dataflow {
 public:
  Dataflow(const Design& design, const kernels::Program& program, const RtlOptions& options)
      : design_(design), netlist_(design.netlist), program_(program), options_(options) {
    for (const auto s : netlist_.inputs) ports_.insert(s);
    for (const auto s : netlist_.outputs) ports_.insert(s);
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
    out_ +=
        "///\n/// A frame is row-major, channels innermost; lane 0 in the low bits. Expected at every clock "
        "fed and taken: a frame in " +
        number(design_.interval_cycles) + " cycles,\n/// the first one's last beat " +
        number(design_.latency_cycles) + " cycles after its first. Ports:\n";
    const auto list = [&](const std::vector<generators::PortDesign>& ports) {
      for (const auto& port : ports) {
        const Stream& s = stream(port.stream);
        out_ += "///   " + port.name + "  " + to_string(port.type) + ", " + number(s.lanes) + " a beat, " +
                number(s.beats) + " beats a frame: " + comment(port.tensor) + "\n";
      }
    };
    list(design_.inputs);
    list(design_.outputs);
    out_ += "/// Blocks:";
    for (std::size_t i = 0; i < program_.blocks.size(); ++i)
      out_ += (i > 0 ? ", " : " ") + program_.blocks[i].name;
    out_ += "\n`default_nettype none\nmodule " + design_.partition +
            "_dataflow (\n  input  logic clk,\n  input  logic rst";
    if (!netlist_.loads.empty()) out_ += ",\n\n  input  logic load_valid,\n  input  logic [63:0] load_data";
    if (!netlist_.readers.empty())
      out_ +=
          ",\n\n  input  logic weights_active,\n  input  logic weights_flush,\n  input  logic [63:0] "
          "weights_addr,"
          "\n  output logic weights_quiet,\n  output logic weights_error";
    for (std::size_t i = 0; i < netlist_.readers.size(); ++i)
      out_ += bus_ports(weights_port(i) + "_axi", kAxiRead);
    for (const auto& port : design_.inputs) port_lines(port, true);
    for (const auto& port : design_.outputs) port_lines(port, false);
    out_ += "\n);\n";
  }

  /// The way of what is loaded: from stop to stop, each with a word of its own.
  void loads() {
    if (netlist_.loads.empty()) return;
    out_ += "\n  // ---- constants that are loaded: " + number(generators::load_words(netlist_)) +
            " words of 64 bits\n";
    std::string from = "load";
    std::uint64_t rest = generators::load_words(netlist_);
    for (const auto& table : netlist_.loads) {
      const std::string& name = table.name;
      rest -= table.words();
      out_ += "  logic " + name + "_valid, " + name + "_pass_valid;\n  logic " + range(table.bits) + name +
              "_data;\n  logic [63:0] " + name + "_pass_data;\n  mr_load #(.WIDTH(" + number(table.bits) +
              "), .LINES(" + number(table.lines) + "), .REST(" + number(rest) + ")) " + name +
              " (.clk, .s_valid(" + from + "_valid), .s_data(" + from + "_data),\n    .m_valid(" + name +
              "_pass_valid), .m_data(" + name + "_pass_data), .l_valid(" + name + "_valid), .l_data(" + name +
              "_data));\n";
      from = name + "_pass";
    }
    unused_.push_back(from + "_valid");
    unused_.push_back(from + "_data");
  }

  /// Weights that are read as they are used, each unit's through a port of its own.
  void readers() {
    if (netlist_.readers.empty()) return;
    out_ += "\n  // ---- weights from memory, pass after pass: " + number(streamed_bytes(netlist_)) +
            " bytes from weights_addr on\n";
    std::string quiet, error;
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < netlist_.readers.size(); ++i) {
      const auto& instance = netlist_.readers[i].instance;
      const std::string& name = instance.name;
      const auto p = [&](const char* key) {
        return static_cast<std::uint64_t>(generators::parameter(instance, key, 1));
      };
      out_ += "  logic " + name + "_valid, " + name + "_ready, " + name + "_quiet, " + name +
              "_error;\n  logic " + range(p("WIDTH")) + name + "_data;\n  mr_weight_reader #(.DATA_BYTES(" +
              number(p("DATA_BYTES")) + "), .BURST(" + number(p("BURST")) + "), .WIDTH(" +
              number(p("WIDTH")) + "), .LINES(" + number(p("LINES")) + ")) " + name +
              " (\n    .clk, .rst, .flush(weights_flush), .quiet(" + name + "_quiet), .error(" + name +
              "_error), .active(weights_active), .addr(weights_addr + 64'd" + number(offset) + ")" +
              bus_connections("axi", weights_port(i) + "_axi", kAxiRead) + ",\n    " + connection("m", name) +
              ");\n";
      quiet += (i > 0 ? " && " : "") + name + "_quiet";
      error += (i > 0 ? " || " : "") + name + "_error";
      offset += generators::weight_pass(p("WIDTH"), p("LINES"));
    }
    out_ += "  assign weights_quiet = " + quiet + ";\n  assign weights_error = " + error + ";\n";
  }

  void port_lines(const generators::PortDesign& port, bool input) {
    const char* forward = input ? "input " : "output";
    const char* back = input ? "output" : "input ";
    out_ += ",\n\n  " + std::string(forward) + " logic " + port.name + "_valid,\n  " + back + " logic " +
            port.name + "_ready,\n  " + forward + " logic " + range(stream(port.stream).width()) + port.name +
            "_data";
  }

  /// What the units that follow are for.
  void begin(const Unit& unit) {
    if (unit.block < 0) {
      out_ += "\n  // ---- between blocks\n";
      return;
    }
    const auto& block = program_.blocks[static_cast<std::size_t>(unit.block)];
    const auto& design = design_.blocks[static_cast<std::size_t>(unit.block)];
    out_ += "\n  // ---- " + block.name + ": " + operation_name(block.operation) + ", ";
    for (const auto t : block.inputs) out_ += shape(program_.tensors[t]) + " ";
    out_ += "-> " + shape(program_.tensors[block.outputs.front()]) + "; " + to_string(design.folding) + "; " +
            number(design.interval_cycles) + " of " + number(design_.interval_cycles) + " cycles\n";
  }

  void wires(const Unit& unit) {
    for (const auto s : unit.outputs) {
      if (ports_.contains(s)) continue;
      const std::string& name = stream(s).name;
      out_ += "  logic " + name + "_valid, " + name + "_ready;\n  logic " + range(stream(s).width()) + name +
              "_data;\n";
    }
  }

  static std::string connection(const std::string& port, const std::string& name) {
    return "." + port + "_valid(" + name + "_valid), ." + port + "_ready(" + name + "_ready), ." + port +
           "_data(" + name + "_data)";
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
    const std::string& module = unit.instance.module;
    std::vector<std::string> ports;
    if (module == "mr_join") {
      ports.push_back(bundle("s", unit.inputs));
    } else if (unit.inputs.size() > 1) {
      for (std::size_t i = 0; i < unit.inputs.size(); ++i)
        ports.push_back(connection("s" + number(i), stream(unit.inputs[i]).name));
    } else if (const auto reader = reader_of_.find(unit.instance.name); reader != reader_of_.end()) {
      ports.push_back(connection("s0", stream(unit.inputs.front()).name));
      ports.push_back(connection("s1", reader->second));
    } else {
      ports.push_back(connection("s", stream(unit.inputs.front()).name));
    }
    if (module == "mr_fork" || module == "mr_split")
      ports.push_back(bundle("m", unit.outputs));
    else
      ports.push_back(connection("m", stream(unit.outputs.front()).name));
    if (loads(module)) {
      const std::string ready = unit.instance.name + "_load_ready";
      out_ += "  logic " + ready + ";\n";
      unused_.push_back(ready);
      const auto table = table_of_.find(unit.instance.name);
      ports.push_back(table == table_of_.end() ? ".l_valid(1'b0), .l_ready(" + ready + "), .l_data('0)"
                                               : ".l_valid(" + table->second->name + "_valid), .l_ready(" +
                                                     ready + "), .l_data(" + table->second->name + "_data)");
    }
    // Verilator takes so long a zero for a slip.
    const bool long_zero = !table_of_.contains(unit.instance.name) && load_bits(unit.instance) > kLongZero;
    if (long_zero) out_ += "  /* verilator lint_off WIDTHCONCAT */\n";
    out_ += "  " + (unit.source.empty() ? module + " " + parameter_list(unit) : unit.source + " ") +
            unit.instance.name + " (.clk, .rst";
    for (const auto& port : ports) out_ += ",\n    " + port;
    out_ += ");\n";
    if (long_zero) out_ += "  /* verilator lint_on WIDTHCONCAT */\n";
  }

  static constexpr std::int64_t kLongZero = 8192;

  /// Of a line of constants.
  static std::int64_t load_bits(const generators::Instance& instance) {
    const auto p = [&](const char* name) { return generators::parameter(instance, name, 0); };
    if (instance.module == "mr_mvu") return p("PE") * p("SIMD") * p("WBITS");
    if (instance.module == "mr_requant") return p("PE") * (p("MBITS") + p("OFFBITS") + p("SBITS"));
    return 0;
  }

  /// Modules with a port for constants that are loaded.
  static bool loads(const std::string& module) {
    return module == "mr_mvu" || module == "mr_vvu" || module == "mr_requant" || module == "mr_threshold" ||
           module == "mr_lut";
  }

  void assigns(const Unit& unit) {
    const Stream &in = stream(unit.inputs.front()), &out = stream(unit.outputs.front());
    out_ += "  assign " + out.name + "_valid = " + in.name + "_valid;\n  assign " + in.name +
            "_ready = " + out.name + "_ready;\n  for (genvar i = 0; i < " + number(out.lanes) +
            "; i = i + 1) begin : g_" + unit.instance.name + "\n    assign " + out.name + "_data[i*" +
            number(out.bits) + "+:" + number(out.bits) + "] = ";
    const std::string bits = number(in.bits);
    const std::string lane = in.name + "_data[i*" + bits + "+:" + bits + "]";
    if (unit.wiring == Wiring::kInterleave)
      out_ +=
          "{" + lane + ", " + in.name + "_data[(i+" + number(out.lanes) + ")*" + bits + "+:" + bits + "]}";
    else if (unit.wiring == Wiring::kSignExtend)
      out_ += number(out.bits) + "'($signed(" + lane + "))";
    else
      out_ += number(out.bits) + "'(" + lane + ")";
    out_ += ";\n  end\n";
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
  std::map<std::string, std::string> reader_of_;                  // likewise
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
