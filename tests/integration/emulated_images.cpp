#include "emulated_images.hpp"

#include <xrt/xclbin.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

#include "compiler/emit/container.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::tests {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;

namespace {

plan::Device test_device() {
  plan::Device device;
  device.name = "ku060";
  device.part = "xcku060";
  device.family = "xcku";
  device.clock_mhz = 156.25;
  device.regions.push_back({"all", {}, {"DDR[0]", "DDR[1]"}, "device"});
  device.memory = {{"DDR[0]", 64U << 20U, 19'200'000'000}, {"DDR[1]", 64U << 20U, 19'200'000'000}};
  device.connectors = 4;
  return device;
}

kernels::Tensor vector_tensor(std::string name, std::uint32_t elements, kernels::ElementType type) {
  kernels::Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = {1, 1, elements};
  return tensor;
}

template <class T>
T read(const Bytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

plan::Cluster test_cluster() {
  plan::Cluster cluster;
  cluster.name = "four-test-cards";
  cluster.emulated = true;
  cluster.devices["ku060"] = test_device();
  for (const char* name : {"fpga0", "fpga1", "fpga2", "fpga3"}) cluster.cards.push_back({name, "ku060", ""});
  cluster.cables.push_back({"0-1", {"fpga0", 0}, {"fpga1", 0}, 10, 100});
  cluster.cables.push_back({"1-2", {"fpga1", 1}, {"fpga2", 0}, 10, 100});
  cluster.cables.push_back({"0-2", {"fpga0", 1}, {"fpga2", 1}, 10, 100});
  return cluster;
}

kernels::Program lookup_program(std::uint32_t elements, std::uint32_t seed, kernels::ElementType from,
                                kernels::ElementType to) {
  kernels::Program program;
  program.name = "lookup" + std::to_string(seed);
  program.tensors = {vector_tensor("in", elements, from), vector_tensor("out", elements, to)};
  program.inputs = {0};
  program.outputs = {1};
  kernels::Lookup lookup;
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> value(static_cast<int>(to.lowest()), static_cast<int>(to.highest()));
  for (int i = 0; i < 1 << from.bits; ++i) lookup.table.push_back(static_cast<std::int16_t>(value(random)));
  program.blocks.push_back({"lookup", {}, {0}, {1}, lookup});
  return program;
}

kernels::Program add_program(std::uint32_t elements) {
  kernels::Program program;
  program.name = "add";
  program.tensors = {vector_tensor("a", elements, {}), vector_tensor("b", elements, {}),
                     vector_tensor("out", elements, {})};
  program.inputs = {0, 1};
  program.outputs = {2};
  kernels::Add add;
  add.lowest = -128;
  add.highest = 127;
  program.blocks.push_back({"add", {}, {0, 1}, {2}, add});
  return program;
}

plan::EmulationData image_data(const kernels::Program& program, const std::vector<PortSpec>& ports) {
  plan::EmulationData data;
  data.record.abi_version = abi::kAbiVersion;
  data.record.name = "image_" + program.name;
  data.record.device = "ku060";
  data.record.clock_mhz = 156.25;
  plan::ImagePartition partition;
  partition.name = "p";
  partition.region = "all";
  partition.program_digest = plan::program_digest(program);
  std::uint32_t row = 0;
  std::size_t index = 0, outputs = 0;
  std::string last;
  for (const auto& spec : ports) {
    plan::ImagePort port;
    port.name = spec.name;
    port.kind = spec.kind;
    const bool input = index < program.inputs.size();
    if (!input && spec.name != last) last = spec.name, ++outputs;
    const auto& tensor = program.tensors[input ? program.inputs[index] : program.outputs.at(outputs - 1)];
    port.type = tensor.type;
    port.elements = tensor.elements();
    if (spec.kind == plan::PortKind::kIngress)
      port.compute_unit = compiler::emit::compute_unit(abi::kIngressKernel, "p", spec.name);
    else if (spec.kind == plan::PortKind::kEgress)
      port.compute_unit = compiler::emit::compute_unit(abi::kEgressKernel, "p", spec.name);
    else
      port.link_index = row++;
    partition.ports.push_back(port);
    ++index;
  }
  data.record.partitions.push_back(partition);
  data.programs.push_back(program);
  data.record.content_digest = plan::compute_content_digest(data.record);
  return data;
}

Bytes container(const plan::EmulationData& data) {
  auto bytes = compiler::emit::write_container(data, test_device());
  if (!bytes.ok()) throw std::runtime_error(bytes.error().message());
  return *bytes;
}

Bytes empty_kernel_image() {
  XclbinParts parts(container(image_data(
      lookup_program(16, 1), {{"in0", plan::PortKind::kIngress}, {"out0", plan::PortKind::kEgress}})));
  parts.set_uuid(0x55);
  parts.remove(EMULATION_DATA);
  parts.remove(USER_METADATA);
  ip_data unit{};
  unit.m_type = IP_KERNEL;
  unit.properties = IP_INT_ENABLE_MASK | (static_cast<std::uint32_t>(AP_CTRL_CHAIN) << IP_CONTROL_SHIFT);
  unit.m_base_address = 0x800000;
  std::memcpy(unit.m_name, "millrace_nop:nop_1", 18);
  auto& layout = *parts.find(IP_LAYOUT);
  layout.assign(offsetof(ip_layout, m_ip_data) + sizeof unit, std::byte{});
  layout[0] = std::byte{1};
  std::memcpy(layout.data() + offsetof(ip_layout, m_ip_data), &unit, sizeof unit);
  for (const auto kind : {CONNECTIVITY, ASK_GROUP_CONNECTIVITY})
    parts.find(kind)->assign(sizeof(connectivity), std::byte{});
  const std::string xml =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<project name=\"nop\"><platform vendor=\"millrace\" "
      "boardid=\"t\" "
      "name=\"t\" featureRomTime=\"0\"><device name=\"fpga0\" fpgaDevice=\"xcku:xcku060\" "
      "addrWidth=\"0\"><core "
      "name=\"OCL_REGION_0\" target=\"hw\" type=\"clc_region\" clockFreq=\"156MHz\" "
      "numComputeUnits=\"1\"><kernel "
      "name=\"millrace_nop\" language=\"ip\" vlnv=\"millrace:kernel:millrace_nop:1.0\" attributes=\"\" "
      "preferredWorkGroupSizeMultiple=\"0\" workGroupSize=\"1\" interrupt=\"true\" "
      "hwControlProtocol=\"ap_ctrl_chain\">"
      "<port name=\"S_AXI_CONTROL\" mode=\"slave\" range=\"0x10000\" dataWidth=\"32\" "
      "portType=\"addressable\" "
      "base=\"0x0\"/><arg name=\"unused\" addressQualifier=\"0\" id=\"0\" port=\"S_AXI_CONTROL\" "
      "size=\"0x4\" "
      "offset=\"0x10\" hostOffset=\"0x0\" hostSize=\"0x4\" type=\"uint\"/><instance "
      "name=\"nop_1\"><addrRemap "
      "base=\"0x800000\" range=\"0x10000\" "
      "port=\"S_AXI_CONTROL\"/></instance></kernel></core></device></platform></project>\n";
  const auto text = std::as_bytes(std::span(xml));
  parts.find(EMBEDDED_METADATA)->assign(text.begin(), text.end());
  return parts.assemble();
}

XclbinParts::XclbinParts(const Bytes& container) {
  const auto table = offsetof(axlf, m_sections);
  header.assign(container.begin(), container.begin() + static_cast<std::ptrdiff_t>(table));
  const auto head = read<axlf>(container, 0);
  for (std::uint32_t i = 0; i < head.m_header.m_numSections; ++i) {
    const auto entry = read<axlf_section_header>(container, table + i * sizeof(axlf_section_header));
    const auto begin = container.begin() + static_cast<std::ptrdiff_t>(entry.m_sectionOffset);
    sections.push_back({entry.m_sectionKind, entry.m_sectionName,
                        Bytes(begin, begin + static_cast<std::ptrdiff_t>(entry.m_sectionSize))});
  }
}

Bytes* XclbinParts::find(std::uint32_t kind) {
  for (auto& section : sections)
    if (section.kind == kind) return &section.bytes;
  return nullptr;
}

void XclbinParts::remove(std::uint32_t kind) {
  std::erase_if(sections, [kind](const Section& section) { return section.kind == kind; });
}

void XclbinParts::set_uuid(unsigned char salt) {
  header[offsetof(axlf, m_header) + offsetof(axlf_header, uuid)] ^= static_cast<std::byte>(salt);
}

Bytes XclbinParts::assemble() const {
  const auto align = [](std::size_t size) { return (size + 7) / 8 * 8; };
  Bytes out = header;
  out.resize(align(header.size() + std::max<std::size_t>(sections.size(), 1) * sizeof(axlf_section_header)));
  for (std::size_t i = 0; i < sections.size(); ++i) {
    axlf_section_header entry{};
    entry.m_sectionKind = sections[i].kind;
    sections[i].name.copy(entry.m_sectionName, sizeof entry.m_sectionName - 1);
    entry.m_sectionOffset = out.size();
    entry.m_sectionSize = sections[i].bytes.size();
    std::memcpy(out.data() + header.size() + i * sizeof entry, &entry, sizeof entry);
    out.insert(out.end(), sections[i].bytes.begin(), sections[i].bytes.end());
    out.resize(align(out.size()));
  }
  const std::uint64_t length = out.size();
  const auto count = static_cast<std::uint32_t>(sections.size());
  std::memcpy(out.data() + offsetof(axlf, m_header) + offsetof(axlf_header, m_length), &length,
              sizeof length);
  std::memcpy(out.data() + offsetof(axlf, m_header) + offsetof(axlf_header, m_numSections), &count,
              sizeof count);
  return out;
}

}  // namespace millrace::tests
