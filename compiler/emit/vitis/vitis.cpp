#include "compiler/emit/vitis/vitis.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/emit/rtl/text.hpp"
#include "kernels/rtl/library.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::compiler::emit {

std::string_view vitis_text(std::string_view name);  // defined by CMake from templates/

namespace {

namespace json = boost::json;
using runtime::plan::Device;

constexpr std::size_t kMaxWindows = 16;  // of 4 KiB each; window i is at i * 0x1000

constexpr std::uint32_t kMostNetworks = 2;  // of VNx: kernels cmac_0 and cmac_1

constexpr std::uint32_t kLanes = 1;  // of the kernel that the template aurora_kernel describes

/// Returns a decimal number as Tcl and XDC read it: up to 7 digits after the point, without zeros at the end.
std::string decimal(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.7f", value);
  std::string out = text;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

/// Returns the text of a module in kernels/rtl that a partition's own library does not contain.
std::string library_text(std::string_view path) {
  for (const auto& file : kernels::rtl::library())
    if (file.path == path) return std::string(file.text);
  return {};
}

/// Returns the names of the units with registers ("control", "supervisor", "in0", …), in the order of their windows.
std::vector<std::string> window_names(const TopInterface& top) {
  std::vector<std::string> names;
  for (const TopUnit& unit : top.units)
    if (unit.registers) names.push_back(unit.name);
  return names;
}

// This part of the file writes the kernel around a partition's top. The kernel has one AXI4-Lite slave, and the top's
// register slaves are its windows.

/// A signal of an AXI4 address channel that the kernel drives itself, because its value is constant: all bursts
/// increment and consist of full words.
struct Constant {
  const char* name;
  unsigned width;
  const char* value;
};
constexpr Constant kAddressConstants[] = {
    {"size", 3, "3'd6"}, {"burst", 2, "2'b01"}, {"cache", 4, "4'b0011"}, {"prot", 3, "3'b000"}};

/// Returns whether the splitter sends this signal to all windows. Only valid and ready differ between windows.
bool is_shared(const Signal& signal) {
  return signal.input && signal.width > 1;
}

/// Returns a signal's width at the kernel's slave, whose addresses have four more bits to select the window.
unsigned slave_width(const Signal& signal) {
  constexpr unsigned kWindowAddress = 12, kAddress = 16;
  return signal.width == kWindowAddress ? kAddress : signal.width;
}

std::string connection(const std::string& port, const std::string& wire) {
  return "." + port + "(" + wire + ")";
}

/// Joins `words` with commas into lines of readable length. All lines but the first begin with `indent`.
std::string filled(const std::vector<std::string>& words, const std::string& indent = "    ") {
  constexpr std::size_t kColumns = 100;  // of the words alone; the text around them may extend to column 140
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

/// Returns the signals of all connectors with their port names: "link0_up", ….
std::vector<std::pair<std::string, Signal>> connector_signals(const TopInterface& top) {
  std::vector<std::pair<std::string, Signal>> signals;
  for (std::uint32_t k = 0; k < top.connectors; ++k)
    for (const Signal& signal : connector_signals_of(top))
      signals.emplace_back("link" + std::to_string(k) + "_" + signal.name, signal);
  return signals;
}

/// Returns the kernel's ports. A port with a value is a constant that the kernel drives itself.
json::array kernel_ports(const TopInterface& top) {
  json::array ports;
  const auto add = [&](bool input, unsigned width, const std::string& name, const char* value = "") {
    ports.push_back({{"input", input}, {"width", width}, {"port", name}, {"value", value}});
  };
  for (const Signal& s : kAxiLite) add(s.input, slave_width(s), std::string("s_axi_control_") + s.name);
  for (const TopUnit& unit : top.units) {
    if (unit.master == Master::kNone) continue;
    const std::string bus = "m_axi_" + unit.name + "_";
    for (const Signal& s : signals_of(unit.master)) add(s.input, s.width, bus + s.name);
    const std::string channel = unit.master == Master::kRead ? "ar" : "aw";
    for (const Constant& c : kAddressConstants) add(false, c.width, bus + channel + c.name, c.value);
    if (unit.master == Master::kWrite) add(false, 64, bus + "wstrb", "{64{1'b1}}");
  }
  for (const auto& [name, s] : connector_signals(top)) add(s.input, s.width, name);
  // The core of a cable cannot wait, so the top module has no ready signal for received words. AXI-Stream demands such
  // a signal, so the kernel drives it with a constant 1.
  for (std::uint32_t k = 0; k < top.connectors && !top.udp; ++k)
    add(false, 1, "link" + std::to_string(k) + "_rx_tready", "1'b1");
  return ports;
}

/// Returns the connections of the top module's ports, in groups.
std::string top_connections(const TopInterface& top) {
  std::vector<std::vector<std::string>> groups = {
      {connection("clk", "ap_clk"), connection("rst", "rst"), connection("error", "error")}, {}};
  for (const TopUnit& unit : top.units)
    if (unit.interrupt) groups.back().push_back(connection(unit.name + "_irq", unit.name + "_irq"));
  const auto windows = window_names(top);
  for (std::size_t window = 0; window < windows.size(); ++window) {
    auto& group = groups.emplace_back();
    for (const Signal& s : kAxiLite) {
      const std::string own = "[" + std::to_string(window * s.width) + "+:" + std::to_string(s.width) + "]";
      group.push_back(connection(windows[window] + "_axil_" + s.name,
                                 std::string("w_") + s.name + (is_shared(s) ? std::string() : own)));
    }
  }
  for (const TopUnit& unit : top.units) {
    auto& group = groups.emplace_back();
    for (const Signal& s : signals_of(unit.master))
      group.push_back(connection(unit.name + "_axi_" + s.name, "m_axi_" + unit.name + "_" + s.name));
  }
  auto& connectors = groups.emplace_back();
  for (const auto& [name, signal] : connector_signals(top)) connectors.push_back(connection(name, name));
  std::vector<std::string> texts;
  for (const auto& group : groups)
    if (!group.empty()) texts.push_back(filled(group));
  return joined(texts, ",\n    ");
}

/// Adds the values that only the template of kernel.v needs.
void add_kernel(const TopInterface& top, json::object& values) {
  const auto windows = window_names(top);
  std::vector<std::string> interrupts, split = {connection("clk", "ap_clk"), connection("rst", "rst")};
  for (const TopUnit& unit : top.units)
    if (unit.interrupt) interrupts.push_back(unit.name + "_irq");
  // Window 0 has the low bits of the splitter's vectors. Addresses and data go to all windows.
  json::array wires;
  for (const Signal& s : kAxiLite) {
    const std::string wire = std::string("w_") + s.name;
    wires.push_back({{"wire", wire}, {"width", (is_shared(s) ? 1 : windows.size()) * s.width}});
    split.push_back(connection(std::string("s_") + s.name, std::string("s_axi_control_") + s.name));
    split.push_back(connection(std::string("m_") + s.name, wire));
  }
  values["window_names"] = filled(windows, "//   ");
  values["ports"] = kernel_ports(top);
  values["interrupts"] = json::value_from(interrupts);
  values["interrupts_in_line"] = filled(interrupts);
  values["wires"] = std::move(wires);
  values["windows"] = windows.size();
  values["splitter"] = filled(split);
  values["connections"] = top_connections(top);
}

// The functions below write all files of an image's Vitis folder except the kernel's Verilog.

/// Returns v++'s name for the memory bank of a region's ports. HBM is used through its first four pseudo channels.
std::string memory_tag(const Device& device, const std::string& region) {
  std::string bank = device.memory.front().name;
  for (const auto& one : device.regions)
    if (one.name == region && !one.memory.empty()) bank = one.memory.front();
  return bank == "HBM" ? "HBM[0:3]" : bank;
}

/// Returns the units with an AXI4 master, each with the offset of the register that holds its buffer's address: the
/// first argument in the unit's own window. Readers of weights have no window, because their weights are in the
/// parameters' buffer. The linker demands an argument for each master, so these readers get registers in the
/// parameters' window that nothing reads.
json::array masters_of(const TopInterface& top) {
  constexpr std::size_t kWindow = 0x1000, kBuffer = 0x10, kUnused = 0x800;
  const auto windows = window_names(top);
  const auto window_of = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(windows.begin(), windows.end(), name) - windows.begin());
  };
  json::array made;
  std::size_t readers = 0;
  for (const TopUnit& unit : top.units)
    if (unit.master != Master::kNone)
      made.push_back(
          {{"name", unit.name},
           {"id", made.size()},
           {"offset", unit.registers ? window_of(unit.name) * kWindow + kBuffer
                                     : window_of("parameters") * kWindow + kUnused + 8 * readers++}});
  return made;
}

std::string aurora_folder(const VitisImage& image) {
  return "aurora_" + image.device->name;
}

json::object values_of(const VitisImage& image, const TopInterface& top) {
  json::array masters = masters_of(top), streams, cables, networks, placed;
  std::vector<std::string> cable_units, network_layers;
  const auto add_streams = [&](std::uint32_t k, unsigned width, unsigned destination) {
    for (const auto& [suffix, mode] : {std::pair("_tx", "write_only"), std::pair("_rx", "read_only")})
      streams.push_back({{"name", "link" + std::to_string(k) + suffix},
                         {"id", masters.size() + streams.size()},
                         {"mode", mode},
                         {"width", width},
                         {"destination", destination}});
  };
  for (std::uint32_t k = 0; k < top.connectors && top.udp; ++k) {
    add_streams(k, 512, 16);
    const auto& quads = image.device->transceivers.quads;
    networks.push_back({{"k", k}, {"slr", k < quads.size() ? quads[k].region : ""}});
    network_layers.push_back("networklayer_" + std::to_string(k));
  }
  for (std::uint32_t k = 0; k < top.connectors && !top.udp; ++k) {
    const std::string cable = image.image + "_cable" + std::to_string(k);
    add_streams(k, 8 * generators::kLinkBytes, 0);
    const runtime::plan::Quad& quad = image.device->transceivers.quads[k];
    cables.push_back({{"k", k},
                      {"cable", cable},
                      {"port", quad.port},
                      {"reference_clock", quad.reference_clock},
                      {"slr", quad.region},
                      {"free_clock", image.device->transceivers.free_clock}});
    cable_units.push_back(cable);
  }
  for (const auto& [region, instances] : image.placed)
    if (!instances.empty())
      placed.push_back({{"region", region}, {"instances", json::value_from(instances)}});
  const bool in_one = image.placed.empty() && image.region.starts_with("SLR");
  json::object values = {{"image", image.image},
                         {"partition", image.partition},
                         {"module", image.partition + "_top"},
                         {"kernel", "millrace_" + image.image},
                         {"part", image.device->part},
                         {"platform", image.device->platform},
                         {"hz", std::llround(image.device->clock_mhz * 1e6)},
                         {"memory", memory_tag(*image.device, image.region)},
                         {"slr", in_one ? image.region : ""},
                         {"masters", std::move(masters)},
                         {"streams", std::move(streams)},
                         {"links", cables.size()},
                         {"network_count", network_layers.size()},
                         {"network_layers", joined(network_layers, ",")},
                         {"networks", std::move(networks)},
                         {"cables", std::move(cables)},
                         {"cable_units", joined(cable_units, ",")},
                         {"aurora", aurora_folder(image)},
                         {"spans", !image.placed.empty()},
                         {"placed", std::move(placed)},
                         {"xo_pattern", "%.xo"}};
  add_kernel(top, values);
  return values;
}

/// Returns the reason why an FPGA image with links over UDP gets no Vitis folder, or an empty text.
std::string udp_obstacle(const VitisImage& image) {
  if (!image.top->udp) return "the image has link ports over UDP and over Aurora";
  if (image.top->connectors > kMostNetworks)
    return "the image has link ports over UDP on " + std::to_string(image.top->connectors) +
           " connectors, but AMD's VNx example has kernels for " + std::to_string(kMostNetworks);
  if (image.udp_ports > runtime::plan::abi::kMaxUdpPorts)
    return "the image has " + std::to_string(image.udp_ports) +
           " link ports over UDP, but the link table of such an image has " +
           std::to_string(runtime::plan::abi::kMaxUdpPorts);
  if (image.udp_credits > kMostUdpSlots)
    return "the image has a channel over UDP with " + std::to_string(image.udp_credits) +
           " credits, but a port in hardware takes at most " + std::to_string(kMostUdpSlots) +
           "; a shorter latency_ns of the cable needs fewer";
  return {};
}

/// Returns the reason why an FPGA image gets no Vitis folder, or an empty text if it gets a folder.
std::string obstacle(const VitisImage& image) {
  if (!image.top) return "no generated SystemVerilog of one partition";
  if (image.udp_credits > 0) return udp_obstacle(image);
  if (image.top->connectors == 0) return {};
  const runtime::plan::Transceivers& has = image.device->transceivers;
  if (has.lanes == 0)
    return "the image has link ports, but the key 'transceivers' is missing from the file of device " +
           image.device->name;
  if (has.lanes != kLanes)
    return "the image has link ports, and device " + image.device->name + " has cables of " +
           std::to_string(has.lanes) + " lanes, but the kernel of a cable has " + std::to_string(kLanes);
  if (image.top->connectors > has.quads.size())
    return "the image has link ports on " + std::to_string(image.top->connectors) +
           " connectors, but the file of device " + image.device->name + " names the quads of " +
           std::to_string(has.quads.size());
  if (image.device->clock_mhz < has.core_mhz())
    return "the image has link ports, but its clock is slower than the " + decimal(has.core_mhz()) +
           " MHz at which a cable delivers words";
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> emit_vitis(const std::vector<VitisImage>& images) {
  std::map<std::string, std::string> files;
  json::array built, auroras;
  bool networks = false;
  std::string notes;
  std::map<std::string, std::vector<const VitisImage*>> needed_by;  // folder of an Aurora kernel -> images
  for (const VitisImage& image : images) {
    if (image.device == nullptr || image.device->platform.empty()) continue;
    if (const std::string why = obstacle(image); !why.empty()) {
      notes += "- `" + image.image + "`: " + why + "\n";
      continue;
    }
    const TopInterface& top = *image.top;
    if (const std::size_t windows = window_names(top).size(); windows == 0 || windows > kMaxWindows)
      return Error(ErrorCode::kInternal, image.partition + "_top has " + std::to_string(windows) +
                                             " register slaves; a kernel takes 1 to " +
                                             std::to_string(kMaxWindows));
    networks = networks || top.udp;
    if (top.connectors != 0 && !top.udp) needed_by[aurora_folder(image)].push_back(&image);
    const json::object values = values_of(image, top);
    const std::string folder = "vitis/" + image.image + "/";
    files[folder + "mr_axil_split.sv"] = library_text("shell/mr_axil_split.sv");
    for (const auto& [file, name] :
         {std::pair("kernel.v", "kernel"), std::pair("kernel.xml", "kernel_xml"),
          std::pair("package.tcl", "package"), std::pair("link.cfg", "link"),
          std::pair("messages.tcl", "messages"), std::pair("Makefile", "image_makefile")})
      files[folder + file] = fill(vitis_text(name), values);
    if (!image.placed.empty()) files[folder + "regions.tcl"] = fill(vitis_text("regions"), values);
    built.emplace_back(image.image);
  }
  if (built.empty() && notes.empty()) return files;
  for (const auto& [name, users] : needed_by) {
    const std::string folder = "vitis/" + name + "/";
    files[folder + "millrace_aurora.v"] = vitis_text("aurora_kernel");
    files[folder + "mr_aurora.sv"] = library_text("link/mr_aurora.sv");
    files[folder + "kernel.xml"] = vitis_text("aurora_kernel_xml");
    const Device& device = *users.front()->device;
    const json::object facts = {{"part", device.part},
                                {"lanes", device.transceivers.lanes},
                                {"line_rate", decimal(device.transceivers.lane_gigabits_per_second)},
                                {"reference_mhz", decimal(device.transceivers.reference_mhz)},
                                {"reference_ns", decimal(1000 / device.transceivers.reference_mhz)}};
    files[folder + "package.tcl"] = fill(vitis_text("aurora_package"), facts);
    files[folder + "clocks.xdc"] = fill(vitis_text("aurora_clocks"), facts);
    files[folder + "Makefile"] = vitis_text("aurora_makefile");
    json::array names;
    for (const VitisImage* image : users) names.emplace_back(image->image);
    auroras.push_back({{"folder", name}, {"needed_by", std::move(names)}});
  }
  files["vitis/Makefile"] = fill(vitis_text("makefile"), {{"images", built}, {"auroras", auroras}});
  files["vitis/README.md"] = fill(vitis_text("readme"), {{"notes", notes}, {"networks", networks}});
  return files;
}

}  // namespace millrace::compiler::emit
