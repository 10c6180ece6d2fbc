// What the shim and the card processes share: layouts of the memory between them. Described in README.md.
//
// Both sides are built together, so the layout has no versions; the magic word only catches a card program of
// another build. Everything starts as zeros. A word is written by one side, named in its comment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/emulator/futex.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::emulator {

inline constexpr std::uint32_t kProtocolMagic = 0x4d524331u;
inline constexpr std::uint32_t kMaxCards = 64;
inline constexpr std::uint32_t kMaxCables = 64;
inline constexpr std::uint32_t kMaxConnectors = 64;           // of one card
inline constexpr std::uint64_t kMaxMemoryBytes = 1ULL << 38;  // of one card

/// Descriptors a card process starts with.
enum CardDescriptor : int { kControlFd = 3, kMemoryFd, kFabricFd, kImageFd, kLivenessFd, kFirstOtherFd };

// Host and card.
// ------------------------------------------------------------------------------------------------------

/// Execution buffers: ERT packets, one page each, read and answered by the card in place.
inline constexpr std::uint32_t kPacketSlots = 4096;
inline constexpr std::uint32_t kPacketBytes = 4096;

enum class Request : std::uint32_t { kLoad, kReadRegister, kWriteRegister, kAbort };

/// One call at a time; the host writes all but `answered`, `status`, `value` (reads) and `message`.
struct alignas(64) Call {
  Word asked;     // number of the call
  Word answered;  // futex; number of the call answered, kCardGone once the card is dead
  Request request;
  std::uint32_t unit;    // register access: compute unit; abort: packet slot
  std::uint32_t offset;  // register access
  std::uint32_t value;
  std::int32_t status;  // 0 or a negative errno
  char message[512];    // kLoad: why not
};
inline constexpr std::uint32_t kCardGone = 0xffffffffu;

struct ControlBlock {
  std::uint32_t magic;
  std::uint32_t card;              // index: host
  alignas(64) LongWord submitted;  // packets handed over since load: host
  alignas(64) LongWord taken;      // of them, seen by the card: card
  alignas(64) Word completions;    // futex; completed packets, modulo 2^32: card (host once it is dead)
  Word waiters;                    // threads of the host that sleep on it: host
  Call call;
  LongWord submissions[kPacketSlots];  // ring of generation << 32 | packet slot: host
  Word generation[kPacketSlots];       // of each packet; a command of an older one no longer owns it: host
};

inline constexpr std::uint64_t kPacketsOffset = (sizeof(ControlBlock) + 4095) / 4096 * 4096;
inline constexpr std::uint64_t kControlBytes = kPacketsOffset + std::uint64_t{kPacketSlots} * kPacketBytes;

/// What the image descriptor holds during kLoad: this, then EMULATION_DATA.
struct ImageHeader {
  static constexpr std::uint32_t kMaxUnits = 128, kMaxBanks = 64;
  struct Unit {
    char name[64];  // "kernel:cu", in XRT's order of compute units
  };
  struct Bank {
    std::uint64_t address, bytes, offset;  // device address, size, place in the card's memory
  };
  std::uint32_t units, banks;
  std::uint64_t data_bytes;
  Unit unit[kMaxUnits];
  Bank bank[kMaxBanks];
};

// Cards and cables.
// ---------------------------------------------------------------------------------------------------

/// Wakes a card: whoever gave it work counts `rung` up and, where the card sleeps, wakes it.
struct alignas(64) Doorbell {
  Word rung;  // anyone
  // Futex; card sets, who wakes it clears. The card sleeps on this word and not on `rung`: whoever rang
  // before the card looked may clear it only now, before the card is in the kernel, and a card that slept on
  // while the word says it is awake would be woken by nobody any more.
  Word sleeping;
  Word alive;  // host: a process serves this card
};

inline void ring(Doorbell& doorbell) {
  doorbell.rung.fetch_add(1, std::memory_order_seq_cst);
  if (doorbell.sleeping.load(std::memory_order_seq_cst) != 0 && doorbell.sleeping.exchange(0) != 0)
    futex_wake(doorbell.sleeping, 1);
}

/// One direction of one tag of one cable: a ring of packet slots with one sender and one receiver.
/// The sender's (re)start is a new generation: it takes slot size and number from the link table and starts
/// at slot 0 once the receiver has acknowledged. Until then, and whenever all slots are full, it has no
/// credit.
struct Ring {
  struct alignas(64) Sender {
    Word in_service;
    Word generation;  // 0: never started
    Word packet_bytes, credits;
    LongWord head;  // packets sent in this generation
    Word starved;   // wants the doorbell when credit returns; the receiver clears it
  } sender;
  struct alignas(64) Receiver {
    Word in_service;
    Word generation;  // acknowledged
    LongWord tail;    // packets taken in that generation
  } receiver;
};

struct PacketHeader {
  std::uint64_t sequence;
  std::uint32_t epoch;
  std::uint32_t offset;  // of the payload in the frame's wire form
  std::uint32_t length;
  std::uint32_t last;
  std::uint64_t reserved;
};
static_assert(sizeof(PacketHeader) == 32);

inline constexpr std::uint64_t kRingBytes = 1U << 20;
constexpr std::uint64_t slot_bytes(std::uint64_t packet_bytes) {
  return (sizeof(PacketHeader) + packet_bytes + 63) / 64 * 64;
}

struct CableEnd {
  std::uint32_t card, connector;
};

/// Constant once the first card starts, but for doorbells and rings.
struct Fabric {
  std::uint32_t magic;
  std::uint32_t cards, cables;
  std::uint32_t spin_nanoseconds;  // a card looks for work so long before it sleeps
  std::uint32_t rtl;               // 1: cards compute with simulations of their SystemVerilog
  CableEnd cable[kMaxCables][2];
  Doorbell doorbell[kMaxCards];
  Ring rings[kMaxCables][2][plan::abi::kMaxTags];  // [cable][end that sends][tag]
};

inline constexpr std::uint64_t kRingsOffset = (sizeof(Fabric) + 4095) / 4096 * 4096;
constexpr std::uint64_t fabric_bytes(std::uint32_t cables) {
  return kRingsOffset + std::uint64_t{cables} * 2 * plan::abi::kMaxTags * kRingBytes;
}
inline std::byte* ring_data(std::byte* fabric, std::uint32_t cable, std::uint32_t end, std::uint32_t tag) {
  return fabric + kRingsOffset + ((std::uint64_t{cable} * 2 + end) * plan::abi::kMaxTags + tag) * kRingBytes;
}

}  // namespace millrace::runtime::emulator
