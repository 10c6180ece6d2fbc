// The parts of an xclbin that the shim needs: compute units, memory banks, and the data for the card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/protocol.hpp"
#include "runtime/emulator/shared_memory.hpp"

struct axlf;

namespace millrace::runtime::emulator {

/// A card's memory as the loaded image lays it out: its banks and the blocks allocated in them. Any thread.
class DeviceMemory {
 public:
  using Bank = ImageHeader::Bank;
  struct Group {  // the address range of a buffer's bank index; may span several banks
    std::uint64_t address, bytes;
  };

  explicit DeviceMemory(SharedMemory memory) : memory_(std::move(memory)) {}

  /// Sets the layout. Banks must not overlap and must fit the memory (the image was checked). Returns false
  /// if the layout differs from the present one while blocks are allocated.
  bool lay_out(std::span<const Bank> banks, std::vector<Group> groups);

  /// Allocates whole pages, first fit. Returns nothing if the group does not exist or is full.
  std::optional<std::uint64_t> allocate(std::uint32_t group, std::uint64_t bytes);
  void free(std::uint64_t address);

  /// The card's copy of an allocated block.
  std::byte* at(std::uint64_t address) const;

  int descriptor() const { return memory_.descriptor(); }
  std::uint64_t bytes() const { return memory_.bytes(); }

 private:
  std::byte* locate(std::uint64_t address) const;

  const SharedMemory memory_;
  mutable std::mutex mutex_;
  // Protected by mutex_:
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::map<std::uint64_t, std::uint64_t> blocks_;  // address -> bytes
};

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
