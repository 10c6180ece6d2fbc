// Commands of an emulated card: ERT packets that are decoded, queued at compute units and completed in place.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "runtime/emulator/protocol.hpp"

namespace millrace::runtime::emulator {

/// The states of a packet (ert_cmd_state) that the card itself sets.
enum class PacketState : std::uint32_t { kCompleted = 4, kError = 5, kAbort = 6, kTimeout = 8 };

struct Command {
  static constexpr std::size_t kWords = 16;
  std::uint32_t slot = 0, generation = 0;
  std::uint32_t unit = 0;                // compute unit; ~0 if the packet selects no unit
  std::uint32_t words = 0;               // length of the register map; at most kWords are kept
  std::uint32_t registers[kWords] = {};  // word i is register 4 * i

  /// Returns the argument at a byte offset, or 0 if the packet is too short.
  std::uint32_t u32(std::uint32_t offset) const { return offset / 4 < words ? registers[offset / 4] : 0; }
  std::uint64_t u64(std::uint32_t offset) const { return std::uint64_t{u32(offset + 4)} << 32 | u32(offset); }
};

using CommandQueue = std::deque<Command>;

/// Reports completed commands to the host. The host can read a packet's state immediately; flush() wakes
/// waiters that sleep, once for many completions.
class Completions {
 public:
  Completions(ControlBlock& control, std::byte* packets) : control_(control), packets_(packets) {}
  void finish(const Command& command, PacketState state) {
    // A packet that was freed or reused meanwhile belongs to another command and must not be changed.
    if (control_.generation[command.slot].load(std::memory_order_relaxed) != command.generation) return;
    auto& header = *reinterpret_cast<Word*>(packets_ + std::uint64_t{command.slot} * kPacketBytes);
    header.store((header.load(std::memory_order_relaxed) & ~0xfu) | static_cast<std::uint32_t>(state),
                 std::memory_order_release);
    ++unannounced_;
  }

  void flush() {
    if (unannounced_ == 0) return;
    control_.completions.fetch_add(unannounced_, std::memory_order_seq_cst);
    unannounced_ = 0;
    if (control_.waiters.load(std::memory_order_seq_cst) > 0) futex_wake(control_.completions, INT_MAX);
  }

 private:
  ControlBlock& control_;
  std::byte* packets_;
  std::uint32_t unannounced_ = 0;
};

}  // namespace millrace::runtime::emulator
