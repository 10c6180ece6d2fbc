// Makes an FPGA image of an xclbin that the vendor's tools linked (pack_container() in container.hpp).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "compiler/emit/container.hpp"
#include "compiler/emit/container_parts.hpp"
#include "runtime/base/digest.hpp"

namespace millrace::compiler::emit {
namespace {

namespace plan = runtime::plan;

Error wrong(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, what);
}

/// Returns the rows of a table in a vendor's section. The table begins with a `Count` and has its rows from offset
/// `rows_at` on. Returns nothing if the table is missing or cut short.
template <class Count, class Row>
std::optional<std::vector<Row>> rows_of(const plan::XclbinSection* section, std::size_t rows_at) {
  Count count{};
  if (section == nullptr || section->bytes.size() < rows_at) return std::nullopt;
  std::memcpy(&count, section->bytes.data(), sizeof count);
  if (count < 0 || static_cast<std::size_t>(count) > (section->bytes.size() - rows_at) / sizeof(Row))
    return std::nullopt;
  std::vector<Row> rows(static_cast<std::size_t>(count));
  if (!rows.empty()) std::memcpy(rows.data(), section->bytes.data() + rows_at, rows.size() * sizeof(Row));
  return rows;
}

/// Returns an attribute of an XML tag (the text between '<' and '>'), or nothing if the tag lacks it.
std::optional<std::string_view> attribute(std::string_view tag, const std::string& name) {
  const std::string wanted = " " + name + "=\"";
  const std::size_t begin = tag.find(wanted);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = tag.substr(begin + wanted.size());
  return rest.substr(0, rest.find('"'));
}

/// The arguments of a kernel in a vendor's EMBEDDED_METADATA, an XML text with a tag <arg name="in0" id="1" …/> for each.
class KernelArguments {
 public:
  /// `section` may be null. Its bytes must outlive this object.
  KernelArguments(const plan::XclbinSection* section, const std::string& kernel) : kernel_(kernel) {
    if (section == nullptr) return;
    std::string_view text(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
    bool inside = false;
    for (std::size_t open = text.find('<'); open != std::string_view::npos; open = text.find('<')) {
      text.remove_prefix(open + 1);
      const std::string_view tag = text.substr(0, text.find('>'));
      if (tag.starts_with("kernel ")) inside = attribute(tag, "name") == kernel;
      if (tag.starts_with("/kernel")) inside = false;
      if (inside && tag.starts_with("arg ")) tags_.push_back(tag);
    }
  }

  /// Returns the number of an argument, by which the connectivity tables refer to it.
  Result<std::int32_t> number_of(const std::string& name) const {
    for (const std::string_view tag : tags_) {
      if (attribute(tag, "name") != name) continue;
      const std::string id(attribute(tag, "id").value_or(""));
      const bool digits = !id.empty() && id.size() < 5 &&
                          std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits)
        return wrong("in the section EMBEDDED_METADATA of the xclbin, the id of argument '" + name +
                     "' of kernel '" + kernel_ + "' is '" + id + "', which is not a number");
      return std::stoi(id);
    }
    return wrong(
        "the section EMBEDDED_METADATA of the xclbin lists no argument '" + name + "' of kernel '" + kernel_ +
        "': the xclbin was built from another vitis folder; run make in vitis/ of this deployment again");
  }

