// Reads the parts of an xclbin that the shim needs: compute units, memory banks, and the card's data.
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

/// A card's memory: the banks of the loaded FPGA image and the blocks allocated in them. Any thread may use it.
class DeviceMemory {
 public:
  using Bank = ImageHeader::Bank;
  struct Group {  // the address range of a bank index; may span several banks
    std::uint64_t address, bytes;
  };

  explicit DeviceMemory(SharedMemory memory) : memory_(std::move(memory)) {}

  /// Sets the layout. Banks must not overlap and must fit the memory, as checked for the image. Returns false
  /// if blocks are allocated and the layout differs from the current one.
  bool lay_out(std::span<const Bank> banks, std::vector<Group> groups);

  /// Allocates whole pages in the first gap that fits. Returns nothing if the group is unknown or full.
  std::optional<std::uint64_t> allocate(std::uint32_t group, std::uint64_t bytes);
  void free(std::uint64_t address);

  /// Returns the memory of an allocated block on the card.
  std::byte* at(std::uint64_t address) const;

  int descriptor() const { return memory_.descriptor(); }
  std::uint64_t bytes() const { return memory_.bytes(); }

 private:
  std::byte* locate(std::uint64_t address) const;

  const SharedMemory memory_;
  mutable std::mutex mutex_;
  // mutex_ protects the members below.
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::map<std::uint64_t, std::uint64_t> blocks_;  // address -> bytes
};

using Uuid = std::array<unsigned char, 16>;

struct ImageLayout {
  Uuid uuid{};
  ImageHeader header{};  // compute units and banks
  std::vector<bool>
      resettable{};  // by compute unit: whether its kernel declares swReset, as XRT's driver asks for
  std::vector<DeviceMemory::Group> groups;
  std::span<const ImageHeader::Bank> banks() const { return {header.bank, header.banks}; }
  std::span<const std::byte> emulation_data;  // points into the image; empty if the section is absent
};

/// Reads the layout. Assumes only that `image` is as long as its header says (libxrt has read it). Returns
/// kInvalidInput, naming the bad section, and kDoesNotFit if the image needs more than `memory_bytes`.
Result<ImageLayout> read_layout(const axlf* image, std::uint64_t memory_bytes);

}  // namespace millrace::runtime::emulator
