// The file with the parameters of a partition whose weights are loaded or streamed. A deployment contains the
// file; the host copies it to the card unchanged. README.md describes it.
//
// The file has three sections: the program with its numbers, for emulation and the reference; the words for
// the hardware's loader; and the weights that the hardware reads for every frame.
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

/// Returns the file's name in a deployment: "weights/<sha256>.bin".
std::string parameter_file_name(const std::string& sha256);

/// Sections begin at multiples of this number of bytes, as XRT's buffers do.
inline constexpr std::uint64_t kParameterAlignment = 4096;

/// A section inside a parameter file.
struct ParameterSection {
  std::uint64_t offset = 0, bytes = 0;
  bool operator==(const ParameterSection&) const = default;
};

/// The header of a parameter file.
struct ParameterHeader {
  std::string topology;       // program_digest() of the topology to which the numbers belong
  ParameterSection program;   // contains a ProgramFile
  ParameterSection load;      // words for the hardware's loader, in order; empty without hardware
  ParameterSection streamed;  // weights that are read for every frame, at fixed addresses; may be empty
};

/// Returns the content of a parameter file. `program` includes its numbers; `load` and `streamed` are in the layout
/// that the generated hardware needs.
std::vector<std::byte> encode_parameters(const kernels::Program& program,
                                         std::span<const std::byte> load = {},
                                         std::span<const std::byte> streamed = {});

/// Reads the header and checks magic, schema (kUnsupported if unknown) and the sections' bounds (kCorrupt if wrong).
Result<ParameterHeader> read_parameter_header(std::span<const std::byte> bytes);

/// Returns the program with its parameters. `topology` is the program digest in the partition's image. Returns the
/// errors of read_parameter_header(), and kCorrupt if the program is invalid or has another topology.
Result<kernels::Program> decode_parameters(std::span<const std::byte> bytes, const std::string& topology);

}  // namespace millrace::runtime::plan
