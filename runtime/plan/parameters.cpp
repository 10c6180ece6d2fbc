#include "runtime/plan/parameters.hpp"

#include <array>
#include <cstring>

#include "kernels/program/parameters.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::plan {
namespace {

constexpr std::array<char, 8> kMagic = {'M', 'R', 'P', 'A', 'R', 'A', 'M', 'S'};
constexpr std::uint32_t kSchema = 1;
constexpr std::uint64_t kTail = 64;  // the widest memory word; the file's size is a multiple of it

/// The header at the start of the file, little-endian. Bytes up to kParameterAlignment are 0.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t schema;
  std::uint32_t reserved;
  std::array<char, 64> topology;  // digest in hexadecimal
  struct {
    std::uint64_t offset, bytes;
  } section[3];
};
static_assert(sizeof(Header) == 128);

Error bad_parameters(const std::string& why) {
  return Error(ErrorCode::kCorrupt, "parameters: " + why);
}

std::uint64_t aligned(std::uint64_t size, std::uint64_t to) {
  return (size + to - 1) / to * to;
}

}  // namespace

std::string parameter_file_name(const std::string& sha256) {
  return "weights/" + sha256 + ".bin";
}

std::vector<std::byte> encode_parameters(const kernels::Program& program, std::span<const std::byte> load,
                                         std::span<const std::byte> streamed) {
  const std::vector<std::byte> file = encode_program(program);
  Header header{kMagic, kSchema, 0, {}, {}};
  program_digest(kernels::topology_of(program)).copy(header.topology.data(), header.topology.size());
  std::vector<std::byte> out(kParameterAlignment);
  std::size_t next = 0;
  for (const std::span<const std::byte> section : {std::span<const std::byte>(file), load, streamed}) {
    out.resize(aligned(out.size(), kParameterAlignment));
    header.section[next++] = {out.size(), section.size()};
    out.insert(out.end(), section.begin(), section.end());
  }
  out.resize(aligned(out.size(), kTail));
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

Result<ParameterHeader> read_parameter_header(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < kParameterAlignment)
    return bad_parameters("its " + std::to_string(bytes.size()) +
                          " bytes cannot hold a header; the file is truncated");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return bad_parameters("does not begin with MRPARAMS: not a parameter file");
  if (header.schema != kSchema)
    return Error(ErrorCode::kUnsupported, "parameters: schema " + std::to_string(header.schema) +
                                              " is not this Millrace's " + std::to_string(kSchema) +
                                              "; compile the model again");
  ParameterHeader out;
  out.topology.assign(header.topology.data(), header.topology.size());
  if (!is_sha256_hex(out.topology)) return bad_parameters("topology is no sha256");
  constexpr const char* kNames[] = {"program", "load", "streamed"};
  std::uint64_t end = kParameterAlignment;
  ParameterSection* const sections[] = {&out.program, &out.load, &out.streamed};
  for (std::size_t i = 0; i < std::size(sections); ++i) {
    const auto& section = header.section[i];
    if (section.offset != aligned(end, kParameterAlignment) || section.offset > bytes.size() ||
        section.bytes > bytes.size() - section.offset)
      return bad_parameters(std::string("section '") + kNames[i] +
                            "' is not where the header says; the file is truncated or altered");
    end = section.offset + section.bytes;
    *sections[i] = {section.offset, section.bytes};
  }
  if (aligned(end, kTail) != bytes.size())
    return bad_parameters("is " + std::to_string(bytes.size()) + " bytes long, but its sections take " +
                          std::to_string(aligned(end, kTail)));
  return out;
}

Result<kernels::Program> decode_parameters(std::span<const std::byte> bytes, const std::string& topology) {
  MILLRACE_ASSIGN(const ParameterHeader header, read_parameter_header(bytes));
  if (header.topology != topology)
    return bad_parameters("are for topology " + header.topology.substr(0, 16) + "…, the image has " +
                          topology.substr(0, 16) + "…; compile the model again");
  auto program = decode_program(bytes.subspan(header.program.offset, header.program.bytes));
  if (!program.ok()) return program.error().within("parameters");
  if (!kernels::has_parameters(*program) || program_digest(kernels::topology_of(*program)) != topology)
    return bad_parameters(
        "the program in the file does not have the topology that the header names; compile the model again");
  return program;
}

}  // namespace millrace::runtime::plan
