// The parts of an xclbin that the shim needs to load it: compute units, memory, and the data for the card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/shim/device_memory.hpp"

struct axlf;

namespace millrace::runtime::emulator {

using Uuid = std::array<unsigned char, 16>;

struct ImageLayout {
  Uuid uuid{};
  ImageHeader header{};  // units and banks
  std::vector<DeviceMemory::Group> groups;
  std::span<const ImageHeader::Bank> banks() const { return {header.bank, header.banks}; }
  std::span<const std::byte> emulation_data;  // points into the image; empty if the section is absent
};

/// Trusts only that `image` spans the bytes that its header states (libxrt has read them). kInvalidInput:
/// names the bad section. kDoesNotFit: the image needs more than `memory_bytes`.
Result<ImageLayout> read_layout(const axlf* image, std::uint64_t memory_bytes);

}  // namespace millrace::runtime::emulator
