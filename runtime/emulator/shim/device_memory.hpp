// A card's memory as the loaded image lays it out: its banks and the blocks allocated in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/emulator/protocol.hpp"
#include "runtime/emulator/shared_memory.hpp"

namespace millrace::runtime::emulator {

/// Any thread.
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

}  // namespace millrace::runtime::emulator
