// The content of an xclbin of ours: the record of its own partitions (USER_METADATA) and the executable
// content for emulated cards (EMULATION_DATA). This header reads containers for `inspect`, `verify` and the
// emulator. compiler/emit writes them, and XRT loads them on cards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

enum class PortKind : std::uint8_t { kIngress, kEgress, kLinkReceive, kLinkSend };

/// A partition's port as the hardware has it.
struct ImagePort {
  std::string name;  // plan::Port::name
  PortKind kind = PortKind::kIngress;
  std::string compute_unit;       // ingress, egress: "<kernel>:{<cu>}" as xrt::kernel takes it
  std::uint32_t link_index = 0;   // link ports: row of the link table (image_abi.hpp)
  std::uint32_t memory_bank = 0;  // ingress, egress
  kernels::ElementType type;
  std::uint64_t elements = 0;
  bool operator==(const ImagePort&) const = default;
};

struct ImagePartition {
  std::string name;
  std::string region;
  std::vector<ImagePort> ports;  // inputs in program order, then outputs. An output port that feeds several
                                 // channels appears once a channel, with the same name.
  std::vector<std::string> nodes;
  std::string program_digest;
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;
  std::string parameters_unit;  // loads parameters that are not in the image: "<kernel>:{<cu>}"; or empty
  std::string rtl_digest;       // of its SystemVerilog; empty if it has none
  bool operator==(const ImagePartition&) const = default;
};

/// USER_METADATA. Holds neither peers nor the plan.
struct ImageRecord {
  std::uint32_t abi_version = 0;
  std::string name, device, content_digest;
  double clock_mhz = 0;
  std::vector<ImagePartition> partitions;
  bool operator==(const ImageRecord&) const = default;
};

/// EMULATION_DATA, decoded.
struct EmulationData {
  ImageRecord record;
  // one a partition of the record, same order; of partitions with parameters the topology
  std::vector<kernels::Program> programs;
};

std::string to_json(const ImageRecord& record);
/// Refuses unknown fields, another ABI version, and ports that contradict each other.
Result<ImageRecord> parse_image_record(std::string_view json);

/// sha256 of the record without its name and content_digest. It identifies what the image computes.
std::string compute_content_digest(const ImageRecord& record);

std::vector<std::byte> encode_emulation_data(const EmulationData& data);
/// Checks everything, kernels::validate() of every program included: the bytes may be anything.
Result<EmulationData> decode_emulation_data(std::span<const std::byte> bytes);

/// Serialised program.proto with its weights, and its digest (sha256 of those bytes): deterministic.
std::vector<std::byte> encode_program(const kernels::Program& program);
Result<kernels::Program> decode_program(std::span<const std::byte> bytes);
std::string program_digest(const kernels::Program& program);

/// A section of an xclbin container, from the table in its header. Bounds are checked.
struct XclbinSection {
  std::uint32_t kind = 0;
  std::string name;
  std::span<const std::byte> bytes;
};
struct XclbinView {
  std::string uuid;
  std::string platform;
  bool has_checksum = false;            // it has our checksum, and the checksum is right
  std::vector<XclbinSection> sections;  // into the bytes given
  const XclbinSection* find(std::uint32_t kind) const;
};
/// Checks magic, length, section table and, if the container has one, our checksum (README.md). kCorrupt.
Result<XclbinView> parse_xclbin(std::span<const std::byte> bytes);

/// Writes our checksum into the header (m_keyBlock) of a finished container, which must have a whole header.
void seal_xclbin(std::span<std::byte> container);

/// Bytes of all memory banks that the container's units may use (MEM_TOPOLOGY); a card must have as many. 0
/// if it lists none. kCorrupt if the list is truncated or the sum exceeds 64 bits.
Result<std::uint64_t> memory_bytes(const XclbinView& view);

/// Section kinds of the container format that Millrace reads (xclbin.h, axlf_section_kind).
inline constexpr std::uint32_t kSectionMemoryTopology = 6;
inline constexpr std::uint32_t kSectionUserMetadata = 16;
inline constexpr std::uint32_t kSectionEmulationData = 21;

/// uuid of an image of ours from its content digest: first 16 bytes, version 8, variant 1 bits set.
std::string uuid_from_digest(const std::string& content_digest);

}  // namespace millrace::runtime::plan
