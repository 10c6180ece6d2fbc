// Parameters outside of images: what a partition with loaded or streamed weights computes with, as one file
// of the deployment that the host hands to the card as it is. README.md describes it.
//
// Three sections, each for another reader: the program with its numbers, for whatever computes programs; what
// the loader of the hardware takes; what the hardware reads every frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

inline constexpr std::uint64_t kMaxParameterBytes = std::uint64_t{1} << 31U;

/// "weights/<sha256>.bin"
std::string parameter_file_name(const std::string& sha256);

/// Sections begin at multiples of this, as XRT's buffers do.
inline constexpr std::uint64_t kParameterAlignment = 4096;

/// A section inside a file.
struct ParameterSection {
  std::uint64_t offset = 0, bytes = 0;
  bool operator==(const ParameterSection&) const = default;
};

/// What a file says of itself.
struct ParameterHeader {
  std::string topology;      // program_digest() of the topology the numbers are for
  ParameterSection program;  // a ProgramFile
  ParameterSection load;     // words of the loader's stream, in its order; empty without hardware
  ParameterSection
      streamed;  // read every frame, at addresses the hardware knows from its start; may be empty
};

/// `program` with its numbers; `load` and `streamed` as generated hardware wants them.
std::vector<std::byte> encode_parameters(const kernels::Program& program,
                                         std::span<const std::byte> load = {},
                                         std::span<const std::byte> streamed = {});

/// Magic, schema, sections inside the bytes and where they belong. kCorrupt, kUnsupported (another schema).
Result<ParameterHeader> read_parameter_header(std::span<const std::byte> bytes);

/// The program of a partition whose image has the program digest `topology`. kCorrupt: the header's errors;
/// the bytes are for another topology, or the program is not valid or not of that topology.
Result<kernels::Program> decode_parameters(std::span<const std::byte> bytes, const std::string& topology);

}  // namespace millrace::runtime::plan
