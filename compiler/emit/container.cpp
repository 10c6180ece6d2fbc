#include "compiler/emit/container.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "compiler/emit/container_parts.hpp"
#include "compiler/emit/rtl/text.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::compiler::emit {

std::string_view container_text(std::string_view name);  // defined by CMake from templates/

namespace {

namespace json = boost::json;
namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;

constexpr std::uint64_t kUnitBase = 0x800000;
constexpr std::uint64_t kUnitRange = 0x10000;
constexpr std::size_t kMaxUnits = 128;  // interrupt ids have 7 bits
constexpr std::size_t kMaxIpName = 63;

constexpr Argument kStreamArguments[] = {{"buffer", "void*", true, 0x10, 8},
                                         {"bytes", "uint", false, 0x1c, 4},
                                         {"epoch", "uint", false, 0x24, 4},
                                         {"sequence", "ulong", false, 0x2c, 8}};
// kControlArguments lists plain registers, which are not arguments of a run. If the list were empty, XRT 2.13 would
// give the compute unit no address range, and xrt::ip would refuse every access.
constexpr Argument kControlArguments[] = {{"epoch", "uint", false, abi::kRegEpoch, 4},
                                          {"supervisor_stop", "uint", false, abi::kRegSupervisorStop, 4}};
constexpr Argument kParametersArguments[] = {{"buffer", "void*", true, 0x10, 8},
                                             {"bytes", "uint", false, 0x1c, 4},
                                             {"load_offset", "uint", false, 0x24, 4},
                                             {"load_bytes", "uint", false, 0x2c, 4},
                                             {"streamed_offset", "uint", false, 0x34, 4}};
constexpr Argument kSupervisorArguments[] = {{"report", "void*", true, 0x10, 8}};

/// Returns "unit" of "kernel:{unit}".
std::string unit_of(const std::string& compute_unit) {
  const std::size_t open = compute_unit.find('{');
  return compute_unit.substr(open + 1, compute_unit.size() - open - 2);
}

}  // namespace

std::vector<Kernel> kernels_of(const plan::ImageRecord& record) {
  Kernel ingress{abi::kIngressKernel, AP_CTRL_CHAIN, kStreamArguments, {}};
  Kernel egress{abi::kEgressKernel, AP_CTRL_CHAIN, kStreamArguments, {}};
  Kernel parameters{abi::kParametersKernel, AP_CTRL_CHAIN, kParametersArguments, {}};
  std::uint64_t window = 2;  // windows 0 and 1 are control and supervisor
  for (const auto& partition : record.partitions) {
    if (!partition.parameters_unit.empty())
      parameters.units.push_back({unit_of(partition.parameters_unit), "parameters", window++});
    std::map<std::string, int>
        copies;  // a port with several channels has a unit for each: "out0", "out0_2", …
    for (const auto& port : partition.ports) {
      const int copy = ++copies[port.name];
      const std::string unit = port.name + (copy > 1 ? "_" + std::to_string(copy) : "");
      if (port.kind == plan::PortKind::kIngress)
        ingress.units.push_back({unit_of(port.compute_unit), unit, window++, port.memory_bank});
      if (port.kind == plan::PortKind::kEgress)
        egress.units.push_back({unit_of(port.compute_unit), unit, window++, port.memory_bank});
    }
  }
  std::vector<Kernel> kernels;
  for (auto* kernel : {&ingress, &egress, &parameters})
    if (!kernel->units.empty()) kernels.push_back(std::move(*kernel));
  kernels.push_back({abi::kSupervisorKernel,
                     AP_CTRL_CHAIN,
                     kSupervisorArguments,
                     {{abi::kSupervisorUnit, "supervisor", 1}}});
  kernels.push_back(
      {abi::kControlKernel, AP_CTRL_NONE, kControlArguments, {{abi::kControlUnit, "control", 0}}});
  return kernels;
}

