// The parameters of a partition with loaded or streamed weights: one file of the deployment, which the host
// copies to the card unchanged. README.md describes it.
//
// It has three sections: the program with its numbers, for emulation and the reference; the words that the
// hardware's loader takes; the weights that the hardware reads every frame.
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

/// The header of a file.
struct ParameterHeader {
  std::string topology;       // program_digest() of the topology the numbers are for
  ParameterSection program;   // a ProgramFile
  ParameterSection load;      // words of the loader's stream, in its order; empty without hardware
  ParameterSection streamed;  // read every frame, at fixed addresses from its start; may be empty
};

/// `program` has its numbers; `load` and `streamed` are in the generated hardware's form.
std::vector<std::byte> encode_parameters(const kernels::Program& program,
                                         std::span<const std::byte> load = {},
                                         std::span<const std::byte> streamed = {});

/// Checks magic, schema and the sections' bounds. kCorrupt, kUnsupported (another schema).
Result<ParameterHeader> read_parameter_header(std::span<const std::byte> bytes);

/// The program of a partition whose image has the program digest `topology`. kCorrupt: the header's errors;
/// the bytes are for another topology, or the program is not valid or not of that topology.
Result<kernels::Program> decode_parameters(std::span<const std::byte> bytes, const std::string& topology);

}  // namespace millrace::runtime::plan
