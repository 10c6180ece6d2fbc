// Private to compiler/emit: the parts of an xclbin container that container.cpp and pack.cpp share.
#pragma once

#include <xrt/xclbin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/pace.hpp"

namespace millrace::compiler::emit {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint64_t kWindowRange = 0x1000;  // bytes of a register window in a kernel by emit/vitis

struct Argument {
  const char* name;
  const char* type;
  bool global;  // a buffer in the card's memory
  std::uint32_t offset, size;
};

struct Unit {
  std::string name;
  std::string unit;          // the unit's name in the partition's top module: "supervisor", "in0", "out0_2"
  std::uint64_t window = 0;  // in the vendor's kernel: the unit's number among the top's register slaves
  std::uint32_t memory_bank = 0;
  std::uint64_t base = 0;  // address of the unit's registers
};

struct Kernel {
  std::string name;
  IP_CONTROL control = AP_CTRL_CHAIN;
  std::span<const Argument> arguments;
  std::vector<Unit> units;
};

/// Returns the kernels of an image with their compute units. Names and windows are set, addresses are not.
std::vector<Kernel> kernels_of(const runtime::plan::ImageRecord& record);

/// Returns the bytes of a section that consists of a count and, from offset `rows_at` on, the rows of a table.
template <class Count, class Row>
Bytes table(std::size_t rows_at, const std::vector<Row>& rows) {
  const auto count = static_cast<Count>(rows.size());
  Bytes out(rows_at + rows.size() * sizeof(Row));
  std::memcpy(out.data(), &count, sizeof count);
  if (!rows.empty()) std::memcpy(out.data() + rows_at, rows.data(), rows.size() * sizeof(Row));
  return out;
}

struct Section {
  axlf_section_kind kind;
  std::string name;
  Bytes bytes;
};

/// The data that an image made of v++ output takes over from single rows of that output. (Other sections are
/// copied whole.)
struct FromVendor {
  std::vector<ip_data> ips;  // IP_LAYOUT rows that are no kernels: memory controllers and the like
};

/// Appends the sections that every FPGA image has, in the file's order. `vendor` is null unless the image is made of v++
/// output; then the clocks are left to the vendor's section. `paces` has a pace for each partition, or is empty.
void add_own_sections(const runtime::plan::EmulationData& data, const runtime::plan::Device& device,
                      const std::vector<Kernel>& kernels, const FromVendor* vendor, Bytes connectivity,
                      Bytes group_connectivity, const std::vector<runtime::plan::Pace>& paces,
                      std::vector<Section>& sections);

/// Writes a uuid ("01234567-89ab-…") into the header. Also writes a number derived from the uuid into the
/// header's field for a time.
void put_uuid(const std::string& uuid, axlf& header);

/// Joins header and sections into a container with Millrace's checksum. Sets the header's length.
Bytes assemble(axlf header, const std::vector<Section>& sections);

}  // namespace millrace::compiler::emit