namespace {

template <std::size_t N, class Char>
void put_text(Char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

Bytes as_section(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

Bytes memory_section(const plan::Device& device) {
  std::vector<mem_data> rows;
  std::uint64_t base = 0;
  for (const auto& bank : device.memory) {
    mem_data entry{};
    entry.m_type = MEM_DDR4;
    entry.m_used = 1;
    entry.m_size = bank.capacity_bytes / 1024;
    entry.m_base_address = base;
    put_text(entry.m_tag, bank.name);
    rows.push_back(entry);
    base += (bank.capacity_bytes + 0xfffff) & ~std::uint64_t{0xfffff};
  }
  return table<std::int32_t>(offsetof(mem_topology, m_mem_data), rows);
}

/// Returns a compute unit's interrupt id. Ids ascend with addresses, because XRT may number units by id or by address.
std::uint32_t rank_of(const std::vector<Kernel>& kernels, const Unit& unit) {
  std::uint32_t rank = 0;
  for (const auto& kernel : kernels)
    for (const auto& other : kernel.units) rank += other.base < unit.base ? 1 : 0;
  return rank;
}

/// Returns the section IP_LAYOUT: our compute units, then the vendor's other units. Connectivity tables refer
/// to rows by their number, so our rows must come first.
Bytes ip_section(const std::vector<Kernel>& kernels, const FromVendor* vendor) {
  // A kernel that v++ links has only one interrupt for all its register windows. XRT cannot tell which window raised
  // the interrupt, so XRT polls the windows instead.
  const bool interrupts = vendor == nullptr;
  std::vector<ip_data> rows;
  for (const auto& kernel : kernels)
    for (const auto& unit : kernel.units) {
      ip_data entry{};
      entry.m_type = IP_KERNEL;
      entry.properties = (rank_of(kernels, unit) << IP_INTERRUPT_ID_SHIFT) |
                         (static_cast<std::uint32_t>(kernel.control) << IP_CONTROL_SHIFT);
      if (kernel.control != AP_CTRL_NONE && interrupts) entry.properties |= IP_INT_ENABLE_MASK;
      entry.m_base_address = unit.base;
      put_text(entry.m_name, kernel.name + ":" + unit.name);
      rows.push_back(entry);
    }
  if (vendor != nullptr) rows.insert(rows.end(), vendor->ips.begin(), vendor->ips.end());
  return table<std::int32_t>(offsetof(ip_layout, m_ip_data), rows);
}

Bytes connectivity_section(const std::vector<Kernel>& kernels) {
  std::vector<connection> rows;
  std::int32_t ip = 0;
  for (const auto& kernel : kernels)
    for (const auto& unit : kernel.units) {
      for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        if (kernel.arguments[i].global)
          rows.push_back({static_cast<std::int32_t>(i), ip, static_cast<std::int32_t>(unit.memory_bank)});
      }
      ++ip;
    }
  return table<std::int32_t>(offsetof(::connectivity, m_connection), rows);
}

Bytes clock_section(double clock_mhz) {
  clock_freq entry{};
  entry.m_freq_Mhz = static_cast<std::uint16_t>(std::lround(clock_mhz));
  entry.m_type = CT_KERNEL;
  put_text(entry.m_name, "KERNEL_CLK");
  return table<std::int16_t>(offsetof(clock_freq_topology, m_clock_freq), std::vector<clock_freq>{entry});
}

std::string metadata(const plan::ImageRecord& record, const plan::Device& device,
                     const std::vector<Kernel>& kernels, std::uint64_t range) {
  json::array all;
  for (const auto& kernel : kernels) {
    json::array arguments, units;
    bool memory = false;
    for (const Argument& argument : kernel.arguments) {
      memory = memory || argument.global;
      arguments.push_back({{"argument", argument.name},
                           {"qualifier", argument.global ? 1 : 0},
                           {"id", arguments.size()},
                           {"port", argument.global ? "M_AXI_GMEM" : "S_AXI_CONTROL"},
                           {"size", argument.size},
                           {"offset", argument.offset},
                           {"type", argument.type}});
    }
    for (const auto& unit : kernel.units) units.push_back({{"unit", unit.name}, {"base", unit.base}});
    all.push_back({{"name", kernel.name},
                   {"protocol", kernel.control == AP_CTRL_NONE ? "user_managed" : "ap_ctrl_chain"},
                   {"memory", memory},
                   {"arguments", std::move(arguments)},
                   {"units", std::move(units)}});
  }
  return fill(container_text("metadata"), {{"record", record.name},
                                           {"device", device.name},
                                           {"fpga", device.family + ":" + device.part},
                                           {"clock", std::lround(record.clock_mhz)},
                                           {"range", range},
                                           {"kernels", std::move(all)}});
}

}  // namespace

void add_own_sections(const plan::EmulationData& data, const plan::Device& device,
                      const std::vector<Kernel>& kernels, const FromVendor* vendor, Bytes connectivity,
                      Bytes group_connectivity, const std::vector<plan::Pace>& paces,
                      std::vector<Section>& sections) {
  sections.push_back({IP_LAYOUT, "ip_layout", ip_section(kernels, vendor)});
  sections.push_back({CONNECTIVITY, "connectivity", std::move(connectivity)});
  sections.push_back({ASK_GROUP_CONNECTIVITY, "group_connect", std::move(group_connectivity)});
  if (vendor == nullptr)
    sections.push_back({CLOCK_FREQ_TOPOLOGY, "clock_freq", clock_section(data.record.clock_mhz)});
  const std::uint64_t range = vendor == nullptr ? kUnitRange : kWindowRange;
  sections.push_back(
      {EMBEDDED_METADATA, "embedded_meta", as_section(metadata(data.record, device, kernels, range))});
  sections.push_back({USER_METADATA, "millrace_record", as_section(plan::to_json(data.record))});
  sections.push_back(
      {EMULATION_DATA, "emulation_data",
       paces.empty() ? plan::encode_emulation_data(data) : plan::encode_emulation_data(data, paces)});
}

void put_uuid(const std::string& uuid, axlf& header) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < uuid.size(); i += 2) {
    if (uuid[i] == '-') ++i;
    header.m_header.uuid[at++] = static_cast<unsigned char>(std::stoi(uuid.substr(i, 2), nullptr, 16));
  }
  std::memcpy(&header.m_uniqueId, header.m_header.uuid, sizeof header.m_uniqueId);  // instead of a time
}

