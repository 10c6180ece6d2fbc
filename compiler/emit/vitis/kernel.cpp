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
  return std::string(",\n  ") + (input ? "input  logic " : "output logic ") + range(width) + name;
}

/// What an AXI4 channel has beside what the top drives: constants of incrementing bursts of full words.
struct Constant {
  const char* name;
  unsigned width;
  const char* value;
};
constexpr Constant kAddressConstants[] = {
    {"size", 3, "3'd6"}, {"burst", 2, "2'b01"}, {"cache", 4, "4'b0011"}, {"prot", 3, "3'b000"}};

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
  const std::string n = std::to_string(interfaces.windows.size());
  std::string text = "/// " + kernel + ": " + top +
                     " as a Vitis RTL kernel: its register slaves as windows of one, 4 KiB each, and full "
                     "AXI4 masters.\n///\n"
                     "/// Window i at i * 0x1000:";
  for (std::size_t i = 0; i < interfaces.windows.size(); ++i)
    text += (i == 0 ? " " : ", ") + interfaces.windows[i];
  text += ". Never been through Vivado or on a card.\n`default_nettype none\nmodule " + kernel +
          " (\n  input  logic ap_clk,\n  input  logic ap_rst_n,\n  output logic interrupt";
  struct Signal {
    const char* name;
    bool input;
    unsigned width;
  };
  for (const Signal& s : {Signal{"awvalid", true, 1},
                          {"awready", false, 1},
                          {"awaddr", true, 16},
                          {"wvalid", true, 1},
                          {"wready", false, 1},
                          {"wdata", true, 32},
                          {"wstrb", true, 4},
                          {"bvalid", false, 1},
                          {"bready", true, 1},
                          {"bresp", false, 2},
                          {"arvalid", true, 1},
                          {"arready", false, 1},
                          {"araddr", true, 16},
                          {"rvalid", false, 1},
                          {"rready", true, 1},
                          {"rdata", false, 32},
                          {"rresp", false, 2}}) {
    text += port(s.input, s.width, std::string("s_axi_control_") + s.name);
  }
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
      assigns += "  assign " + bus + "wstrb = '1;\n";
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
  text += "\n);\n  logic rst, error, unused;\n  always_ff @(posedge ap_clk) rst <= !ap_rst_n;\n";
  std::string irqs;
  for (const std::string& irq : interfaces.interrupts) {
    text += "  logic " + irq + ";\n";
    irqs += (irqs.empty() ? "" : " || ") + irq;
  }
  text += "  assign interrupt = " + (irqs.empty() ? std::string("1'b0") : irqs) +
          ";\n  assign unused = error;\n" + assigns;

  // The windows side by side, window 0 in the low bits.
  struct Window {
    const char* name;
    bool down;  // from the splitter to the top
    unsigned width;
  };
  constexpr Window kWindow[] = {{"awvalid", true, 1}, {"awready", false, 1}, {"awaddr", true, 12},
                                {"wvalid", true, 1},  {"wready", false, 1},  {"wdata", true, 32},
                                {"wstrb", true, 4},   {"bvalid", false, 1},  {"bready", true, 1},
                                {"bresp", false, 2},  {"arvalid", true, 1},  {"arready", false, 1},
                                {"araddr", true, 12}, {"rvalid", false, 1},  {"rready", true, 1},
                                {"rdata", false, 32}, {"rresp", false, 2}};
  const auto shared = [](const Window& w) { return w.down && w.width > 1; };  // addresses and data go to all
  for (const Window& w : kWindow) {
    text += "  logic [" + (shared(w) ? std::to_string(w.width) : n + "*" + std::to_string(w.width)) +
            "-1:0] w_" + w.name + ";\n";
  }
  text += "  mr_axil_split #(.N(" + n + ")) windows (.clk(ap_clk), .rst,\n";
  for (const Window& w : kWindow) {
    text += std::string("    .s_") + w.name + "(s_axi_control_" + w.name + "), .m_" + w.name + "(w_" +
            w.name + ")" + (std::string(w.name) == "rresp" ? ");\n" : ",\n");
  }
  text += "  " + top + " top (.clk(ap_clk), .rst, .error";
  for (const std::string& irq : interfaces.interrupts) text += ", ." + irq;
  for (std::size_t i = 0; i < interfaces.windows.size(); ++i) {
    for (std::size_t at = 0; at < std::size(kWindow); ++at) {
      const Window& w = kWindow[at];
      const std::string width = std::to_string(w.width);
      text += std::string(at % 3 == 0 ? ",\n    ." : ", .") + interfaces.windows[i] + "_axil_" + w.name +
              "(w_" + w.name + (shared(w) ? "" : "[" + std::to_string(i * w.width) + "+:" + width + "]") +
              ")";
    }
  }
  for (const std::string& master : interfaces.masters) {
    std::size_t at = 0;
    for (const TopPort& p : interfaces.ports) {
      if (!p.name.starts_with(master + "_axi_")) continue;
      text += std::string(at++ % 3 == 0 ? ",\n    ." : ", .") + p.name + "(m_axi_" + master + "_" +
              p.name.substr(master.size() + 5) + ")";
    }
  }
  for (const TopPort& p : interfaces.ports)
    if (is_link(p)) text += ",\n    ." + p.name;
  return text + ");\nendmodule\n`default_nettype wire\n";
}

}  // namespace millrace::compiler::emit
