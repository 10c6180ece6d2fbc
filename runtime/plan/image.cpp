#include "runtime/plan/image.hpp"

#include <cmath>
#include <set>

#include "kernels/program/parameters.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.pb.h"
#include "runtime/plan/image_abi.hpp"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {

static void fields(Fields& io, ImagePort& port) {
  io(port.name, port.kind, port.compute_unit, port.link_index, port.memory_bank, port.type, port.elements);
}

static void fields(Fields& io, ImagePartition& partition) {
  io(partition.name, partition.region, partition.ports, partition.nodes, partition.program_digest,
     partition.interval_cycles, partition.latency_cycles);
  io.unless(std::string(), partition.parameters_unit);
  io(partition.rtl_digest);
}

static void fields(Fields& io, ImageRecord& record) {
  io.skip("schema_version");
  io(record.abi_version, record.name, record.device, record.content_digest, record.clock_mhz,
     record.partitions);
  io.unless(0.0, record.least_clock_mhz);
}

namespace {

void to_proto(const ImageRecord& record, proto::ImageRecord& out) {
  out.set_schema_version(kSchemaVersion);
  write(record, out);
}

Error bad_record(const std::string& where, const std::string& why) {
  return Error(ErrorCode::kCorrupt, "image record: " + where + ": " + why);
}

bool is_input(PortKind kind) {
  return kind == PortKind::kIngress || kind == PortKind::kLinkReceive;
}
bool is_link(PortKind kind) {
  return kind == PortKind::kLinkReceive || kind == PortKind::kLinkSend;
}

/// Checks that the ports of an FPGA image do not contradict each other.
class PortChecker {
 public:
  Status check(const ImagePort& port, const std::string& where) {
    if (port.name.empty()) return bad_record(where, "a port has no name");
    if (port.elements == 0) return bad_record(where, "a port has no elements");
    if (port.elements > (std::uint64_t{1} << 40U))
      return bad_record(where, "more elements than any card holds");
    if (is_link(port.kind)) {
      if (port.link_index >= abi::kMaxLinkPorts)
        return bad_record(where, "link_index is not below " + std::to_string(abi::kMaxLinkPorts));
      if (!links_.insert(port.link_index).second)
        return bad_record(where, "its row of the link table is used twice");
      return {};
    }
    return check_unit(port.compute_unit,
                      port.kind == PortKind::kIngress ? abi::kIngressKernel : abi::kEgressKernel, where);
  }

  Status check_unit(const std::string& unit, const std::string& kernel, const std::string& where) {
    const bool well_formed =
        unit.size() > kernel.size() + 3 && unit.starts_with(kernel + ":{") && unit.ends_with("}");
    if (!well_formed) return bad_record(where, "compute_unit '" + unit + "' is not " + kernel + ":{<name>}");
    if (!units_.insert(unit).second) return bad_record(where, "compute unit '" + unit + "' is used twice");
    return {};
  }

