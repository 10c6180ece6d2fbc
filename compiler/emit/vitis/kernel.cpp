#include "compiler/emit/vitis/kernel.hpp"

namespace millrace::compiler::emit {
namespace {

std::string range(unsigned width) {
  return width == 1 ? "" : "[" + std::to_string(width - 1) + ":0] ";
}

std::string port(bool input, unsigned width, const std::string& name) {
  return std::string(",\n  ") + (input ? "input  wire " : "output wire ") + range(width) + name;
}

/// A signal of an AXI4 address channel that the top does not drive, because it is constant: all bursts
/// increment and consist of full words.
struct Constant {
  const char* name;
  unsigned width;
  const char* value;
};
constexpr Constant kAddressConstants[] = {
    {"size", 3, "3'd6"}, {"burst", 2, "2'b01"}, {"cache", 4, "4'b0011"}, {"prot", 3, "3'b000"}};

/// Whether a slave signal differs from window to window: only valid and ready do, of those to the windows.
bool is_shared(const Signal& signal) {
  return signal.input && signal.width > 1;
}

/// The width of a signal at the kernel's own slave, whose addresses have four more bits, for the window.
unsigned slave_width(const Signal& signal) {
  constexpr unsigned kWindowAddress = 12, kAddress = 16;
  return signal.width == kWindowAddress ? kAddress : signal.width;
}

std::string connection(const std::string& port, const std::string& wire) {
  return "." + port + "(" + wire + ")";
}

/// `words` separated by commas, in lines of readable length; all lines but the first begin with `indent`.
std::string filled(const std::vector<std::string>& words, const std::string& indent) {
  constexpr std::size_t kColumns = 100;  // of the words; what stands around them has room up to 140
  std::string text;
  std::size_t column = 0;
  for (const std::string& word : words) {
    if (!text.empty()) text += column + word.size() > kColumns ? ",\n" + indent : ", ";
    if (column + word.size() > kColumns) column = 0;
    column += word.size() + 2;
    text += word;
  }
  return text;
}

std::vector<std::string> interrupt_names(const TopInterface& top) {
  std::vector<std::string> names;
  for (const TopUnit& unit : top.units)
    if (unit.interrupt) names.push_back(unit.name + "_irq");
  return names;
}

/// Calls `visit(name, signal)` for each signal of each connector.
template <class Visit>
void for_each_connector_signal(const TopInterface& top, Visit visit) {
  for (std::uint32_t k = 0; k < top.connectors; ++k)
    for (const Signal& signal : kConnector) visit("link" + std::to_string(k) + "_" + signal.name, signal);
}

/// The kernel's ports, and the constants that it drives itself.
struct KernelPorts {
  std::string ports, assigns;
};

KernelPorts kernel_ports(const TopInterface& top) {
  KernelPorts out;
  for (const Signal& s : kAxiLite)
    out.ports += port(s.input, slave_width(s), std::string("s_axi_control_") + s.name);
  const auto drive = [&](unsigned width, const std::string& name, const std::string& value) {
    out.ports += port(false, width, name);
    out.assigns += "  assign " + name + " = " + value + ";\n";
  };
  for (const TopUnit& unit : top.units) {
    if (unit.master == Master::kNone) continue;
    const std::string bus = "m_axi_" + unit.name + "_";
    for_each_signal(unit.master, [&](const Signal& s) { out.ports += port(s.input, s.width, bus + s.name); });
    const std::string channel = unit.master == Master::kRead ? "ar" : "aw";
    for (const Constant& c : kAddressConstants) drive(c.width, bus + channel + c.name, c.value);
    if (unit.master == Master::kWrite) drive(64, bus + "wstrb", "{64{1'b1}}");
  }
  for_each_connector_signal(
      top, [&](const std::string& name, const Signal& s) { out.ports += port(s.input, s.width, name); });
  // A cable's core cannot wait, so the top has no ready for its words, but AXI-Stream needs one.
  for (std::uint32_t k = 0; k < top.connectors; ++k)
    drive(1, "link" + std::to_string(k) + "_rx_tready", "1'b1");
  return out;
}

/// The unit that splits the kernel's slave into windows, window 0 in the low bits. Addresses and data go to
/// all windows.
std::string splitter(std::size_t windows) {
  std::string wires;
  std::vector<std::string> split = {connection("clk", "ap_clk"), connection("rst", "rst")};
  for (const Signal& s : kAxiLite) {
    const std::string wire = std::string("w_") + s.name;
    wires += "  wire [" + std::to_string((is_shared(s) ? 1 : windows) * s.width - 1) + ":0] " + wire + ";\n";
    split.push_back(connection(std::string("s_") + s.name, std::string("s_axi_control_") + s.name));
    split.push_back(connection(std::string("m_") + s.name, wire));
  }
  return wires + "  mr_axil_split #(.N(" + std::to_string(windows) + ")) windows (\n    " +
         filled(split, "    ") + ");\n";
}

std::string window_connections(const std::string& unit, std::size_t window) {
  std::vector<std::string> group;
  for (const Signal& s : kAxiLite) {
    const std::string own = "[" + std::to_string(window * s.width) + "+:" + std::to_string(s.width) + "]";
    group.push_back(connection(unit + "_axil_" + s.name,
                               std::string("w_") + s.name + (is_shared(s) ? std::string() : own)));
  }
  return filled(group, "    ");
}

/// The instance of the top.
std::string top_instance(const TopInterface& top, const std::string& module) {
  std::string whole =
      filled({connection("clk", "ap_clk"), connection("rst", "rst"), connection("error", "error")}, "    ");
  const auto add = [&](const std::vector<std::string>& group) {
    if (!group.empty()) whole += ",\n    " + filled(group, "    ");
  };
  std::vector<std::string> group;
  for (const std::string& irq : interrupt_names(top)) group.push_back(connection(irq, irq));
  add(group);
  const auto windows = window_names(top);
  for (std::size_t i = 0; i < windows.size(); ++i) whole += ",\n    " + window_connections(windows[i], i);
  for (const TopUnit& unit : top.units) {
    group.clear();
    for_each_signal(unit.master, [&](const Signal& s) {
      group.push_back(connection(unit.name + "_axi_" + s.name, "m_axi_" + unit.name + "_" + s.name));
    });
    add(group);
  }
  group.clear();
  for_each_connector_signal(
      top, [&](const std::string& name, const Signal&) { group.push_back(connection(name, name)); });
  add(group);
  return "  " + module + " top (\n    " + whole + ");\n";
}

}  // namespace

std::vector<std::string> window_names(const TopInterface& top) {
  std::vector<std::string> names;
  for (const TopUnit& unit : top.units)
    if (unit.registers) names.push_back(unit.name);
  return names;
}

std::vector<std::string> master_names(const TopInterface& top) {
  std::vector<std::string> names;
  for (const TopUnit& unit : top.units)
    if (unit.master != Master::kNone) names.push_back(unit.name);
  return names;
}

std::vector<std::string> stream_names(const TopInterface& top) {
  std::vector<std::string> names;
  for (std::uint32_t k = 0; k < top.connectors; ++k)
    for (const char* way : {"_tx", "_rx"}) names.push_back("link" + std::to_string(k) + way);
  return names;
}

std::string kernel_text(const TopInterface& top, const std::string& kernel, const std::string& module) {
  const KernelPorts own = kernel_ports(top);
  const auto windows = window_names(top), interrupts = interrupt_names(top);
  std::string text =
      "// " + kernel + ": " + module +
      " as a Vitis RTL kernel: its register slaves as windows of one, 4 KiB each, and full AXI4 masters.\n// "
      "Window i at i * 0x1000: " +
      filled(windows, "//   ") +
      ".\n// Verilog-2001, as the packager's top must be; what it instantiates is SystemVerilog. Never been "
      "through Vivado or on a card.\n`default_nettype none\nmodule " +
      kernel + " (\n  input  wire ap_clk,\n  input  wire ap_rst_n,\n  output wire interrupt" + own.ports +
      "\n);\n  reg rst;\n  always @(posedge ap_clk) rst <= !ap_rst_n;\n  wire error, unused;\n";
  for (const std::string& irq : interrupts) text += "  wire " + irq + ";\n";
  return text +
         "  assign interrupt = " + (interrupts.empty() ? "1'b0" : "|{" + filled(interrupts, "    ") + "}") +
         ";\n  assign unused = error;\n" + own.assigns + splitter(windows.size()) +
         top_instance(top, module) + "endmodule\n`default_nettype wire\n";
}

}  // namespace millrace::compiler::emit
