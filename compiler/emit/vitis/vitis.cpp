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

std::string hex(std::size_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value % 16]);
    value /= 16;
  } while (value > 0);
  return "0x" + text;
}

/// The bank a region's ports are connected to, as v++ names it: HBM as its first pseudo channels.
std::string memory_tag(const Device& device, const std::string& region) {
  for (const auto& one : device.regions) {
    if (one.name != region || one.memory.empty()) continue;
    return one.memory.front() == "HBM" ? "HBM[0:3]" : one.memory.front();
  }
  return device.memory.front().name == "HBM" ? "HBM[0:3]" : device.memory.front().name;
}

/// Where a master's buffer is told: its own window's first argument. Readers of weights find theirs in the
/// parameters' buffer and have no window; the linker wants an argument a port, so theirs are registers of
/// that window that nothing reads.
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
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- Written by millrace. Checked against a schema of "
      "ours only: this has never "
      "met Vitis. -->\n<root versionMajor=\"1\" versionMinor=\"6\">\n  <kernel name=\"" +
      kernel + "\" language=\"ip\" vlnv=\"millrace:kernel:" + kernel +
      ":1.0\" attributes=\"\" preferredWorkGroupSizeMultiple=\"0\" workGroupSize=\"1\" interrupt=\"true\" "
      "hwControlProtocol=\"user_managed\">\n    <ports>\n      <port name=\"s_axi_control\" mode=\"slave\" "
      "range=\"0x10000\" "
      "dataWidth=\"32\" portType=\"addressable\" base=\"0x0\"/>\n";
  std::string args;
  std::size_t id = 0;
  for (const std::string& master : master_names(top)) {
    text += "      <port name=\"m_axi_" + master +
            "\" mode=\"master\" range=\"0xFFFFFFFFFFFFFFFF\" dataWidth=\"512\" portType=\"addressable\" "
            "base=\"0x0\"/>\n";
    args += "      <arg name=\"" + master + "\" addressQualifier=\"1\" id=\"" + std::to_string(id++) +
            "\" port=\"m_axi_" + master + "\" size=\"0x8\" offset=\"" + hex(argument_offset(top, master)) +
            "\" hostOffset=\"0x0\" hostSize=\"0x8\" type=\"void*\"/>\n";
  }
  for (const std::string& stream : stream_names(top)) {
    text += "      <port name=\"" + stream + "\" mode=\"" +
            (stream.ends_with("_tx") ? "write_only" : "read_only") +
            "\" range=\"0x0\" dataWidth=\"64\" portType=\"stream\" base=\"0x0\"/>\n";
    args += "      <arg name=\"" + stream + "\" addressQualifier=\"4\" id=\"" + std::to_string(id++) +
            "\" port=\"" + stream +
            "\" size=\"0x8\" offset=\"0x0\" hostOffset=\"0x0\" hostSize=\"0x8\" "
            "type=\"stream&lt;ap_axiu&lt;64,0,0,0&gt; &gt;&amp;\"/>\n";
  }
  return text + "    </ports>\n    <args>\n" + args + "    </args>\n  </kernel>\n</root>\n";
}

std::string package_tcl(const VitisImage& image, const TopInterface& top, const std::string& kernel) {
  const std::string rtl = "../../rtl/" + image.partition;
  std::string text = std::string(kNeverRun) +
                     "# Packages the kernel: vivado -mode batch -source package.tcl -tclargs OUTPUT.xo\n"
                     "if {[llength $argv] != 1} {error \"usage: -tclargs OUTPUT.xo\"}\n"
                     "set xo [file normalize [lindex $argv 0]]\n"
                     "set here [file dirname [file normalize [info script]]]\n"
                     "set work [file join [pwd] package_" +
                     image.image +
                     "]\n"
                     "file delete -force $work $xo\n"
                     "create_project -force package $work -part " +
                     image.device->part +
                     "\n"
                     "set rtl [file normalize [file join $here " +
                     rtl +
                     "]]\n"
                     "set list [open [file join $rtl files.f]]\n"
                     "set sources [list [file join $here kernel.v] [file join $here mr_axil_split.sv]]\n"
                     "foreach line [split [string trim [read $list]] \\n] {lappend sources [file join $rtl "
                     "[string trim $line]]}\n"
                     "close $list\n"
                     "add_files -norecurse $sources\n"
                     "set memories [glob -nocomplain -directory $rtl *.hex *_thresholds.*]\n"
                     "if {[llength $memories] > 0} {\n  add_files -norecurse $memories\n"
                     "  set_property file_type {Memory Initialization Files} [get_files $memories]\n}\n"
                     "set_property top " +
                     kernel +
                     " [current_fileset]\n"
                     "update_compile_order -fileset sources_1\n"
                     "ipx::package_project -root_dir [file join $work ip] -vendor millrace -library kernel "
                     "-taxonomy /KernelIP -import_files -set_current true\n"
                     "set core [ipx::current_core]\n"
                     "set_property name " +
                     kernel +
                     " $core\n"
                     "set_property version 1.0 $core\n"
                     "set_property sdx_kernel true $core\n"
                     "set_property sdx_kernel_type rtl $core\n"
                     "set_property vitis_drc {ctrl_protocol user_managed} $core\n"
                     "set_property ipi_drc {ignore_freq_hz true} $core\n"
                     "ipx::infer_bus_interface ap_clk xilinx.com:signal:clock_rtl:1.0 $core\n"
                     "ipx::infer_bus_interface ap_rst_n xilinx.com:signal:reset_rtl:1.0 $core\n"
                     "ipx::infer_bus_interface interrupt xilinx.com:signal:interrupt_rtl:1.0 $core\n"
                     "foreach bus {s_axi_control";
  for (const std::string& master : master_names(top)) text += " m_axi_" + master;
  for (const std::string& stream : stream_names(top)) text += " " + stream;
  text += "} {\n  ipx::associate_bus_interfaces -busif $bus -clock ap_clk $core\n}\n";
  return text +
         "ipx::associate_bus_interfaces -clock ap_clk -reset ap_rst_n $core\n"
         "ipx::update_checksums $core\n"
         "ipx::check_integrity -kernel $core\n"
         "ipx::save_core $core\n"
         "package_xo -xo_path $xo -kernel_name " +
         kernel +
         " -ip_directory [file join $work ip] -kernel_xml [file join $here kernel.xml]\n"
         "close_project\n";
}

