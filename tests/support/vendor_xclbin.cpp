#include "tests/support/vendor_xclbin.hpp"

#include <xrt/xclbin.h>

#include <cstring>
#include <span>
#include <utility>

namespace millrace::tests {
namespace {

template <class Count, class Row>
std::vector<std::byte> section_of(std::size_t rows_at, const std::vector<Row>& rows) {
  const auto count = static_cast<Count>(rows.size());
  std::vector<std::byte> bytes(rows_at + rows.size() * sizeof(Row));
  std::memcpy(bytes.data(), &count, sizeof count);
  std::memcpy(bytes.data() + rows_at, rows.data(), rows.size() * sizeof(Row));
  return bytes;
}

}  // namespace

std::string Vendor::metadata() const {
  std::string xml =
      "<?xml version=\"1.0\"?>\n<project name=\"p\"><kernel name=\"other\"><args><arg name=\"in0\" "
      "id=\"7\"/></args></kernel>\n<kernel name=\"" +
      kernel + "\" language=\"ip\"><args>\n";
  for (std::size_t i = 0; i < arguments.size(); ++i)
    xml += "<arg name=\"" + arguments[i] + "\" addressQualifier=\"1\" id=\"" + std::to_string(i) +
           "\" port=\"m_axi_" + arguments[i] + "\" type=\"void*\"/>\n";
  return xml + "</args></kernel></project>\n";
}

std::vector<std::byte> Vendor::bytes() const {
  std::vector<ip_data> ips(3);
  ips[0].m_type = ips[1].m_type = IP_KERNEL;
  ips[2].m_type = IP_DDR4_CONTROLLER;
  std::strcpy(reinterpret_cast<char*>(ips[2].m_name), "slr1/memory_subsystem");
  ips[2].m_base_address = 0x300000;
  std::strcpy(reinterpret_cast<char*>(ips[0].m_name), "other:other");
  std::strcpy(reinterpret_cast<char*>(ips[1].m_name), unit.c_str());
  ips[1].m_base_address = 0x1c00000;
  std::vector<mem_data> banks(2);
  std::strcpy(reinterpret_cast<char*>(banks[0].m_tag), "HBM[0]");
  std::strcpy(reinterpret_cast<char*>(banks[1].m_tag), "DDR[1]");
  banks[1].m_used = 1;
  banks[1].m_size = 1U << 20U;
  const auto text = [](const std::string& t) {
    const auto span = std::as_bytes(std::span(t.data(), t.size()));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  const auto memory = section_of<std::int32_t>(offsetof(mem_topology, m_mem_data), banks);
  std::vector<connection> rows;
  for (const Connection& c : connections) rows.push_back({c.argument, c.unit, c.memory});
  const auto connected = section_of<std::int32_t>(offsetof(::connectivity, m_connection), rows);
  std::vector<clock_freq> clocks(2);
  clocks[0].m_freq_Mhz = 500;  // for kernels with a second clock
  clocks[0].m_type = CT_KERNEL;
  clocks[1].m_freq_Mhz = mhz;
  clocks[1].m_type = CT_DATA;
  std::vector<std::pair<axlf_section_kind, std::vector<std::byte>>> sections = {
      {BITSTREAM, text(bits)},
      {MEM_TOPOLOGY, memory},
      {ASK_GROUP_TOPOLOGY, memory},
      {IP_LAYOUT, section_of<std::int32_t>(offsetof(ip_layout, m_ip_data), ips)},
      {CONNECTIVITY, connected},
      {ASK_GROUP_CONNECTIVITY, connected},
      {PARTITION_METADATA, text("the shell's own")},
      {EMBEDDED_METADATA, text(metadata())}};
  if (mhz > 0)
    sections.push_back(
        {CLOCK_FREQ_TOPOLOGY, section_of<std::int16_t>(offsetof(clock_freq_topology, m_clock_freq), clocks)});
  axlf header{};
  std::memcpy(header.m_magic, "xclbin2", 8);
  std::memset(header.m_header.uuid, 0x5a, 16);
  std::strcpy(reinterpret_cast<char*>(header.m_header.m_platformVBNV), "xilinx_u280_gen3x16_xdma_1_202211_1");
  header.m_header.m_numSections = static_cast<std::uint32_t>(sections.size());
  const std::size_t table = offsetof(axlf, m_sections);
  std::vector<std::byte> out((table + sections.size() * sizeof(axlf_section_header) + 7) / 8 * 8);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    axlf_section_header entry{};
    entry.m_sectionKind = sections[i].first;
    entry.m_sectionOffset = out.size();
    entry.m_sectionSize = sections[i].second.size();
    std::memcpy(out.data() + table + i * sizeof entry, &entry, sizeof entry);
    out.insert(out.end(), sections[i].second.begin(), sections[i].second.end());
    out.resize((out.size() + 7) / 8 * 8);
  }
  header.m_header.m_length = out.size();
  header.m_signature_length = is_signed ? 8 : -1;
  std::memcpy(out.data(), &header, table);
  if (is_signed) out.resize(out.size() + 8);
  return out;
}

}  // namespace millrace::tests
