// A card's memory as the loaded image lays it out: banks, and who has which part of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "runtime/emulator/protocol.hpp"
#include "runtime/emulator/shared_memory.hpp"

namespace millrace::runtime::emulator {

/// Not thread-safe.
class DeviceMemory {
 public:
  using Bank = ImageHeader::Bank;
  struct Group {  // what a buffer's bank index names: an address range, of one bank or several
    std::uint64_t address, bytes;
    bool operator==(const Group&) const = default;
  };

  explicit DeviceMemory(SharedMemory memory) : memory_(std::move(memory)) {}

  /// Banks do not overlap and fit the memory (the image was checked). Where they differ from the present ones
  /// nothing may be allocated: false then.
  bool lay_out(std::vector<Bank> banks, std::vector<Group> groups);

  /// First fit, in whole pages; nothing where the group does not exist or is full.
  std::optional<std::uint64_t> allocate(std::uint32_t group, std::uint64_t bytes);
  void free(std::uint64_t address);

  /// The card's copy of a block allocated here.
  std::byte* at(std::uint64_t address) const;

  int descriptor() const { return memory_.descriptor(); }
  std::uint64_t bytes() const { return memory_.bytes(); }

 private:
  const Bank* bank_of(std::uint64_t address) const;

  SharedMemory memory_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::map<std::uint64_t, std::uint64_t> blocks_;  // address -> bytes
};

}  // namespace millrace::runtime::emulator