namespace {

axlf header_of(const plan::ImageRecord& record, const plan::Device& device, std::size_t sections) {
  axlf header{};
  std::memcpy(header.m_magic, "xclbin2", 8);
  header.m_signature_length = -1;
  std::memset(header.reserved, 0xff, sizeof header.reserved);
  header.m_header.m_versionMajor = 2;
  header.m_header.m_versionMinor = 13;
  header.m_header.m_versionPatch = 466;
  header.m_header.m_mode = XCLBIN_PR;
  put_text(header.m_header.m_platformVBNV,
           device.platform.empty() ? "millrace_" + device.name : device.platform);
  header.m_header.m_numSections = static_cast<std::uint32_t>(sections);

  put_uuid(plan::uuid_from_digest(record.content_digest), header);
  return header;
}

}  // namespace

Bytes assemble(axlf header, const std::vector<Section>& sections) {
  const auto align = [](std::size_t size) { return (size + 7) / 8 * 8; };
  const std::size_t table = offsetof(axlf, m_sections);
  Bytes out(align(table + sections.size() * sizeof(axlf_section_header)));
  for (std::size_t i = 0; i < sections.size(); ++i) {
    axlf_section_header entry{};
    entry.m_sectionKind = sections[i].kind;
    put_text(entry.m_sectionName, sections[i].name);
    entry.m_sectionOffset = out.size();
    entry.m_sectionSize = sections[i].bytes.size();
    std::memcpy(out.data() + table + i * sizeof entry, &entry, sizeof entry);
    out.insert(out.end(), sections[i].bytes.begin(), sections[i].bytes.end());
    out.resize(align(out.size()));
  }
  header.m_header.m_length = out.size();
  std::memcpy(out.data(), &header, table);
  plan::seal_xclbin(out);
  return out;
}

std::string compute_unit(const std::string& kernel, const std::string& partition, const std::string& port,
                         std::size_t copy) {
  std::string unit = partition + "_" + port + (copy == 0 ? "" : "_" + std::to_string(copy + 1));
  const std::size_t room = kMaxIpName - kernel.size() - 1;
  if (unit.size() > room) unit = unit.substr(0, room - 9) + "_" + sha256_hex(unit).substr(0, 8);
  return kernel + ":{" + unit + "}";
}

Result<Bytes> write_container(const plan::EmulationData& data, const plan::Device& device,
                              std::span<const std::byte> bitstream, const std::vector<plan::Pace>& paces) {
  std::vector<Kernel> kernels = kernels_of(data.record);
  std::size_t units = 0;
  for (auto& kernel : kernels)
    for (auto& unit : kernel.units) {
      if (kernel.name.size() + 1 + unit.name.size() > kMaxIpName || unit.memory_bank >= device.memory.size())
        return Error(ErrorCode::kInternal,
                     "image '" + data.record.name + "': compute unit '" + unit.name + "' cannot be written");
      unit.base = kUnitBase + units++ * kUnitRange;
    }
  if (units > kMaxUnits)
    return Error(ErrorCode::kDoesNotFit, "image '" + data.record.name + "' needs " + std::to_string(units) +
                                             " compute units, but an xclbin holds " +
                                             std::to_string(kMaxUnits) + "; use more partitions");
  const Bytes memory = memory_section(device);
  const Bytes connectivity = connectivity_section(kernels);
  std::vector<Section> sections = {{BITSTREAM, "bitstream", Bytes(bitstream.begin(), bitstream.end())},
                                   {MEM_TOPOLOGY, "mem_topology", memory},
                                   {ASK_GROUP_TOPOLOGY, "group_topology", memory}};
  add_own_sections(data, device, kernels, nullptr, connectivity, connectivity, paces, sections);
  return assemble(header_of(data.record, device, sections.size()), sections);
}

}  // namespace millrace::compiler::emit
