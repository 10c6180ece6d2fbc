// What an xclbin of ours holds, above the container format: the record of its own partitions (USER_METADATA)
// and the executable content for emulated cards (EMULATION_DATA). Writing the container is compiler/emit's,
// loading it on a card is XRT's; reading sections back, for `inspect`, `verify` and the emulator, is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

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
  std::string
      parameters_unit;     // takes the parameters of blocks that are not baked: "<kernel>:{<cu>}"; or empty
  std::string rtl_digest;  // of its SystemVerilog; empty where it has none
  bool operator==(const ImagePartition&) const = default;
};

/// USER_METADATA: never peers, never the whole plan.
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
/// Refuses what to_json() cannot have written: unknown fields, another ABI, ports that contradict each other.
Result<ImageRecord> parse_image_record(std::string_view json);

/// sha256 of the record without its name and content_digest: what the image computes, its programs by digest.
std::string compute_content_digest(const ImageRecord& record);

std::vector<std::byte> encode_emulation_data(const EmulationData& data);
/// Checks everything, kernels::validate() of every program included: the bytes may be anything.
Result<EmulationData> decode_emulation_data(std::span<const std::byte> bytes);

/// Serialised program.proto with its weights, and its digest (sha256 of those bytes): deterministic.
std::vector<std::byte> encode_program(const kernels::Program& program);
Result<kernels::Program> decode_program(std::span<const std::byte> bytes);
std::string program_digest(const kernels::Program& program);

/// A section of an xclbin container: what the header's table says. Bounds are checked.
struct XclbinSection {
  std::uint32_t kind = 0;
  std::string name;
  std::span<const std::byte> bytes;
};
struct XclbinView {
  std::string uuid;
  std::string platform;
  bool has_checksum = false;            // ours, and it holds
  std::vector<XclbinSection> sections;  // into the bytes given
  const XclbinSection* find(std::uint32_t kind) const;
};
/// Checks magic, length, section table, and our own checksum where the container carries one (see README.md):
/// kCorrupt where something does not hold.
Result<XclbinView> parse_xclbin(std::span<const std::byte> bytes);

/// Writes our checksum into the header of a finished container (m_keyBlock). The container has a whole
/// header.
void seal_xclbin(std::span<std::byte> container);

/// Bytes of all memory banks that the container's units may use (MEM_TOPOLOGY): what a card must have to take
/// it. 0 where it lists none. kCorrupt: a list cut short, or a sum that is no 64-bit number.
Result<std::uint64_t> memory_bytes(const XclbinView& view);

/// Section kinds of the container format that Millrace reads (xclbin.h, axlf_section_kind).
inline constexpr std::uint32_t kSectionMemoryTopology = 6;
inline constexpr std::uint32_t kSectionUserMetadata = 16;
inline constexpr std::uint32_t kSectionEmulationData = 21;

/// uuid of an image of ours from its content digest: first 16 bytes, version 8, variant 1 bits set.
std::string uuid_from_digest(const std::string& content_digest);

}  // namespace millrace::runtime::plan
