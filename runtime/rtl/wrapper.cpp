#include "runtime/rtl/wrapper.hpp"

#include <span>
#include <string_view>

namespace millrace::runtime::rtl {

namespace {

void replace(std::string& text, std::string_view mark, const std::string& with) {
  text.replace(text.find(mark), mark.size(), with);
}

std::string stream_name(const char* what, std::size_t index) {
  return "stream" + std::to_string(index) + "_" + what;
}

std::string busy_name(std::size_t unit) {
  return "unit" + std::to_string(unit) + "_busy";
}

/// Returns the names of the matrix-vector units of all layers, in the layers' order.
std::vector<std::string> units_of(const Design& design) {
  std::vector<std::string> units;
  for (const Layer& layer : design.layers) units.insert(units.end(), layer.units.begin(), layer.units.end());
  return units;
}

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// Signals of the dataflow module and the members of abi.hpp's structures that point to them.
struct WeightsSignal {
  const char* name;
  bool input;
  unsigned bits;
};
constexpr WeightsSignal kWeightsSignals[] = {
    {"active", true, 1}, {"flush", true, 1}, {"addr", true, 64}, {"quiet", false, 1}, {"error", false, 1}};
constexpr WeightsSignal kReadSignals[] = {{"arvalid", false, 1}, {"arready", true, 1}, {"araddr", false, 64},
                                          {"arlen", false, 8},   {"rvalid", true, 1},  {"rready", false, 1},
                                          {"rdata", true, 512},  {"rresp", true, 2},   {"rlast", true, 1}};

/// Returns the C++ text "{&top.weights_active, …}". Verilator stores signals of up to 64 bits as integers.
std::string addresses(const std::string& prefix, std::span<const WeightsSignal> signals) {
  std::string text;
  for (const WeightsSignal& signal : signals) {
    const std::string name = "top." + prefix + signal.name;
    text += (text.empty() ? "{" : ", ") + (signal.bits > 64  ? "bytes(" + name + ")"
                                           : signal.bits > 8 ? "words(" + name + ")"
                                                             : "&" + name);
  }
  return text + "}";
}

}  // namespace

std::string wrapper_module(const Design& design) {
  std::string ports = "  input logic clk,\n  input logic rst", connections = "    .clk(clk),\n    .rst(rst)";
  const auto add = [&](const Port& port, bool input) {
    const char* there = input ? "input" : "output";
    const char* back = input ? "output" : "input";
    const std::string highest = std::to_string(port.beat_bits() - 1);
    ports += ",\n  " + std::string(there) + " logic " + port.name + "_valid,\n  " + back + " logic " +
             port.name + "_ready,\n  " + there + " logic [" + highest + ":0] " + port.name + "_data";
    for (const char* signal : {"_valid", "_ready", "_data"})
      connections += ",\n    ." + port.name + signal + "(" + port.name + signal + ")";
  };
  for (const Port& port : design.inputs) add(port, true);
  for (const Port& port : design.outputs) add(port, false);
  if (design.load_words != 0) {
    ports +=
        ",\n  input logic load_valid"
        ",\n  input logic [63:0] load_data";
    connections +=
        ",\n    .load_valid(load_valid)"
        ",\n    .load_data(load_data)";
  }
  const auto wire = [&](const std::string& name, bool input, unsigned bits) {
    ports += std::string(",\n  ") + (input ? "input" : "output") + " logic " +
             (bits > 1 ? "[" + std::to_string(bits - 1) + ":0] " : "") + name;
    connections += ",\n    ." + name + "(" + name + ")";
  };
  if (!design.weight_ports.empty())
    for (const WeightsSignal& signal : kWeightsSignals)
      wire(std::string("weights_") + signal.name, signal.input, signal.bits);
  for (const std::string& port : design.weight_ports)
    for (const WeightsSignal& signal : kReadSignals)
      wire(port + "_axi_" + signal.name, signal.input, signal.bits);
  std::string probes;
  for (std::size_t i = 0; i < design.streams.size(); ++i) {
    const std::string fifo = "dataflow." + design.streams[i].fifo;
    ports += ",\n  output logic [31:0] " + stream_name("high_water", i) + ",\n  output logic [3:0] " +
             stream_name("state", i);
    probes += "  assign " + stream_name("high_water", i) + " = " + fifo + ".high_water;\n  assign " +
              stream_name("state", i) + " = {" + fifo + ".m_ready, " + fifo + ".m_valid, " + fifo +
              ".s_ready, " + fifo + ".s_valid};\n";
  }
  // Counts the cycles in which a matrix-vector unit's multipliers get operands: valid[1] says that stage 1 holds
  // operands, and `en` that they move on. So operands count once, however long the unit stalls.
  const std::vector<std::string> units = units_of(design);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string busy = busy_name(i), unit = "dataflow." + units[i];
    ports += ",\n  output logic [63:0] " + busy;
    probes +=
        "  always_ff @(posedge clk)\n"
        "    if (rst) " +
        busy + " <= '0;\n    else if (" + unit + ".en && " + unit + ".valid[1]) " + busy + " <= " + busy +
        " + 64'd1;\n";
  }
  return "// Made to simulate " + design.dataflow +
         ": the wrapper has outputs for the fill levels of FIFOs and for the busy cycles of multipliers.\n"
         "`default_nettype none\nmodule " +
         kWrapperModule + " (\n" + ports + "\n);\n  " + design.dataflow + " dataflow (\n" + connections +
         "\n  );\n" + probes + "endmodule\n`default_nettype wire\n";
}

