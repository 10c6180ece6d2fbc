#include "compiler/emit/vitis/aurora.hpp"

#include "compiler/emit/vitis/text.hpp"

namespace millrace::compiler::emit {

std::optional<CablePins> cable_pins(const std::string& platform) {
  struct Known {
    const char* begins;
    CablePins pins;
  };
  static const std::vector<Known> known = {
      {"xilinx_u280_", {{"qsfp0", "qsfp1"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u55c_", {{"qsfp0", "qsfp1"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u50_", {{"qsfp"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u200_", {{"qsfp"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u250_", {{"qsfp"}, "ii_level1_wire/ulp_m_aclk_freerun_ref_00"}}};
  for (const Known& one : known)
    if (platform.starts_with(one.begins)) return one.pins;
  return std::nullopt;
}

std::string cable_connections(const CablePins& pins, const std::string& image, const std::string& cable,
                              std::size_t number) {
  return fill(vitis_text("cable_connections"), {{"image", image},
                                                {"cable", cable},
                                                {"link", "link" + std::to_string(number)},
                                                {"cage", pins.cages[number]},
                                                {"clock", pins.free_clock}});
}

std::map<std::string, std::string> aurora_files(const runtime::plan::Device& device) {
  return {{"millrace_aurora.v", std::string(vitis_text("aurora_kernel"))},
          {"mr_aurora.sv", library_text("link/mr_aurora.sv")},
          {"kernel.xml", std::string(vitis_text("aurora_kernel_xml"))},
          {"package.tcl", kNeverRun + fill(vitis_text("aurora_package"), {{"part", device.part}})},
          {"Makefile", kNeverRun + std::string(vitis_text("aurora_makefile"))}};
}

}  // namespace millrace::compiler::emit
