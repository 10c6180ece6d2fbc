// The predicted times of an image's partitions, with which emulated cards can keep the pace of the hardware. They are
// stored in the section EMULATION_DATA, next to the programs (image.hpp), and are not part of the content digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::plan {

struct Pace {
  std::uint64_t interval_nanoseconds = 0;  // between the starts of two frames; 0: not predicted
  std::uint64_t delay_nanoseconds = 0;     // from the arrival of the last input until the last output leaves
  bool operator==(const Pace&) const = default;
};

/// Serialises the section EMULATION_DATA with one pace for each partition, in the order of the image's record (its
/// description of the partitions).
std::vector<std::byte> encode_emulation_data(const EmulationData& data, const std::vector<Pace>& paces);

/// Returns the paces in a section EMULATION_DATA that decode_emulation_data() accepts: one for each partition. Without
/// predicted times, they are all 0. Returns kCorrupt if the number of paces is wrong. The bytes are untrusted.
Result<std::vector<Pace>> decode_paces(std::span<const std::byte> bytes);

}  // namespace millrace::runtime::plan
