#include "runtime/rtl/wrapper.hpp"

#include <span>
#include <string_view>

namespace millrace::runtime::rtl {

namespace {

// The part that does not depend on the design. It replaces Verilator's own functions (VL_USER_…), because
// they print to standard output and end the process. A failed assertion prints first and then calls vl_stop.
constexpr std::string_view kRuntime = R"(
struct Simulation {
  VerilatedContext context;
  std::unique_ptr<Vmr_simulation> top;
  std::string printed, failure;
};
thread_local Simulation* current = nullptr;

void fail(const char* message) {
  if (current == nullptr || !current->failure.empty()) return;
  const std::string text = current->printed.empty() ? message : current->printed;
  current->failure = text.substr(0, text.find_last_not_of(" \n") + 1);
  if (current->failure.empty()) current->failure = "stopped";
}
}  // namespace

void vl_stop(const char*, int, const char*) { fail("$stop"); }
void vl_finish(const char*, int, const char*) { fail("$finish"); }
void vl_fatal(const char*, int, const char*, const char* message) {
  if (current != nullptr) current->printed = message;
  fail(message);
  throw Fatal();
}
int millrace_simulation_print(const char* format, ...) {
  if (current == nullptr) return 0;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  current->printed = text;
  return length;
}

// $readmemh opens files by name: those of the design are inside this library (the linker's --wrap).
extern "C" FILE* __wrap_fopen(const char* name, const char*) {
  const char* last = std::strrchr(name, '/');
  const std::string_view wanted(last == nullptr ? name : last + 1);
  for (const Memory& memory : kMemories)
    if (wanted == memory.name)
      return fmemopen(const_cast<char*>(memory.begin), static_cast<std::size_t>(memory.end - memory.begin), "r");
  errno = ENOENT;
  return nullptr;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void* millrace_simulation_open(std::uint32_t seed) {
  auto* simulation = new (std::nothrow) Simulation;
  if (simulation == nullptr) return nullptr;
  current = simulation;
  simulation->context.randReset(2);
  simulation->context.randSeed(static_cast<int>(seed));
  try {
    simulation->top = std::make_unique<Vmr_simulation>(&simulation->context);
    simulation->top->clk = 0;
    simulation->top->rst = 1;
    simulation->top->eval();
  } catch (const Fatal&) {
  } catch (const std::bad_alloc&) {
    delete simulation;
    return nullptr;
  }
  return simulation;
}
EXPORTED void millrace_simulation_close(void* handle) { delete static_cast<Simulation*>(handle); }
EXPORTED void millrace_simulation_reset(void* handle, int level) {
  static_cast<Simulation*>(handle)->top->rst = static_cast<std::uint8_t>(level);
}
EXPORTED void millrace_simulation_settle(void* handle) {
  auto* simulation = static_cast<Simulation*>(handle);
  current = simulation;
  simulation->top->clk = 0;
  try {
    simulation->top->eval();
  } catch (const Fatal&) {
  }
}
EXPORTED void millrace_simulation_tick(void* handle) {
  auto* simulation = static_cast<Simulation*>(handle);
  current = simulation;
  simulation->top->clk = 1;
  try {
    simulation->top->eval();
  } catch (const Fatal&) {
  }
}
EXPORTED const char* millrace_simulation_failure(void* handle) {
  return static_cast<Simulation*>(handle)->failure.c_str();
}
)";

std::string stream_name(const char* what, std::size_t index) {
  return "stream" + std::to_string(index) + "_" + what;
}

std::string busy_name(std::size_t unit) {
  return "unit" + std::to_string(unit) + "_busy";
}

/// The matrix-vector units of all layers, in the layers' order.
std::vector<std::string> units_of(const Design& design) {
  std::vector<std::string> units;
  for (const Layer& layer : design.layers) units.insert(units.end(), layer.units.begin(), layer.units.end());
  return units;
}

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// Signals of the dataflow module, in the order of abi.hpp's structures.
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

/// The text "{&top.weights_active, …}". Verilator stores signals of up to 64 bits as integers.
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
    ports += ",\n  " + std::string(there) + " logic " + port.name + "_valid,\n  " + back + " logic " +
             port.name + "_ready,\n  " + there + " logic [" + std::to_string(port.beat_bits() - 1) + ":0] " +
             port.name + "_data";
    for (const char* signal : {"_valid", "_ready", "_data"})
      connections += ",\n    ." + port.name + signal + "(" + port.name + signal + ")";
  };
  for (const Port& port : design.inputs) add(port, true);
  for (const Port& port : design.outputs) add(port, false);
  if (design.load_words != 0) {
    ports += ",\n  input logic load_valid,\n  input logic [63:0] load_data";
    connections += ",\n    .load_valid(load_valid),\n    .load_data(load_data)";
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
  // Every matrix-vector unit has operands in stage 1 if valid[1] is set, and its multipliers take them in a
  // cycle with `en`. So operands count once, however long the unit is stalled, and waiting does not count.
  const std::vector<std::string> units = units_of(design);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string busy = busy_name(i), unit = "dataflow." + units[i];
    ports += ",\n  output logic [63:0] " + busy;
    probes += "  always_ff @(posedge clk)\n    if (rst) " + busy + " <= '0;\n    else if (" + unit +
              ".en && " + unit + ".valid[1]) " + busy + " <= " + busy + " + 64'd1;\n";
  }
  return "// Made to simulate " + design.dataflow +
         ": brings out what its FIFOs hold and how long its units multiply.\n`default_nettype none\nmodule " +
         kWrapperModule + " (\n" + ports + "\n);\n  " + design.dataflow + " dataflow (\n" + connections +
         "\n  );\n" + probes + "endmodule\n`default_nettype wire\n";
}

