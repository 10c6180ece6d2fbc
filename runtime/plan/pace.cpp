#include "runtime/plan/pace.hpp"

#include <string>

#include "runtime/plan/image.pb.h"
#include "runtime/plan/proto.hpp"

namespace millrace::runtime::plan {

std::vector<std::byte> encode_emulation_data(const EmulationData& data, const std::vector<Pace>& paces) {
  // A protobuf message may be written in two parts, one after the other.
  std::vector<std::byte> bytes = encode_emulation_data(data);
  proto::EmulationData rest;
  for (const auto& pace : paces) {
    proto::Pace& out = *rest.add_paces();
    out.set_interval_nanoseconds(pace.interval_nanoseconds);
    out.set_delay_nanoseconds(pace.delay_nanoseconds);
  }
  const std::vector<std::byte> more = to_bytes(rest);
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

Result<std::vector<Pace>> decode_paces(std::span<const std::byte> bytes) {
  proto::EmulationData message;
  if (!from_bytes(bytes, message))
    return Error(ErrorCode::kCorrupt, "emulation data: not EmulationData of image.proto");
  const auto partitions = static_cast<std::size_t>(message.programs_size());
  if (message.paces_size() != 0 && static_cast<std::size_t>(message.paces_size()) != partitions)
    return Error(ErrorCode::kCorrupt, "emulation data: " + std::to_string(message.paces_size()) +
                                          " paces for " + std::to_string(partitions) + " partitions");
  std::vector<Pace> out(partitions);
  for (int i = 0; i < message.paces_size(); ++i)
    out[static_cast<std::size_t>(i)] = {message.paces(i).interval_nanoseconds(),
                                        message.paces(i).delay_nanoseconds()};
  return out;
}

}  // namespace millrace::runtime::plan
