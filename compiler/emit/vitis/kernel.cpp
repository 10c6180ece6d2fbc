#include "compiler/emit/vitis/kernel.hpp"

#include <algorithm>
#include <sstream>

namespace millrace::compiler::emit {
namespace {

constexpr std::size_t kMaxWindows = 16;  // 64 KiB of registers a kernel

bool ends_with(const std::string& text, const std::string& end, std::string* before) {
  if (!text.ends_with(end)) return false;
  *before = text.substr(0, text.size() - end.size());
  return true;
}

std::string range(unsigned width) {
  return width == 1 ? "" : "[" + std::to_string(width - 1) + ":0] ";
}

std::string port(bool input, unsigned width, const std::string& name) {
  return std::string(",\n  ") + (input ? "input  wire " : "output wire ") + range(width) + name;
}

/// What an AXI4 channel has beside what the top drives: constants of incrementing bursts of full words.
struct Constant {
  const char* name;
  unsigned width;
  const char* value;
};
constexpr Constant kAddressConstants[] = {
    {"size", 3, "3'd6"}, {"burst", 2, "2'b01"}, {"cache", 4, "4'b0011"}, {"prot", 3, "3'b000"}};

/// A signal of an AXI4-Lite register slave, as a window of the kernel has it.
struct Channel {
  const char* name;
  bool down;  // towards the top
  unsigned width;
  /// Of what goes down only the valids and readies are a window's own.
  bool is_shared() const { return down && width > 1; }
  /// The kernel's own slave has four bits more, which say the window.
  bool is_address() const { return width == 12; }
};
constexpr Channel kChannels[] = {{"awvalid", true, 1}, {"awready", false, 1}, {"awaddr", true, 12},
                                 {"wvalid", true, 1},  {"wready", false, 1},  {"wdata", true, 32},
                                 {"wstrb", true, 4},   {"bvalid", false, 1},  {"bready", true, 1},
                                 {"bresp", false, 2},  {"arvalid", true, 1},  {"arready", false, 1},
                                 {"araddr", true, 12}, {"rvalid", false, 1},  {"rready", true, 1},
                                 {"rdata", false, 32}, {"rresp", false, 2}};

std::string connection(const std::string& port, const std::string& wire) {
  return "." + port + "(" + wire + ")";
}

/// `words` with commas between, in lines that can be read; lines but the first begin with `indent`.
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

/// link<k>_up, link<k>_tx_…, link<k>_rx_…
bool is_link(const TopPort& p) {
  return p.name.starts_with("link") &&
         (p.name.ends_with("_up") || p.name.find("_tx_t") != std::string::npos ||
          p.name.find("_rx_t") != std::string::npos);
}

}  // namespace

bool KernelInterfaces::reads(const std::string& master) const {
  return std::any_of(ports.begin(), ports.end(),
                     [&](const TopPort& p) { return p.name == master + "_axi_arvalid"; });
}

Result<KernelInterfaces> read_top(const std::string& text, const std::string& top) {
  const std::size_t from = text.find("module " + top + " (\n"), to = text.find("\n);", from);
  if (from == std::string::npos || to == std::string::npos) {
    return Error(ErrorCode::kInternal, "no 'module " + top + " (…);' in the emitted top");
  }
  KernelInterfaces result;
  std::istringstream lines(text.substr(from, to - from));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string direction, logic, word;
    TopPort one;
    if (!(words >> direction >> logic >> word)) continue;
    if (logic != "logic") return Error(ErrorCode::kInternal, "unexpected port in the emitted top: " + line);
    if (word.front() == '[') {
      one.width = static_cast<unsigned>(std::stoul(word.substr(1))) + 1;
      words >> word;
    }
    one.input = direction == "input";
    one.name = word.substr(0, word.find(','));
    std::string name;
    if (ends_with(one.name, "_axil_awvalid", &name)) result.windows.push_back(name);
    if (ends_with(one.name, "_axi_awvalid", &name) || ends_with(one.name, "_axi_arvalid", &name)) {
      result.masters.push_back(name);
    }
    if (ends_with(one.name, "_tvalid", &name)) result.streams.push_back(name);
    if (one.name.ends_with("_irq")) result.interrupts.push_back(one.name);
    result.ports.push_back(std::move(one));
  }
  if (result.windows.empty() || result.windows.size() > kMaxWindows) {
    return Error(ErrorCode::kInternal, "the emitted top has " + std::to_string(result.windows.size()) +
                                           " register slaves; a kernel takes 1 to 16");
  }
  return result;
}

