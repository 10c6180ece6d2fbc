// The layouts of the memory that the shim shares with card processes. README.md describes the protocol.
//
// The shim and the card program are built together, so the layouts have no version number. The magic word only
// detects a card program from another build. All memory is zero at first. The comment of each word names the only
// side that writes it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::emulator {

using Word = std::atomic<std::uint32_t>;
using LongWord = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "a futex is a plain 32-bit word");
static_assert(LongWord::is_always_lock_free && sizeof(LongWord) == 8);

// Processes sleep and wake each other on words of shared memory: futex(2) without its private flag.

/// Sleeps while `word` is `expected`, for at most `timeout` (null: without limit). May return early, so the
/// caller must check the word again.
inline void futex_wait(const Word& word, std::uint32_t expected, const timespec* timeout = nullptr) {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAIT, expected, timeout, nullptr,
          0);
}

inline void futex_wake(const Word& word, int count) {
  syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), FUTEX_WAKE, count, nullptr, nullptr, 0);
}

inline constexpr std::uint32_t kProtocolMagic = 0x4d524332u;
inline constexpr std::uint32_t kMaxCards = 64;
inline constexpr std::uint32_t kMaxCables = 64;
inline constexpr std::uint32_t kMaxConnectors = 64;           // most connectors of a card
inline constexpr std::uint64_t kMaxMemoryBytes = 1ULL << 38;  // most memory of a card

/// The descriptors that a card process starts with.
enum CardDescriptor : int { kControlFd = 3, kMemoryFd, kFabricFd, kImageFd, kLivenessFd, kFirstOtherFd };

/// Commands ("execution buffers") are ERT packets of one page each. The card reads and answers them in place.
inline constexpr std::uint32_t kPacketSlots = 4096;
inline constexpr std::uint32_t kPacketBytes = 4096;

enum class Request : std::uint32_t { kLoad, kReadRegister, kWriteRegister, kAbort };

/// A call from the host to the card. There is one call at a time. The host writes everything except
/// `answered`, `status`, `message` and, for reads, `value`.
struct alignas(64) Call {
  Word asked;     // number of the current call
  Word answered;  // futex; number of the last answered call, or kCardGone once the card is dead
  Request request;
  std::uint32_t unit;    // compute unit for register access, packet slot for an abort
  std::uint32_t offset;  // for register access
  std::uint32_t value;   // for register access; for an abort the state in which the run ends
  std::int32_t status;   // 0 or a negative errno
  char message[512];     // for kLoad: why loading failed
};
inline constexpr std::uint32_t kCardGone = 0xffffffffu;

/// What XRT's driver knows about a card, and what outlives the host if a keeper keeps the card (keeper.hpp).
struct DriverState {
  static constexpr std::uint32_t kMaxUnits = 128;
  Word condition;              // EmulatedCard::Condition
  Word loaded;                 // 1: the card has the image `uuid`
  unsigned char uuid[16];      // of the loaded image
  std::uint32_t units;         // of that image
  bool resettable[kMaxUnits];  // by compute unit: whether the driver can reset the unit
};

struct ControlBlock {
  std::uint32_t magic;
  std::uint32_t card;              // the card's index; written by the host
  alignas(64) LongWord submitted;  // packets submitted since the image was loaded; written by the host
  alignas(64) LongWord taken;      // packets that the card has read; written by the card
  alignas(64) Word completions;    // futex; completed packets modulo 2^32; written by the card
  Word waiters;                    // threads of the host that sleep on `completions`; written by the host
  DriverState driver;              // written by the host
  Call call;
  LongWord submissions[kPacketSlots];  // ring of generation << 32 | packet slot; written by the host
  Word generation[kPacketSlots];       // incremented when a slot is submitted or freed; written by the host
};

inline constexpr std::uint64_t kPacketsOffset = (sizeof(ControlBlock) + 4095) / 4096 * 4096;
inline constexpr std::uint64_t kControlBytes = kPacketsOffset + std::uint64_t{kPacketSlots} * kPacketBytes;

/// The content of the image descriptor during kLoad: this header, followed by the section EMULATION_DATA.
struct ImageHeader {
  static constexpr std::uint32_t kMaxUnits = 128, kMaxBanks = 64;
  struct Unit {
    char name[64];  // "kernel:cu", in XRT's order of compute units
  };
  struct Bank {
    std::uint64_t address, bytes, offset;  // device address, size, offset in the card's memory
    bool operator==(const Bank&) const = default;
  };
  std::uint32_t units, banks;
  Unit unit[kMaxUnits];
  Bank bank[kMaxBanks];
};

