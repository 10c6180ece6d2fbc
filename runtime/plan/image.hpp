// The content of Millrace's FPGA images (xclbin files): the record of the partitions (USER_METADATA) and the programs
// for emulated cards (EMULATION_DATA). `inspect`, `verify` and the emulator read images with these functions;
// compiler/emit writes images, and XRT loads them onto cards.
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

/// A port of a partition in the hardware.
struct ImagePort {
  std::string name;  // the same as plan::Port::name
  PortKind kind = PortKind::kIngress;
  std::string compute_unit;       // for host ports: "<kernel>:{<cu>}", as xrt::kernel expects it
  std::uint32_t link_index = 0;   // for link ports: row of the link table (image_abi.hpp)
  std::uint32_t memory_bank = 0;  // for host ports
  kernels::ElementType type;
  std::uint64_t elements = 0;
  bool operator==(const ImagePort&) const = default;
};

struct ImagePartition {
  std::string name;
  std::string region;
  // Inputs in program order, then outputs. Each output port is listed once for each of its channels.
  std::vector<ImagePort> ports;
  std::vector<std::string> nodes;
  std::string program_digest;
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;
  std::string parameters_unit;  // unit that loads parameters: "<kernel>:{<cu>}"; may be empty
  std::string rtl_digest;       // digest of the partition's SystemVerilog; empty if it has none
  bool operator==(const ImagePartition&) const = default;
};

/// The decoded section USER_METADATA. It does not contain the plan, nor the cards at the other ends of links.
struct ImageRecord {
  std::uint32_t abi_version = 0;
  std::string name, device, content_digest;
  double clock_mhz = 0;
  std::vector<ImagePartition> partitions;
  double least_clock_mhz =
      0;  // the slowest clock at which the image loses no words from a cable; 0: no limit
  bool operator==(const ImageRecord&) const = default;
};

/// The decoded section EMULATION_DATA.
struct EmulationData {
  ImageRecord record;
  // The program of each partition, in the order of the image's record (its description of the partitions). If a
  // partition's parameters are stored elsewhere, its program lacks them.
  std::vector<kernels::Program> programs;
};

std::string to_json(const ImageRecord& record);
/// Parses the record (an image's description of its partitions and ports). Refuses unknown fields, another ABI version,
/// and contradictory ports.
Result<ImageRecord> parse_image_record(std::string_view json);

/// Returns the sha256 of an image's record (the description of its partitions and ports) without name and
/// content_digest. The result identifies what the image does.
std::string compute_content_digest(const ImageRecord& record);

std::vector<std::byte> encode_emulation_data(const EmulationData& data);
/// Decodes and checks EMULATION_DATA, with kernels::validate() for every program. The bytes are untrusted.
Result<EmulationData> decode_emulation_data(std::span<const std::byte> bytes);

/// Serialises a program with its weights (program.proto); program_digest() returns the sha256 of these bytes. Equal
/// programs give equal bytes.
std::vector<std::byte> encode_program(const kernels::Program& program);
Result<kernels::Program> decode_program(std::span<const std::byte> bytes);
std::string program_digest(const kernels::Program& program);

/// A section of an xclbin container, found by the table in the container's header. Bounds were checked.
struct XclbinSection {
  std::uint32_t kind = 0;
  std::string name;
  std::span<const std::byte> bytes;
};
struct XclbinView {
  std::string uuid;
  std::string platform;
  bool has_checksum = false;  // whether the container has Millrace's checksum (parse_xclbin() checked it)
  std::vector<XclbinSection> sections;  // point into the parsed bytes
  const XclbinSection* find(std::uint32_t kind) const;
};
/// Parses a container, and checks magic, length, section table and, if present, Millrace's checksum (README.md).
/// Returns kCorrupt if a check fails.
Result<XclbinView> parse_xclbin(std::span<const std::byte> bytes);

/// Writes Millrace's checksum into the header (m_keyBlock) of a finished container with a complete header.
void seal_xclbin(std::span<std::byte> container);

/// Returns the total bytes of all memory banks that the container's units may use (MEM_TOPOLOGY); a card must have
/// that much memory. Returns 0 if no bank is listed, and kCorrupt if the list is truncated or the sum exceeds 64 bits.
Result<std::uint64_t> memory_bytes(const XclbinView& view);

/// Section kinds of the container format that Millrace reads (xclbin.h, axlf_section_kind).
inline constexpr std::uint32_t kSectionMemoryTopology = 6;
inline constexpr std::uint32_t kSectionUserMetadata = 16;
inline constexpr std::uint32_t kSectionEmulationData = 21;

/// Returns the uuid of an image of Millrace: the first 16 bytes of a sha256, with version 8 and variant 1. The sha256 is the
/// image's content_digest or, for an image that `millrace pack` made, that of the file (README.md).
std::string uuid_from_digest(const std::string& content_digest);

}  // namespace millrace::runtime::plan
