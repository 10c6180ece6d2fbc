#include "runtime/emulator/shim/image_layout.hpp"

#include <xclbin.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace millrace::runtime::emulator {

namespace {

using Bytes = std::span<const std::byte>;

Error wrong(std::string message) {
  return Error(ErrorCode::kInvalidInput, "xclbin: " + std::move(message));
}

/// Returns the section's bytes, or nothing if it is absent. Returns an error if the section exceeds the image.
Result<std::optional<Bytes>> section(Bytes image, std::uint32_t kind) {
  axlf_header header;
  std::memcpy(&header, image.data() + offsetof(axlf, m_header), sizeof header);
  for (std::uint32_t i = 0; i < header.m_numSections; ++i) {
    axlf_section_header entry;
    std::memcpy(&entry, image.data() + offsetof(axlf, m_sections) + i * sizeof entry, sizeof entry);
    if (entry.m_sectionKind != kind) continue;
    if (entry.m_sectionOffset > image.size() || entry.m_sectionSize > image.size() - entry.m_sectionOffset)
      return wrong("section " + std::to_string(kind) + " lies outside the file; it is truncated");
    return std::optional(image.subspan(entry.m_sectionOffset, entry.m_sectionSize));
  }
  return std::optional<Bytes>();
}

/// Returns the entries of a section that consists of a count (int32) and, from offset `first` on, the entries.
template <class Entry>
Result<std::vector<Entry>> entries(Bytes bytes, std::size_t first, const char* name) {
  std::int32_t count = 0;
  if (bytes.size() >= sizeof count) std::memcpy(&count, bytes.data(), sizeof count);
  if (bytes.size() < sizeof count || count < 0 ||
      (count > 0 &&
       (bytes.size() < first || (bytes.size() - first) / sizeof(Entry) < static_cast<std::size_t>(count))))
    return wrong(std::string(name) + " states " + std::to_string(count) +
                 " entries but is too short for them");
  std::vector<Entry> result(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(result.data(), bytes.data() + first, result.size() * sizeof(Entry));
  return result;
}

Status read_units(Bytes image, ImageHeader& header) {
  MILLRACE_ASSIGN(const auto bytes, section(image, IP_LAYOUT));
  if (!bytes.has_value()) return wrong("has no section IP_LAYOUT");
  MILLRACE_ASSIGN(auto all, entries<ip_data>(*bytes, offsetof(ip_layout, m_ip_data), "IP_LAYOUT"));
  std::erase_if(all, [](const ip_data& ip) { return ip.m_type != IP_KERNEL; });
  if (all.size() > ImageHeader::kMaxUnits)
    return wrong("IP_LAYOUT has " + std::to_string(all.size()) + " compute units; XRT supports at most " +
                 std::to_string(ImageHeader::kMaxUnits));
  // libxrt numbers compute units by interrupt, or by address if no unit has an interrupt.
  const auto interrupt = [](const ip_data& ip) { return ip.properties & IP_INTERRUPT_ID_MASK; };
  const bool by_address =
      std::all_of(all.begin(), all.end(), [&](const ip_data& ip) { return interrupt(ip) == 0; });
  std::stable_sort(all.begin(), all.end(), [&](const ip_data& a, const ip_data& b) {
    return by_address ? a.m_base_address < b.m_base_address : interrupt(a) < interrupt(b);
  });
  static_assert(sizeof(ImageHeader::Unit) >= sizeof(ip_data::m_name));
  for (const auto& ip : all) std::memcpy(header.unit[header.units++].name, ip.m_name, sizeof ip.m_name - 1);
  return {};
}

bool is_memory(const mem_data& bank) {
  return bank.m_used != 0 && bank.m_type != MEM_STREAMING && bank.m_type != MEM_STREAMING_CONNECTION &&
         bank.m_type != MEM_PREALLOCATED_GLOB && bank.m_type != MEM_PS_KERNEL;
}

Result<std::vector<mem_data>> read_topology(Bytes image, std::uint32_t kind, const char* name) {
  MILLRACE_ASSIGN(const auto bytes, section(image, kind));
  if (!bytes.has_value()) return std::vector<mem_data>();
  return entries<mem_data>(*bytes, offsetof(mem_topology, m_mem_data), name);
}

Status read_memory(Bytes image, std::uint64_t memory_bytes, ImageLayout& layout) {
  ImageHeader& header = layout.header;
  MILLRACE_ASSIGN(const auto topology, read_topology(image, MEM_TOPOLOGY, "MEM_TOPOLOGY"));
  std::uint64_t used = 0;
  for (const auto& bank : topology) {
    if (!is_memory(bank) || bank.m_size == 0) continue;
    const auto tag = std::string(reinterpret_cast<const char*>(bank.m_tag),
                                 strnlen(reinterpret_cast<const char*>(bank.m_tag), 16));
    const auto bytes = bank.m_size > kMaxMemoryBytes ? kMaxMemoryBytes : bank.m_size * 1024;
    if (bytes > memory_bytes - used)
      return Error(ErrorCode::kDoesNotFit,
                   "xclbin: MEM_TOPOLOGY: bank '" + tag + "' of " + std::to_string(bytes) +
                       " bytes does not fit the card's memory of " + std::to_string(memory_bytes) + " bytes");
    if (bank.m_base_address > ~bytes)
      return wrong("MEM_TOPOLOGY: bank '" + tag + "' wraps around the address space");
    for (const auto& other : layout.banks())
      if (bank.m_base_address < other.address + other.bytes && other.address < bank.m_base_address + bytes)
        return wrong("MEM_TOPOLOGY: bank '" + tag + "' overlaps another");
    if (header.banks == ImageHeader::kMaxBanks)
      return wrong("MEM_TOPOLOGY: more than " + std::to_string(ImageHeader::kMaxBanks) + " banks in use");
    header.bank[header.banks++] = {bank.m_base_address, bytes, used};
    used += bytes;
  }
  MILLRACE_ASSIGN(auto groups, read_topology(image, ASK_GROUP_TOPOLOGY, "GROUP_TOPOLOGY"));
  for (const auto& group : groups.empty() ? topology : groups) {
    const bool usable =
        is_memory(group) && group.m_size <= kMaxMemoryBytes && group.m_base_address <= ~(group.m_size * 1024);
    layout.groups.push_back(usable ? DeviceMemory::Group{group.m_base_address, group.m_size * 1024}
                                   : DeviceMemory::Group{0, 0});
  }
  return {};
}

/// Finds the kernels that declare swReset="true" in the section EMBEDDED_METADATA. XRT's driver resets their units when it
/// aborts a run.
Result<std::vector<bool>> read_resettable(Bytes image, const ImageHeader& header) {
  std::vector<bool> resettable(header.units, false);
  MILLRACE_ASSIGN(const auto bytes, section(image, EMBEDDED_METADATA));
  if (!bytes.has_value()) return resettable;
  const std::string_view xml(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  for (std::uint32_t unit = 0; unit < header.units; ++unit) {
    const std::string_view name(header.unit[unit].name);
    const auto tag = xml.find("<kernel name=\"" + std::string(name.substr(0, name.find(':'))) + "\"");
    if (tag == std::string_view::npos) continue;
    resettable[unit] =
        xml.substr(tag, xml.find('>', tag) - tag).find("swReset=\"true\"") != std::string_view::npos;
  }
  return resettable;
}

}  // namespace

Result<ImageLayout> read_layout(const axlf* image, std::uint64_t memory_bytes) {
  if (image == nullptr || std::memcmp(image->m_magic, "xclbin2\0", 8) != 0)
    return wrong("is not an xclbin2 container");
  const auto length = image->m_header.m_length;
  const auto sections = std::uint64_t{image->m_header.m_numSections};
  if (sections > XCLBIN_MAX_NUM_SECTION ||
      length < offsetof(axlf, m_sections) + sections * sizeof(axlf_section_header))
    return wrong("header: " + std::to_string(sections) + " sections do not fit " + std::to_string(length) +
                 " bytes");
  const Bytes bytes(reinterpret_cast<const std::byte*>(image), length);

  ImageLayout layout;
  std::memcpy(layout.uuid.data(), image->m_header.uuid, layout.uuid.size());
  if (layout.uuid == Uuid{}) return wrong("header: the uuid is zero");
  MILLRACE_TRY(read_units(bytes, layout.header));
  MILLRACE_TRY(read_memory(bytes, memory_bytes, layout));
  MILLRACE_ASSIGN(layout.resettable, read_resettable(bytes, layout.header));
  MILLRACE_ASSIGN(const auto data, section(bytes, EMULATION_DATA));
  if (data.has_value()) layout.emulation_data = *data;
  return layout;
}

bool DeviceMemory::lay_out(std::span<const Bank> banks, std::vector<Group> groups) {
  const std::lock_guard lock(mutex_);
  if (!std::equal(banks.begin(), banks.end(), banks_.begin(), banks_.end()) && !blocks_.empty()) return false;
  banks_.assign(banks.begin(), banks.end());
  groups_ = std::move(groups);
  return true;
}

std::optional<std::uint64_t> DeviceMemory::allocate(std::uint32_t group, std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  const std::lock_guard lock(mutex_);
  if (group >= groups_.size() || bytes == 0 || bytes > memory_.bytes()) return std::nullopt;
  const auto wanted = (bytes + kPage - 1) / kPage * kPage;
  for (const auto& bank : banks_) {
    auto address = std::max(bank.address, groups_[group].address);
    address = std::max(address, kPage);  // no buffer has the address 0
    const auto end = std::min(bank.address + bank.bytes, groups_[group].address + groups_[group].bytes);
    for (auto next = blocks_.lower_bound(bank.address); address < end; ++next) {
      const auto gap_end = next == blocks_.end() ? end : std::min(end, next->first);
      if (gap_end > address && gap_end - address >= wanted) {
        blocks_.emplace(address, wanted);
        return address;
      }
      if (next == blocks_.end() || next->first >= end) break;
      address = std::max(address, next->first + next->second);
    }
  }
  return std::nullopt;
}

void DeviceMemory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  // Discard the content, so that a program that gets this memory next notices if it forgot to copy its own data here.
  memory_.discard(static_cast<std::uint64_t>(locate(address) - memory_.data()), block->second);
  blocks_.erase(block);
}

std::byte* DeviceMemory::at(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  return locate(address);
}

std::byte* DeviceMemory::locate(std::uint64_t address) const {
  for (const auto& bank : banks_)
    if (address >= bank.address && address - bank.address < bank.bytes)
      return memory_.data() + bank.offset + (address - bank.address);
  return nullptr;
}

}  // namespace millrace::runtime::emulator