 private:
  std::string kernel_;
  std::vector<std::string_view> tags_;
};

/// The vendor's file, with the parts that packing reads.
struct VendorFile {
  plan::XclbinView view;
  std::vector<ip_data> ips;
  std::int32_t ip = 0;  // row of the compute unit that has all our register windows
};

/// Connects our compute units to memories as v++ connected the arguments of its one kernel, which have the names of the
/// units in the partition's top module. `connections` and `memories` are the sections with the connectivity and with the
/// memories to which it refers.
Result<Bytes> vendor_connectivity(const VendorFile& file, axlf_section_kind connections,
                                  axlf_section_kind memories, const KernelArguments& arguments,
                                  const std::vector<Kernel>& kernels) {
  const auto listed =
      rows_of<std::int32_t, mem_data>(file.view.find(memories), offsetof(mem_topology, m_mem_data));
  if (!listed) return wrong("the MEM_TOPOLOGY section of the xclbin is missing or truncated");
  const auto vendor =
      rows_of<std::int32_t, connection>(file.view.find(connections), offsetof(::connectivity, m_connection));
  if (!vendor) return wrong("the CONNECTIVITY section of the xclbin is missing or truncated");
  std::vector<connection> rows;
  std::int32_t index = 0;
  for (const auto& kernel : kernels)
    for (const auto& unit : kernel.units) {
      for (std::size_t argument = 0; argument < kernel.arguments.size(); ++argument) {
        if (!kernel.arguments[argument].global) continue;
        MILLRACE_ASSIGN(const std::int32_t wanted, arguments.number_of(unit.unit));
        const auto at = std::find_if(vendor->begin(), vendor->end(), [&](const connection& c) {
          return c.m_ip_layout_index == file.ip && c.arg_index == wanted;
        });
        const std::string name = "argument " + std::to_string(wanted) + " ('" + unit.unit + "')";
        if (at == vendor->end())
          return wrong("the xclbin connects no memory to " + name + ", the buffer of " + kernel.name + ":" +
                       unit.name);
        if (at->mem_data_index < 0 || static_cast<std::size_t>(at->mem_data_index) >= listed->size())
          return wrong("the xclbin connects " + name + " to memory " + std::to_string(at->mem_data_index) +
                       ", which it does not list");
        rows.push_back({static_cast<std::int32_t>(argument), index, at->mem_data_index});
      }
      ++index;
    }
  return table<std::int32_t>(offsetof(::connectivity, m_connection), rows);
}

/// Returns the clock of the kernel in MHz. `planned` is the clock that link.cfg asks for. A kernel with one clock runs on
/// the platform's first clock, of the type DATA; a container of our own has only a clock of the type KERNEL.
Result<double> achieved_clock(const plan::XclbinView& view, double planned) {
  const auto clocks = rows_of<std::int16_t, clock_freq>(view.find(CLOCK_FREQ_TOPOLOGY),
                                                        offsetof(clock_freq_topology, m_clock_freq));
  if (!clocks)
    return wrong(
        "the section CLOCK_FREQ_TOPOLOGY of the xclbin is missing or truncated, "
        "so the clock that v++ achieved is unknown; "
        "link the image for hardware again (v++ --link --target hw)");
  for (const auto type : {CT_DATA, CT_KERNEL}) {
    const auto clock = std::find_if(clocks->begin(), clocks->end(), [&](const clock_freq& one) {
      return one.m_type == type && one.m_freq_Mhz > 0;
    });
    if (clock == clocks->end()) continue;
    const double mhz = clock->m_freq_Mhz;
    return std::floor(planned) == mhz || std::round(planned) == mhz ? planned : mhz;
  }
  return wrong(
      "the section CLOCK_FREQ_TOPOLOGY of the xclbin lists no clock of the type DATA or KERNEL, "
      "so the clock that v++ achieved is unknown; "
      "link the image for hardware again (v++ --link --target hw)");
}

Result<VendorFile> read_vendor(std::span<const std::byte> bytes, const std::string& unit) {
  VendorFile file;
  MILLRACE_ASSIGN(file.view, plan::parse_xclbin(bytes));
  axlf header{};
  std::memcpy(&header, bytes.data(), offsetof(axlf, m_sections));
  if (header.m_signature_length > 0)
    return wrong(
        "the xclbin is signed, and the signature would not fit the packed image; pack an unsigned xclbin; "
        "if the card demands a signature, sign the packed image (xclbinutil --private-key)");
  const plan::XclbinSection* bits = file.view.find(BITSTREAM);
  if (bits == nullptr || bits->bytes.empty())
    return wrong("the xclbin has no bitstream, so it is not the output of v++ --link for hardware");
  auto ips = rows_of<std::int32_t, ip_data>(file.view.find(IP_LAYOUT), offsetof(ip_layout, m_ip_data));
  if (!ips) return wrong("the IP_LAYOUT section of the xclbin is missing or truncated");
  file.ips = std::move(*ips);
  const auto found = std::find_if(file.ips.begin(), file.ips.end(), [&](const ip_data& row) {
    const char* name = reinterpret_cast<const char*>(row.m_name);
    return std::string_view(name, ::strnlen(name, sizeof row.m_name)) == unit;
  });
  if (found == file.ips.end())
    return wrong("the xclbin has no compute unit '" + unit + "': it was built for another image");
  file.ip = static_cast<std::int32_t>(found - file.ips.begin());
  return file;
}

/// Returns the vendor's sections that a packed image keeps as they are.
std::vector<Section> kept_sections(const plan::XclbinView& view) {
  std::vector<Section> sections;
  for (const plan::XclbinSection& section : view.sections) {
    switch (section.kind) {
      case IP_LAYOUT:
      case CONNECTIVITY:
      case ASK_GROUP_CONNECTIVITY:
      case EMBEDDED_METADATA:
      case USER_METADATA:
      case EMULATION_DATA:
        break;
      default:
        sections.push_back({static_cast<axlf_section_kind>(section.kind), section.name,
                            Bytes(section.bytes.begin(), section.bytes.end())});
    }
  }
  return sections;
}

/// Returns the times of partitions whose clock is `factor` times as slow.
std::vector<plan::Pace> stretched(std::vector<plan::Pace> paces, double factor) {
  const auto times = [&](std::uint64_t nanoseconds) {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(nanoseconds) * factor));
  };
  for (plan::Pace& pace : paces) pace = {times(pace.interval_nanoseconds), times(pace.delay_nanoseconds)};
  return paces;
}

}  // namespace

