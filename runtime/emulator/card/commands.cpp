#include "runtime/emulator/card/commands.hpp"

#include <algorithm>
#include <bit>
#include <climits>

namespace millrace::runtime::emulator {

Command decode_command(const std::byte* packets, std::uint64_t submission) {
  Command command;
  command.slot = static_cast<std::uint32_t>(submission) % kPacketSlots;
  command.generation = static_cast<std::uint32_t>(submission >> 32);
  command.unit = ~0u;
  // The host may write to the packet meanwhile, so each word is read only once.
  const auto* words = reinterpret_cast<const Word*>(packets + std::uint64_t{command.slot} * kPacketBytes);
  const auto word = [&](std::size_t i) { return words[i].load(std::memory_order_relaxed); };
  const auto header = words[0].load(std::memory_order_acquire);
  const std::uint32_t masks = 1 + (header >> 10 & 3);                                // extra_cu_masks
  const std::uint32_t count = std::min(header >> 12 & 0x7ff, kPacketBytes / 4 - 1);  // words after the header
  if (count < masks) return command;
  for (std::uint32_t i = 0; i < masks && command.unit == ~0u; ++i)
    if (const auto mask = word(1 + i); mask != 0)
      command.unit = 32 * i + static_cast<std::uint32_t>(std::countr_zero(mask));
  command.words = std::min<std::uint32_t>(count - masks, Command::kWords);
  for (std::uint32_t i = 0; i < command.words; ++i) command.registers[i] = word(1 + masks + i);
  return command;
}

void Completions::finish(const Command& command, PacketState state) {
  // A packet that was freed or reused since then belongs to another command.
  if (control_.generation[command.slot].load(std::memory_order_relaxed) != command.generation) return;
  auto& header = *reinterpret_cast<Word*>(packets_ + std::uint64_t{command.slot} * kPacketBytes);
  header.store((header.load(std::memory_order_relaxed) & ~0xfu) | static_cast<std::uint32_t>(state),
               std::memory_order_release);
  ++unannounced_;
}

void Completions::flush() {
  if (unannounced_ == 0) return;
  control_.completions.fetch_add(unannounced_, std::memory_order_seq_cst);
  unannounced_ = 0;
  if (control_.waiters.load(std::memory_order_seq_cst) > 0) futex_wake(control_.completions, INT_MAX);
}

}  // namespace millrace::runtime::emulator