std::string kernel_text(const KernelInterfaces& interfaces, const std::string& kernel,
                        const std::string& top) {
  const std::size_t n = interfaces.windows.size();
  std::string text =
      "// " + kernel + ": " + top +
      " as a Vitis RTL kernel: its register slaves as windows of one, 4 KiB each, and full "
      "AXI4 masters.\n// Window i at i * 0x1000: " +
      filled(interfaces.windows, "//   ") +
      ".\n// Verilog-2001, as the packager's top must be; what it instantiates is SystemVerilog. "
      "Never been through Vivado or on a card.\n`default_nettype none\nmodule " +
      kernel + " (\n  input  wire ap_clk,\n  input  wire ap_rst_n,\n  output wire interrupt";
  for (const Channel& c : kChannels)
    text += port(c.down, c.is_address() ? 16 : c.width, std::string("s_axi_control_") + c.name);
  std::string assigns;
  for (const std::string& master : interfaces.masters) {
    const std::string bus = "m_axi_" + master + "_";
    const char channel = interfaces.reads(master) ? 'r' : 'w';
    for (const TopPort& p : interfaces.ports) {
      if (p.name.starts_with(master + "_axi_"))
        text += port(p.input, p.width, bus + p.name.substr(master.size() + 5));
    }
    for (const Constant& c : kAddressConstants) {
      const std::string name = bus + "a" + channel + c.name;
      text += port(false, c.width, name);
      assigns += "  assign " + name + " = " + c.value + ";\n";
    }
    if (channel == 'w') {
      text += port(false, 64, bus + "wstrb");
      assigns += "  assign " + bus + "wstrb = {64{1'b1}};\n";
    }
  }
  // A cable's core cannot wait, so the top has no ready for what it brings; AXI-Stream wants one.
  for (const TopPort& p : interfaces.ports)
    if (is_link(p)) text += port(p.input, p.width, p.name);
  for (const std::string& stream : interfaces.streams) {
    if (!stream.ends_with("_rx")) continue;
    text += port(false, 1, stream + "_tready");
    assigns += "  assign " + stream + "_tready = 1'b1;\n";
  }
  text += "\n);\n  reg rst;\n  always @(posedge ap_clk) rst <= !ap_rst_n;\n  wire error, unused;\n";
  for (const std::string& irq : interfaces.interrupts) text += "  wire " + irq + ";\n";
  text += "  assign interrupt = " +
          (interfaces.interrupts.empty() ? "1'b0" : "|{" + filled(interfaces.interrupts, "    ") + "}") +
          ";\n  assign unused = error;\n" + assigns;

  // The windows side by side, window 0 in the low bits; addresses and data go to all.
  std::vector<std::string> split = {connection("clk", "ap_clk"), connection("rst", "rst")};
  for (const Channel& c : kChannels) {
    const std::string wire = std::string("w_") + c.name;
    text += "  wire [" + std::to_string((c.is_shared() ? 1 : n) * c.width - 1) + ":0] " + wire + ";\n";
    split.push_back(connection(std::string("s_") + c.name, std::string("s_axi_control_") + c.name));
    split.push_back(connection(std::string("m_") + c.name, wire));
  }
  text += "  mr_axil_split #(.N(" + std::to_string(n) + ")) windows (\n    " + filled(split, "    ") + ");\n";

  std::string whole =
      filled({connection("clk", "ap_clk"), connection("rst", "rst"), connection("error", "error")}, "    ");
  const auto add = [&](const std::vector<std::string>& group) { whole += ",\n    " + filled(group, "    "); };
  std::vector<std::string> group;
  for (const std::string& irq : interfaces.interrupts) group.push_back(connection(irq, irq));
  if (!group.empty()) add(group);
  for (std::size_t i = 0; i < n; ++i) {
    group.clear();
    for (const Channel& c : kChannels) {
      const std::string own = "[" + std::to_string(i * c.width) + "+:" + std::to_string(c.width) + "]";
      group.push_back(connection(interfaces.windows[i] + "_axil_" + c.name,
                                 std::string("w_") + c.name + (c.is_shared() ? std::string() : own)));
    }
    add(group);
  }
  for (const std::string& master : interfaces.masters) {
    group.clear();
    for (const TopPort& p : interfaces.ports)
      if (p.name.starts_with(master + "_axi_"))
        group.push_back(connection(p.name, "m_axi_" + master + "_" + p.name.substr(master.size() + 5)));
    add(group);
  }
  group.clear();
  for (const TopPort& p : interfaces.ports)
    if (is_link(p)) group.push_back(connection(p.name, p.name));
  if (!group.empty()) add(group);
  return text + "  " + top + " top (\n    " + whole + ");\nendmodule\n`default_nettype wire\n";
}

}  // namespace millrace::compiler::emit