Result<PackedImage> pack_container(std::span<const std::byte> vendor, const plan::EmulationData& data,
                                   const std::vector<plan::Pace>& paces) {
  const std::string kernel = "millrace_" + data.record.name;
  MILLRACE_ASSIGN(const VendorFile file, read_vendor(vendor, kernel + ":" + data.record.name));
  if (data.record.partitions.size() != 1) return wrong("images with several partitions cannot be packed");
  MILLRACE_ASSIGN(const double clock, achieved_clock(file.view, data.record.clock_mhz));

  std::vector<Kernel> kernels = kernels_of(data.record);
  const std::uint64_t base = file.ips[static_cast<std::size_t>(file.ip)].m_base_address;
  for (auto& one : kernels)
    for (auto& unit : one.units) unit.base = base + unit.window * kWindowRange;
  const KernelArguments arguments(file.view.find(EMBEDDED_METADATA), kernel);
  MILLRACE_ASSIGN(Bytes connectivity,
                  vendor_connectivity(file, CONNECTIVITY, MEM_TOPOLOGY, arguments, kernels));
  Bytes group_connectivity = connectivity;
  // In the vendor's file, ASK_GROUP_CONNECTIVITY refers to a table that lists all memories and then the groups of
  // memories. This table is therefore longer than the table of memories.
  if (file.view.find(ASK_GROUP_CONNECTIVITY) != nullptr) {
    MILLRACE_ASSIGN(group_connectivity, vendor_connectivity(file, ASK_GROUP_CONNECTIVITY, ASK_GROUP_TOPOLOGY,
                                                            arguments, kernels));
  }

  plan::EmulationData packed = data;
  packed.record.clock_mhz = clock;
  packed.record.content_digest = plan::compute_content_digest(packed.record);
  plan::Device device;
  device.name = data.record.device;
  FromVendor kept;
  std::copy_if(file.ips.begin(), file.ips.end(), std::back_inserter(kept.ips),
               [](const ip_data& row) { return row.m_type != IP_KERNEL && row.m_type != IP_PS_KERNEL; });
  std::vector<Section> sections = kept_sections(file.view);
  add_own_sections(packed, device, kernels, &kept, std::move(connectivity), std::move(group_connectivity),
                   stretched(paces, clock > 0 ? data.record.clock_mhz / clock : 1), sections);

  axlf header{};  // copied from the vendor's file: platform, platform's uuids, time
  std::memcpy(&header, vendor.data(), offsetof(axlf, m_sections));
  header.m_signature_length = -1;
  header.m_header.m_numSections = static_cast<std::uint32_t>(sections.size());
  // XRT does not load a uuid that is already loaded. The vendor's uuid names the bitstream, but another packed image
  // with the same bitstream can have other units or buffers, so each packed image gets a uuid of its own.
  std::memset(header.m_header.uuid, 0, sizeof header.m_header.uuid);
  put_uuid(plan::uuid_from_digest(sha256_hex(assemble(header, sections))), header);
  return PackedImage{assemble(header, sections), std::move(packed.record)};
}

}  // namespace millrace::compiler::emit