std::string wrapper_header() {
  return "#pragma once\nint millrace_simulation_print(const char* format, ...) "
         "__attribute__((format(printf, 1, 2), visibility(\"hidden\")));\n";
}

std::string wrapper_source(const Design& design, const std::vector<std::string>& memories) {
  std::string symbols, table, connect, weights;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const std::string symbol = "mr_memory" + std::to_string(i);
    symbols += "__asm__(\".pushsection .rodata\\n" + symbol + ":\\n.incbin \\\"" + memories[i] + "\\\"\\n" +
               symbol +
               "_end:\\n.byte 0\\n.popsection\\n\");\nextern \"C\" __attribute__((visibility(\"hidden\"))) "
               "const char " +
               symbol + "[], " + symbol + "_end[];\n";
    table += "    {\"" + file_name(memories[i]) + "\", " + symbol + ", " + symbol + "_end},\n";
  }
  const auto entry = [](std::string& to, const char* list, std::size_t index, const std::string& value) {
    to += "  " + std::string(list) + "[" + std::to_string(index) + "] = " + value + ";\n";
  };
  const auto port = [](const Port& of) {
    return "{&top." + of.name + "_valid, &top." + of.name + "_ready, bytes(top." + of.name + "_data)}";
  };
  for (std::size_t i = 0; i < design.inputs.size(); ++i) entry(connect, "inputs", i, port(design.inputs[i]));
  if (design.load_words != 0)
    entry(connect, "inputs", design.inputs.size(), "{&top.load_valid, nullptr, bytes(top.load_data)}");
  for (std::size_t i = 0; i < design.outputs.size(); ++i)
    entry(connect, "outputs", i, port(design.outputs[i]));
  for (std::size_t i = 0; i < design.streams.size(); ++i)
    entry(connect, "streams", i,
          "{&top." + stream_name("high_water", i) + ", &top." + stream_name("state", i) + "}");
  for (std::size_t i = 0; i < units_of(design).size(); ++i)
    entry(connect, "units", i, "{words(top." + busy_name(i) + ")}");
  if (!design.weight_ports.empty())
    weights = "  *weights = " + addresses("weights_", kWeightsSignals) + ";\n";
  for (std::size_t i = 0; i < design.weight_ports.size(); ++i)
    entry(weights, "ports", i, addresses(design.weight_ports[i] + "_axi_", kReadSignals));

  std::string out(kWrapperTemplate);
  replace(out, "@MEMORY_SYMBOLS@", symbols);
  replace(out, "@MEMORIES@", table);
  replace(out, "@CONNECT@", connect);
  replace(out, "@CONNECT_WEIGHTS@", weights);
  return out;
}

}  // namespace millrace::runtime::rtl
