// What the shim must know of an xclbin to load it: compute units, memory, and the bytes for the card.
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
  std::vector<std::string> units;  // "kernel:cu", in the order XRT numbers them
  std::vector<DeviceMemory::Bank> banks;
  std::vector<DeviceMemory::Group> groups;
  std::span<const std::byte> emulation_data;  // into the image; empty where it has none
};

/// Trusts nothing but that `image` spans the bytes its header says (libxrt has read them). kInvalidInput
/// names the section; kDoesNotFit where the image wants more than `memory_bytes`.
Result<ImageLayout> read_layout(const axlf* image, std::uint64_t memory_bytes);

}  // namespace millrace::runtime::emulator
