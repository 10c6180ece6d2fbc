#include "compiler/emit/vitis/vitis.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/emit/vitis/aurora.hpp"
#include "compiler/emit/vitis/kernel.hpp"
#include "compiler/emit/vitis/text.hpp"

namespace millrace::compiler::emit {
namespace {

using runtime::plan::Device;

/// The bank that a region's ports are connected to, as v++ names it. Of HBM it is the first pseudo channels.
std::string memory_tag(const Device& device, const std::string& region) {
  for (const auto& one : device.regions) {
    if (one.name != region || one.memory.empty()) continue;
    return one.memory.front() == "HBM" ? "HBM[0:3]" : one.memory.front();
  }
  return device.memory.front().name == "HBM" ? "HBM[0:3]" : device.memory.front().name;
}

/// The argument that holds the address of a master's buffer: the first one of the master's own window.
/// Readers of weights have no window, because their weights are in the parameters' buffer. The linker demands
/// an argument for each port, so they get registers of that window that nothing reads.
std::size_t argument_offset(const TopInterface& top, const std::string& master) {
  constexpr std::size_t kWindow = 0x1000, kBuffer = 0x10, kUnused = 0x800;
  const auto windows = window_names(top);
  const auto place = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(windows.begin(), windows.end(), name) - windows.begin());
  };
  if (const std::size_t own = place(master); own < windows.size()) return own * kWindow + kBuffer;
  std::size_t number = 0;  // of those without
  for (const auto& other : master_names(top)) {
    if (other == master) break;
    if (place(other) == windows.size()) ++number;
  }
  return place("parameters") * kWindow + kUnused + 8 * number;
}

std::string kernel_xml(const TopInterface& top, const std::string& kernel) {
  std::string ports, args;
  std::size_t id = 0;
  for (const std::string& master : master_names(top)) {
    const std::map<std::string_view, std::string> values = {
        {"name", master}, {"id", std::to_string(id++)}, {"offset", hex(argument_offset(top, master))}};
    ports += fill(vitis_text("master_port"), values);
    args += fill(vitis_text("master_argument"), values);
  }
  for (const std::string& stream : stream_names(top)) {
    const std::map<std::string_view, std::string> values = {
        {"name", stream},
        {"id", std::to_string(id++)},
        {"mode", stream.ends_with("_tx") ? "write_only" : "read_only"}};
    ports += fill(vitis_text("stream_port"), values);
    args += fill(vitis_text("stream_argument"), values);
  }
  return fill(vitis_text("kernel"), {{"kernel", kernel}, {"ports", ports}, {"args", args}});
}

std::string package_tcl(const VitisImage& image, const TopInterface& top, const std::string& kernel) {
  std::string buses;
  for (const std::string& master : master_names(top)) buses += " m_axi_" + master;
  for (const std::string& stream : stream_names(top)) buses += " " + stream;
  return kNeverRun + fill(vitis_text("package"), {{"image", image.image},
                                                  {"part", image.device->part},
                                                  {"rtl", "../../rtl/" + image.partition},
                                                  {"kernel", kernel},
                                                  {"buses", buses}});
}

/// The units for the ends of cables, by connector.
std::string cable_unit(const VitisImage& image, std::size_t number) {
  return image.image + "_cable" + std::to_string(number);
}

std::string link_cfg(const VitisImage& image, const TopInterface& top, const std::string& kernel) {
  const std::size_t cables = top.connectors;
  std::string text = kNeverRun + "platform=" + image.device->platform +
                     "\nsave-temps=1\n\n[connectivity]\nnk=" + kernel + ":1:" + image.image + "\n";
  for (std::size_t i = 0; i < cables; ++i)
    text += (i == 0 ? "nk=" + std::string(kAuroraKernel) + ":" + std::to_string(cables) + ":" : ",") +
            cable_unit(image, i) + (i + 1 == cables ? "\n" : "");
  const std::string memory = memory_tag(*image.device, image.region);
  for (const std::string& master : master_names(top))
    text += "sp=" + image.image + ".m_axi_" + master + ":" + memory + "\n";
  if (image.placed.empty() && image.region.starts_with("SLR"))
    text += "slr=" + image.image + ":" + image.region + "\n";
  const auto pins = cable_pins(image.device->platform);
  std::string clocks = image.image + ".ap_clk";
  for (std::size_t i = 0; i < cables; ++i) {
    text += cable_connections(*pins, image.image, cable_unit(image, i), i);
    clocks += "," + cable_unit(image, i) + ".ap_clk";
  }
  return text + "\n[clock]\nfreqHz=" + std::to_string(std::llround(image.device->clock_mhz * 1e6)) + ":" +
         clocks + "\n";
}