std::string wrapper_header() {
  return "#pragma once\nint millrace_simulation_print(const char* format, ...) "
         "__attribute__((format(printf, 1, 2), visibility(\"hidden\")));\n";
}

std::string wrapper_source(const Design& design, const std::vector<std::string>& memories) {
  std::string out =
      "#include <cerrno>\n#include <cstdarg>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n"
      "#include <memory>\n#include <new>\n#include <string>\n#include <string_view>\n"
      "#include \"" +
      std::string(kModelClass) +
      ".h\"\n\nnamespace {\nstruct Fatal {};\n"
      "struct Memory {\n  std::string_view name;\n  const char *begin, *end;\n};\n}  // namespace\n";
  std::string table;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const std::string symbol = "mr_memory" + std::to_string(i);
    out += "__asm__(\".pushsection .rodata\\n" + symbol + ":\\n.incbin \\\"" + memories[i] + "\\\"\\n" +
           symbol +
           "_end:\\n.byte 0\\n.popsection\\n\");\nextern \"C\" __attribute__((visibility(\"hidden\"))) const "
           "char " +
           symbol + "[], " + symbol + "_end[];\n";
    table += "    {\"" + file_name(memories[i]) + "\", " + symbol + ", " + symbol + "_end},\n";
  }
  // The first entry matches nothing. It is there because an array may not be empty.
  out += "namespace {\nconst Memory kMemories[] = {\n    {\"/\", nullptr, nullptr},\n" + table + "};\n";
  out += kRuntime;
  out +=
      "\nnamespace {\nstruct Port {\n  std::uint8_t *valid, *ready, *data;\n};\nstruct Stream {\n"
      "  const std::uint32_t* high_water;\n  const std::uint8_t* state;\n};\n"
      "struct Unit {\n  const std::uint64_t* busy_cycles;\n};\n"
      "template <class T>\nstd::uint8_t* bytes(T& signal) {\n"
      "  return reinterpret_cast<std::uint8_t*>(&signal);\n}\n"
      "template <class T>\nstd::uint64_t* words(T& signal) {\n"
      "  static_assert(sizeof signal == 8);\n  return reinterpret_cast<std::uint64_t*>(&signal);\n}\n"
      "}  // namespace\n"
      "EXPORTED void millrace_simulation_connect(void* handle, Port* inputs, Port* outputs, Stream* "
      "streams,\n"
      "                                          Unit* units) {\n"
      "  auto& top = *static_cast<Simulation*>(handle)->top;\n";
  const auto connect = [&](const Port& port, const char* list, std::size_t index) {
    out += "  " + std::string(list) + "[" + std::to_string(index) + "] = {&top." + port.name +
           "_valid, &top." + port.name + "_ready, bytes(top." + port.name + "_data)};\n";
  };
  for (std::size_t i = 0; i < design.inputs.size(); ++i) connect(design.inputs[i], "inputs", i);
  if (design.load_words != 0)
    out += "  inputs[" + std::to_string(design.inputs.size()) +
           "] = {&top.load_valid, nullptr, bytes(top.load_data)};\n";
  for (std::size_t i = 0; i < design.outputs.size(); ++i) connect(design.outputs[i], "outputs", i);
  for (std::size_t i = 0; i < design.streams.size(); ++i)
    out += "  streams[" + std::to_string(i) + "] = {&top." + stream_name("high_water", i) + ", &top." +
           stream_name("state", i) + "};\n";
  if (design.streams.empty()) out += "  (void)streams;\n";
  const std::size_t units = units_of(design).size();
  for (std::size_t i = 0; i < units; ++i)
    out += "  units[" + std::to_string(i) + "] = {words(top." + busy_name(i) + ")};\n";
  if (units == 0) out += "  (void)units;\n";
  out += "}\n";
  if (design.weight_ports.empty()) return out;
  out +=
      "namespace {\nstruct ReadPort {\n  const std::uint8_t* arvalid;\n  std::uint8_t* arready;\n"
      "  const std::uint64_t* araddr;\n  const std::uint8_t* arlen;\n  std::uint8_t* rvalid;\n"
      "  const std::uint8_t* rready;\n  std::uint8_t *rdata, *rresp, *rlast;\n};\n"
      "struct Weights {\n  std::uint8_t *active, *flush;\n  std::uint64_t* addr;\n"
      "  const std::uint8_t *quiet, *error;\n};\n"
      "}  // namespace\n"
      "EXPORTED void millrace_simulation_connect_weights(void* handle, Weights* weights, ReadPort* ports) {\n"
      "  auto& top = *static_cast<Simulation*>(handle)->top;\n  *weights = " +
      addresses("weights_", kWeightsSignals) + ";\n";
  for (std::size_t i = 0; i < design.weight_ports.size(); ++i)
    out += "  ports[" + std::to_string(i) +
           "] = " + addresses(design.weight_ports[i] + "_axi_", kReadSignals) + ";\n";
  return out + "}\n";
}

}  // namespace millrace::runtime::rtl
