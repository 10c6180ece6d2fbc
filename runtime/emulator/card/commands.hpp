// Commands as a card sees them: decoded ERT packets, queued at compute units, completed in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/emulator/protocol.hpp"

namespace millrace::runtime::emulator {

/// States of a packet the card sets (ert_cmd_state).
enum class PacketState : std::uint32_t { kCompleted = 4, kError = 5, kAbort = 6 };

struct Command {
  static constexpr std::size_t kWords = 16;
  std::uint32_t slot = 0, generation = 0;
  std::uint32_t unit = 0;                // compute unit; ~0 where the packet names none
  std::uint32_t words = 0;               // of the register map, at most kWords are kept
  std::uint32_t registers[kWords] = {};  // word i is register 4 * i

  /// An argument at a byte offset; 0 where the packet is too short.
  std::uint32_t u32(std::uint32_t offset) const { return offset / 4 < words ? registers[offset / 4] : 0; }
  std::uint64_t u64(std::uint32_t offset) const { return std::uint64_t{u32(offset + 4)} << 32 | u32(offset); }
};

/// Reads the packet the host handed over; its contents may be anything.
Command decode_command(const std::byte* packets, std::uint64_t submission);

/// First in, first out; allocates only while it grows.
class CommandQueue {
 public:
  bool empty() const { return head_ == commands_.size(); }
  const Command& front() const { return commands_[head_]; }
  void push(const Command& command) {
    if (head_ > 64 && head_ * 2 > commands_.size()) {
      commands_.erase(commands_.begin(), commands_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    commands_.push_back(command);
  }
  void pop() {
    if (++head_ == commands_.size()) {
      commands_.clear();
      head_ = 0;
    }
  }
  /// Removes the command in this packet slot; false where there is none.
  bool remove(std::uint32_t slot, Command& removed);

 private:
  std::vector<Command> commands_;
  std::size_t head_ = 0;
};

/// Tells the host. States are visible at once; sleeping waiters are woken by flush(), once for many.
class Completions {
 public:
  Completions(ControlBlock& control, std::byte* packets) : control_(control), packets_(packets) {}
  void finish(const Command& command, PacketState state);
  void flush();

 private:
  ControlBlock& control_;
  std::byte* packets_;
  std::uint32_t unannounced_ = 0;
};

}  // namespace millrace::runtime::emulator