 private:
  std::set<std::uint32_t> links_;
  std::set<std::string> units_;
};

Result<ImageRecord> read(const proto::ImageRecord& in) {
  MILLRACE_TRY(check_schema(in.schema_version(), "image record"));
  if (in.abi_version() != abi::kAbiVersion)
    return Error(ErrorCode::kUnsupported, "image record: abi_version " + std::to_string(in.abi_version()) +
                                              " is not this Millrace's " + std::to_string(abi::kAbiVersion) +
                                              "; compile the model again");
  MILLRACE_ASSIGN(ImageRecord out, plan::read<ImageRecord>(in, "image record", ErrorCode::kCorrupt));
  if (!std::isfinite(out.clock_mhz) || out.clock_mhz < 0 || out.clock_mhz > 10000)
    return bad_record("clock_mhz", "is not between 0 and 10000");
  if (!std::isfinite(out.least_clock_mhz) || out.least_clock_mhz < 0 || out.least_clock_mhz > 10000)
    return bad_record("least_clock_mhz", "is not between 0 and 10000");
  if (out.partitions.empty()) return bad_record("partitions", "there is none");
  std::set<std::string> names;
  PortChecker ports;
  for (std::size_t i = 0; i < out.partitions.size(); ++i) {
    const ImagePartition& partition = out.partitions[i];
    const std::string where = "partition '" + partition.name + "'";
    if (partition.name.empty() || !names.insert(partition.name).second)
      return bad_record(where, "its name is empty or is used twice");
    for (const ImagePort& port : partition.ports)
      MILLRACE_TRY(ports.check(port, where + ", port '" + port.name + "'"));
    if (in.partitions(static_cast<int>(i)).has_parameters_unit())
      MILLRACE_TRY(ports.check_unit(partition.parameters_unit, abi::kParametersKernel, where));
  }
  if (out.content_digest != compute_content_digest(out))
    return bad_record("content_digest", "does not match what the record says");
  return out;
}

/// Checks a partition's ports against its program: inputs in order, then each output once for each of its channels.
Status check_ports(const ImagePartition& partition, const kernels::Program& program) {
  const std::string where = "partition '" + partition.name + "'";
  const auto matches = [&](const ImagePort& port, kernels::TensorIndex index) {
    const auto& tensor = program.tensors[index];
    return port.type == tensor.type && port.elements == tensor.elements();
  };
  std::set<std::string> names;
  std::size_t next = 0;
  for (const auto index : program.inputs) {
    if (next == partition.ports.size() || !is_input(partition.ports[next].kind))
      return bad_record(where, "the partition has fewer input ports than its program has inputs");
    if (!matches(partition.ports[next], index) || !names.insert(partition.ports[next].name).second)
      return bad_record(where,
                        "port '" + partition.ports[next].name + "' does not match its program's input");
    ++next;
  }
  for (const auto index : program.outputs) {
    if (next == partition.ports.size())
      return bad_record(where, "the partition has fewer output ports than its program has outputs");
    const std::string& name = partition.ports[next].name;
    if (!names.insert(name).second) return bad_record(where, "port '" + name + "' is used twice");
    for (; next < partition.ports.size() && partition.ports[next].name == name; ++next)
      if (is_input(partition.ports[next].kind) || !matches(partition.ports[next], index))
        return bad_record(where, "port '" + name + "' does not match its program's output");
  }
  if (next != partition.ports.size())
    return bad_record(where, "the partition has more ports than its program has inputs and outputs");
  return {};
}

}  // namespace

std::string to_json(const ImageRecord& record) {
  proto::ImageRecord message;
  to_proto(record, message);
  return to_canonical_json(message);
}

std::string compute_content_digest(const ImageRecord& record) {
  proto::ImageRecord message;
  to_proto(record, message);
  message.clear_name();
  message.clear_content_digest();
  return sha256_hex(to_bytes(message));
}

Result<ImageRecord> parse_image_record(std::string_view json) {
  proto::ImageRecord message;
  MILLRACE_TRY(from_json(json, message, "image record"));
  return read(message);
}

std::vector<std::byte> encode_emulation_data(const EmulationData& data) {
  proto::EmulationData message;
  message.set_schema_version(kSchemaVersion);
  to_proto(data.record, *message.mutable_record());
  for (const auto& program : data.programs) {
    const auto bytes = encode_program(program);
    message.add_programs(bytes.data(), bytes.size());
  }
  return to_bytes(message);
}

Result<EmulationData> decode_emulation_data(std::span<const std::byte> bytes) {
  proto::EmulationData message;
  if (!from_bytes(bytes, message))
    return Error(ErrorCode::kCorrupt, "emulation data: not EmulationData of image.proto");
  MILLRACE_TRY(check_schema(message.schema_version(), "emulation data"));
  EmulationData out;
  MILLRACE_ASSIGN(out.record, read(message.record()));
  if (static_cast<std::size_t>(message.programs_size()) != out.record.partitions.size())
    return bad_record("partitions", "the number of partitions differs from the number of programs");
  for (std::size_t i = 0; i < out.record.partitions.size(); ++i) {
    const auto& partition = out.record.partitions[i];
    const std::string& program = message.programs(static_cast<int>(i));
    if (sha256_hex(program) != partition.program_digest)
      return bad_record("partition '" + partition.name + "'", "its program does not match program_digest");
    auto decoded = decode_program(std::as_bytes(std::span(program.data(), program.size())));
    if (!decoded.ok()) return decoded.error().within("partition '" + partition.name + "'");
    out.programs.push_back(std::move(decoded).value());
    MILLRACE_TRY(check_ports(partition, out.programs.back()));
    if (kernels::has_parameters(out.programs.back()) == partition.parameters_unit.empty())
      return bad_record("partition '" + partition.name + "'",
                        partition.parameters_unit.empty()
                            ? "its program takes parameters, but the partition has no parameters_unit"
                            : "has a parameters_unit, but its program takes no parameters");
  }
  return out;
}

}  // namespace millrace::runtime::plan