/// The constraints that place each instance of the dataflow into its SLR, if there are several.
std::string regions_tcl(const VitisImage& image) {
  std::string places;
  for (const auto& [region, instances] : image.placed) {
    if (instances.empty()) continue;
    places += "  " + region + " {\n";
    for (const auto& instance : instances) places += "    " + instance + "\n";
    places += "  }\n";
  }
  return kNeverRun + fill(vitis_text("regions"), {{"places", places}, {"image", image.image}});
}

std::string aurora_folder(const VitisImage& image) {
  return "aurora_" + image.device->name;
}

std::string image_makefile(const VitisImage& image, const std::string& kernel, bool links) {
  const std::string folder = "../" + aurora_folder(image), aurora = folder + "/" + kAuroraKernel + ".xo";
  const bool placed = !image.placed.empty();
  return kNeverRun +
         fill(vitis_text("image_makefile"),
              {{"image", image.image},
               {"kernel", kernel},
               {"rtl", "../../rtl/" + image.partition},
               {"inputs", (links ? aurora + " " : "") + "link.cfg" + (placed ? " regions.tcl" : "")},
               {"place",
                placed ? " --vivado.prop run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE=$(CURDIR)/regions.tcl" : ""},
               {"kernels", "%.xo"},
               {"aurora", links ? aurora + ":\n\t$(MAKE) -C " + folder + "\n\n" : ""}});
}

/// The reason why an image with links gets no folder; empty if it gets one.
std::string no_cables(const VitisImage& image, const TopInterface& top) {
  const auto pins = cable_pins(image.device->platform);
  if (!pins)
    return "it has link ports, and what platform " + image.device->platform +
           " calls its transceivers is not known here";
  if (top.connectors > pins->cages.size())
    return "it has link ports on " + std::to_string(top.connectors) + " connectors, and of platform " +
           image.device->platform + " " + std::to_string(pins->cages.size()) + " is known here";
  if (image.device->clock_mhz < kAuroraMhz)
    return "it has link ports, and its clock is slower than the 156.25 MHz a cable's words come at";
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> emit_vitis(const std::vector<VitisImage>& images) {
  std::map<std::string, std::string> files;
  std::string built, notes;
  std::map<std::string, const Device*> auroras;  // folder -> for what
  std::map<std::string, std::set<std::string>> needed_by;
  for (const VitisImage& image : images) {
    if (image.device == nullptr || image.device->platform.empty()) continue;
    const std::string module = image.partition + "_top", kernel = "millrace_" + image.image;
    if (!image.top) {
      notes += "- `" + image.image + "`: no generated SystemVerilog of one partition\n";
      continue;
    }
    const TopInterface& top = *image.top;
    if (const std::size_t windows = window_names(top).size(); windows == 0 || windows > kMaxWindows)
      return Error(ErrorCode::kInternal, module + " has " + std::to_string(windows) +
                                             " register slaves; a kernel takes 1 to " +
                                             std::to_string(kMaxWindows));
    const bool links = top.connectors != 0;
    if (const std::string why = links ? no_cables(image, top) : std::string(); !why.empty()) {
      notes += "- `" + image.image + "`: " + why + "\n";
      continue;
    }
    if (links) {
      auroras.emplace(aurora_folder(image), image.device);
      needed_by[aurora_folder(image)].insert(image.image);
    }
    const std::string folder = "vitis/" + image.image + "/";
    files[folder + "kernel.v"] = kernel_text(top, kernel, module);
    files[folder + "mr_axil_split.sv"] = library_text("shell/mr_axil_split.sv");
    files[folder + "kernel.xml"] = kernel_xml(top, kernel);
    files[folder + "package.tcl"] = package_tcl(image, top, kernel);
    files[folder + "link.cfg"] = link_cfg(image, top, kernel);
    if (!image.placed.empty()) files[folder + "regions.tcl"] = regions_tcl(image);
    files[folder + "Makefile"] = image_makefile(image, kernel, links);
    built += " " + image.image;
  }
  if (built.empty() && notes.empty()) return files;
  std::string cables, order;
  for (const auto& [folder, device] : auroras) {
    for (const auto& [name, text] : aurora_files(*device)) files["vitis/" + folder + "/" + name] = text;
    cables += " " + folder;
    for (const std::string& image : needed_by[folder]) order += image + " ";
    order += ": | " + folder + "\n";
  }
  files["vitis/Makefile"] =
      kNeverRun + fill(vitis_text("makefile"), {{"images", built}, {"cables", cables}, {"order", order}});
  files["vitis/README.md"] =
      std::string(vitis_text("readme")) + (notes.empty() ? std::string() : "\nNot handed over:\n" + notes);
  return files;
}

}  // namespace millrace::compiler::emit