/// Wakes a card. Whoever has work for the card increments `rung` and, if the card sleeps, wakes the card.
struct alignas(64) Doorbell {
  Word rung;  // incremented by anyone
  // A futex word on which the card sleeps. The card sets it before it sleeps, and whoever wakes the card clears it. If
  // it is cleared just before the card enters the kernel, futex_wait() returns at once. If the card slept on `rung`
  // instead, it would miss that wake-up and sleep on.
  Word sleeping;
  Word alive;  // whether a process runs this card; written by the host
  // When the card's transceivers are ready (steady clock, in nanoseconds), or 0 if they are not. A cable is
  // up when both ends are ready. Used only with the option manners=hardware; written by the host.
  LongWord cables_up_at;
};

inline void ring(Doorbell& doorbell) {
  doorbell.rung.fetch_add(1, std::memory_order_seq_cst);
  if (doorbell.sleeping.load(std::memory_order_seq_cst) != 0 && doorbell.sleeping.exchange(0) != 0)
    futex_wake(doorbell.sleeping, 1);
}

/// One direction of one channel (tag) of a cable: a ring of packet slots with one sender and one receiver. When the
/// sender starts or restarts, it begins a new generation: it reads the size and number of slots from the link
/// table, and starts at slot 0 when the receiver has acknowledged the generation. Until then, and whenever
/// all slots are full, the sender has no credit.
struct Ring {
  struct alignas(64) Sender {
    Word in_service;
    Word generation;  // 0: never started
    Word packet_bytes, credits;
    LongWord head;  // packets sent in this generation
    Word starved;   // 1: ring the doorbell when credit returns; the receiver resets it
  } sender;
  struct alignas(64) Receiver {
    Word in_service;
    Word generation;  // the last generation that was acknowledged
    LongWord tail;    // packets read in that generation
  } receiver;
};

struct PacketHeader {
  std::uint64_t sequence;
  std::uint32_t epoch;
  std::uint32_t offset;  // where the payload belongs in the frame's packed form
  std::uint32_t length;
  std::uint32_t last;
  std::uint64_t arrives_at;  // the receiver reads the packet no sooner: steady clock, in nanoseconds
};
static_assert(sizeof(PacketHeader) == 32);

inline constexpr std::uint64_t kRingBytes = 1U << 20;
constexpr std::uint64_t slot_bytes(std::uint64_t packet_bytes) {
  return (sizeof(PacketHeader) + packet_bytes + 63) / 64 * 64;
}

struct CableEnd {
  std::uint32_t card, connector;
};

/// The socket at one end of a UDP cable. The host writes `host` and `given_port`; the card writes `port`.
struct UdpAddress {
  Word host;        // IPv4 address in the machine's byte order
  Word given_port;  // 0: any
  Word port;        // port of the open socket; 0: none yet
};

/// Faults of a UDP cable in one direction. The host writes all words. While it does so, `version` is odd.
struct CableFaults {
  Word version;
  Word outage;                                    // 1: nothing arrives
  LongWord loss, duplicate, reorder, bit_errors;  // probabilities, the bits of a double
  LongWord gigabits_per_second;                   // the bits of a double; 0: unlimited
  LongWord latency_nanoseconds;
};

/// How long packets take over a cable that consists of rings (not of UDP sockets), slowed down by the pace. If all
/// values are 0, packets take no time.
struct CableTimes {
  double nanoseconds_per_byte;
  std::uint64_t latency_nanoseconds;
  LongWord free_at[2];  // when earlier frames are sent, by sending end; written by the sending card
};

/// Memory that all cards share. Constant after the first card has started, except doorbells, rings, addresses, faults
/// and CableTimes::free_at.
struct Fabric {
  std::uint32_t magic;
  std::uint32_t cards, cables;
  std::uint32_t spin_nanoseconds;  // how long a card polls for work before it sleeps
  std::uint32_t rtl;               // 1: cards simulate their SystemVerilog
  std::uint32_t hardware;          // 1: cards have the manners of hardware
  double pace;  // partitions take this many times their predicted time; 0: no time is predicted
  CableEnd cable[kMaxCables][2];
  std::uint32_t uses_udp[kMaxCables];  // 1: datagrams on the host's network instead of rings
  UdpAddress udp[kMaxCables][2];
  CableFaults faults[kMaxCables][2];  // [cable][end that sends]
  CableTimes times[kMaxCables];
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