/// Units that are cables' ends, by connector.
std::string cable_unit(const VitisImage& image, std::size_t number) {
  return image.image + "_cable" + std::to_string(number);
}

std::string link_cfg(const VitisImage& image, const TopInterface& top, const std::string& kernel) {
  const std::size_t cables = top.connectors;
  std::string text = std::string(kNeverRun) + "platform=" + image.device->platform +
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

/// Which SLR the placer puts each instance of the dataflow into, where it spans several.
std::string regions_tcl(const VitisImage& image) {
  std::string text =
      std::string(kNeverRun) +
      "# Sourced before place_design: each instance of the dataflow goes into the region that "
      "the plan has it in.\n"
      "# A stream between two regions passes a register slice (_cross<n>) in each region on its "
      "way.\nforeach {region cells} {\n";
  for (const auto& [region, instances] : image.placed) {
    if (instances.empty()) continue;
    text += "  " + region + " {\n";
    for (const auto& instance : instances) text += "    " + instance + "\n";
    text += "  }\n";
  }
  return text +
         "} {\n  foreach cell $cells {\n"
         "    set found [get_cells -quiet -hierarchical -filter \"NAME =~ */" +
         image.image +
         "/inst/top/dataflow/$cell\"]\n"
         "    if {[llength $found] == 0} {error \"no cell $cell in " +
         image.image +
         ": was its hierarchy dissolved? Synthesise with -flatten_hierarchy rebuilt or none\"}\n"
         "    set_property USER_SLR_ASSIGNMENT $region $found\n  }\n}\n";
}

std::string aurora_folder(const VitisImage& image) {
  return "aurora_" + image.device->name;
}

std::string image_makefile(const VitisImage& image, const std::string& kernel, bool links) {
  const std::string aurora = "../" + aurora_folder(image) + "/" + kAuroraKernel + ".xo",
                    rtl = "../../rtl/" + image.partition;
  return std::string(kNeverRun) +
         "# make: the image's xclbin. Needs vivado and v++ in PATH (source Vitis' settings64.sh) and the "
         "platform installed.\n"
         "TARGET ?= hw\n.DELETE_ON_ERROR:\n.PHONY: all clean\nall: " +
         image.image + ".xclbin\n\n" + kernel +
         ".xo: package.tcl kernel.xml kernel.v mr_axil_split.sv $(wildcard " + rtl + "/* " + rtl +
         "/library/*)\n\tvivado -mode batch -nojournal -nolog -source package.tcl -tclargs $@\n\n" +
         image.image + ".xclbin: " + kernel + ".xo " + (links ? aurora + " " : "") + "link.cfg" +
         (image.placed.empty() ? "" : " regions.tcl") +
         "\n\tv++ --link --target $(TARGET) --config link.cfg" +
         (image.placed.empty()
              ? std::string()
              : " --vivado.prop run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE=$(CURDIR)/regions.tcl") +
         " --output $@ $(filter %.xo,$^)\n\n" +
         (links ? aurora + ":\n\t$(MAKE) -C ../" + aurora_folder(image) + "\n\n" : "") + "clean:\n\trm -rf " +
         kernel + ".xo " + image.image + ".xclbin package_" + image.image + " _x .Xil .ipcache\n";
}

/// Why an image with links is not handed over; empty where it is.
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
      std::string(kNeverRun) +
      "# make -j N: all images, N at a time; the kernel of their cables before them.\nIMAGES :=" + built +
      "\nCABLES :=" + cables + "\n.PHONY: all clean $(IMAGES) $(CABLES)\nall: $(IMAGES)\n" + order +
      "$(IMAGES) $(CABLES):\n\t$(MAKE) -C $@\nclean:\n"
      "\tfor folder in $(IMAGES) $(CABLES); do $(MAKE) -C $$folder clean; done\n";
  files["vitis/README.md"] =
      "# Building the images with Vitis\n\n    source <Vitis>/settings64.sh\n    make -C vitis -j 2\n\nEach "
      "image: package.tcl and kernel.xml make "
      "an RTL kernel (.xo) of ../rtl, link.cfg links it (.xclbin).\nThis has never been run: there "
      "was no Vivado, no Vitis "
      "and no card.\n" +
      (notes.empty() ? std::string() : "\nNot handed over:\n" + notes);
  return files;
}

}  // namespace millrace::compiler::emit
