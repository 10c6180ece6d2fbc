// The interface between host code and the streaming ends of a card: registers, layouts in memory, and order rules.
// kernels/rtl/shell implements it (mr_ring_in, mr_ring_out). No FPGA image uses rings yet: images have the units of
// image_abi.hpp, with a run for each frame. Any change here must raise kRingAbiVersion.
//
// A ring carries the frames of one port, and is an array of slots in memory. A ring of the way in carries frames from
// the host to the card, a ring of the way out carries frames from the card to the host. Each ring has one unit on the
// card, with a window of registers. The unit is user-managed (xrt::ip): XRT starts no runs on it.
//
//     ring, at kRingRegBase                                  status record, at kRingRegStatusBase
//     +--------+--------+-- ... --+----------------+         +------------+
//     | slot 0 | slot 1 |         | slot slots - 1 |         | RingStatus |  64 bytes, only the card writes
//     +--------+--------+-- ... --+----------------+         +------------+
//     a slot: payload | zeros up to a multiple of 64 bytes | RingTrailer (64 bytes)
//
// WHO WRITES WHAT
//                          the way in                             the way out
//   payload and trailer    host, before it offers the slot        card, only in slots that were offered
//   kRingRegDoorbell       host: slots that it has filled         host: slots that the card may fill
//   RingStatus             card: slots that it has read           card: slots that it has written
//
// COUNTS. Both sides count slots since the epoch began: the first slot of an epoch has index 0. The slot with index i
// is at base + (i % slots) * slot bytes. A doorbell is a running total, not an increment: after the host has offered
// n slots in this epoch, it writes ring_doorbell(epoch, n). One doorbell can offer several slots. The host must keep
//     n - (slots that the card has read or written) <= slots,
// and n never falls within an epoch. On the way out, n is therefore at most `slots` at first, and then grows by one
// for each slot whose content the host no longer needs. The number n - written is the card's credit. Without credit,
// the card waits: it neither drops nor overwrites a frame.
//
// THE PHASE BIT. The bit has the value 1 in the first lap of an epoch through the ring, 0 in the second, 1 in the third
// and so on. It is in RingTrailer::mark, together with the slot's index. A slot of the way out is filled exactly if
// its phase bit is that of the lap for which the reader waits. Because memory can contain anything when an epoch
// begins, the host writes 0 to the last eight bytes (mark, epoch) of every slot before the first doorbell of an epoch.
//
// ORDER: THE WAY IN
//   1. Store payload and trailer in the slot.
//   2. Ring in host memory: a store fence. Ring in card memory: read back the trailer's last eight bytes, because
//      the memory and the registers of a card are different targets.
//   3. Write the doorbell. The write is posted, so it costs no round trip.
//   The card reads a slot only after its doorbell: first the trailer, then the payload. It reads several slots ahead.
//   When RingStatus::index is n, the card has finished reading the slots below n, and the host may fill them again.
//   The index says nothing about results: frames that were read may still be lost with a later change of epoch.
//
// ORDER: THE WAY OUT
//   1. The card writes the payload and then the trailer, all with one AXI ID to one target, each burst with increasing
//      addresses; `mark` and `epoch` are the last eight bytes of the trailer. Writes to host memory stay in this order
//      over PCIe. In card memory nothing orders writes for another reader. With kRingCardMemory set, the card therefore
//      waits until memory has acknowledged the payload, writes the trailer with the wrong phase bit, waits for the
//      acknowledgement, and writes the trailer again with the right phase bit.
//   2. The reader loads the last eight bytes of the slot as one word. If the phase bit is that of the expected lap,
//      then after an acquire fence the rest of the trailer and the payload are complete.
//   3. The reader compares the rest of the word with ring_mark(index, slots) and the epoch. If they differ, the card is
//      defective.
//   Frames come in the order in which they left the partition, one for each slot, without gaps.
//
// THE STATUS RECORD. Each aligned word of eight bytes is consistent in itself. Two words may come from two different
// writes. The card writes the record when the unit starts, when an epoch begins, when an error occurs, when a heartbeat
// is due and, on the way in, when `index` has grown (several slots can share one write). The heartbeat replaces the run
// of the supervisor: if `heartbeat` does not change for several periods (kRingRegHeartbeat), the card is dead or its
// path to memory hangs. Registers of a dead card read all ones.
//
// EPOCHS. The host writes the new epoch to kRegEpoch of the control unit (image_abi.hpp). Every ring unit then finishes
// the AXI bursts that have begun, drops all other work, and sets all indices to zero. When the whole card is quiet,
// each unit writes a status record with the new epoch and the index 0. In the record's word {index, epoch}, the new
// epoch means epoch_done: the unit accesses no slot any more because of an older epoch. The host then clears the marks
// of the way out, and only then rings doorbells of the new epoch. The unit ignores doorbells of other epochs and
// doorbells during the change, because an honest host can write them: one thread can ring while another raises the
// epoch. A reset of the shell (kRegReset) has the same effect on rings, without a new epoch. The unit then ignores all
// doorbells until the host raises the epoch.
//
// START, STOP, AND WHAT A DEAD PROCESS LEFT. These steps work in every state of the unit:
//   1. Disable: write 0 to kRingRegControl. The unit finishes the bursts that have begun and drops all other work.
//   2. Wait until kRingQuiet reads 1. From then on the unit accesses no memory, and its earlier writes are visible,
//      because the answer to the read follows them over PCIe. Until then, the memory of the old ring and of the old
//      status record belongs to the card: a process that died with a running unit leaves a card that still writes
//      heartbeats, and results as far as it has credit. If quiet does not come, the path to memory hangs: reset the
//      shell, then the device.
//   3. Write bases, slots and mode; clear the status record and the marks.
//   4. Raise the epoch, so that no frame of the old process is in the partition. The unit refuses to be enabled twice
//      in the same epoch.
//   5. Enable: write kRingEnable. The first status record with a new heartbeat and the current epoch says that the unit
//      works. If kRingEnable reads 0 instead, kRingRegError says why.
//
// ERRORS. The unit refuses what no honest host could write, and does not follow it. The first error is kept until the
// next epoch or the next enabling. While it is kept, the unit begins no slot (the frame that it is reading or writing
// ends first, without its trailer where a write failed), ignores doorbells, and still writes status records. Frames
// that leave the card after a failed access to memory have the status kFailed, as in image_abi.hpp.
//
// INTERRUPT. The unit raises its interrupt only if the host has armed it, once for each arming. To sleep until the
// card's index exceeds n, write ring_doorbell(epoch, n) to kRingRegArm. The interrupt comes as soon as memory shows an
// index above n, and at once if it does already, so no event is lost between the last look and the arming. A new epoch
// and an error also raise it. By then, memory has acknowledged the trailer (the way out) or the status record (the way
// in; epoch and error on both ways). The registers GIE, IER and ISR are where HLS has them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::plan::abi {

inline constexpr std::uint32_t kRingAbiVersion = 1;

inline constexpr char kRingInKernel[] = "millrace_ring_in";
inline constexpr char kRingOutKernel[] = "millrace_ring_out";

// Registers of a ring unit, 32 bits each. The constants are byte offsets. Comments: r means readable, w writable. Only
// writes of whole registers have an effect. Registers that are not listed read 0, and writes to them do nothing.

// rw. The bits are where HLS has start, idle and software reset. The host writes kRingEnable, 0 or kRingReset.
inline constexpr std::uint32_t kRingRegControl = 0x00;
inline constexpr std::uint32_t kRingEnable = 1u;  // 1 enables, 0 disables
inline constexpr std::uint32_t kRingQuiet = 4u;   // r: the unit is disabled and accesses no memory
// A write of 1 disables the unit and, once it is quiet, clears slots, mode, error, faults and the interrupt registers.
// Reads 1 until this is done; until then, all writes are ignored.
inline constexpr std::uint32_t kRingReset = 0x100u;

inline constexpr std::uint32_t kRingRegGlobalInterrupt = 0x04;  // rw, GIE: bit 0
inline constexpr std::uint32_t kRingRegInterruptEnable = 0x08;  // rw, IER: bit 0
// rw, ISR: bit 0; a write of 1 toggles it. So write it only while it reads 1 or the interrupt is pending.
inline constexpr std::uint32_t kRingRegInterruptStatus = 0x0c;
inline constexpr std::uint32_t kRingRegVersion = 0x10;       // r: kRingAbiVersion
inline constexpr std::uint32_t kRingRegDirection = 0x14;     // r: RingDirection
inline constexpr std::uint32_t kRingRegPayloadBytes = 0x18;  // r: bytes of a frame in storage form
inline constexpr std::uint32_t kRingRegHeartbeat = 0x1c;     // r: microseconds between heartbeats

// The next six registers describe the ring. Writes to them are ignored unless kRingQuiet reads 1. The ring's address is
// a multiple of 4096, the status record's address a multiple of 64; both are below 2^48.
inline constexpr std::uint32_t kRingRegBaseLow = 0x20;  // rw
inline constexpr std::uint32_t kRingRegBaseHigh = 0x24;
inline constexpr std::uint32_t kRingRegStatusBaseLow = 0x28;  // rw
inline constexpr std::uint32_t kRingRegStatusBaseHigh = 0x2c;
inline constexpr std::uint32_t kRingRegSlots = 0x30;  // rw: a power of two from 2 to kRingMaxSlots
inline constexpr std::uint32_t kRingRegMode = 0x34;   // rw: kRingCardMemory or 0
inline constexpr std::uint32_t kRingCardMemory = 1u;  // the ring is in the card's memory; for the way out

inline constexpr std::uint32_t kRingRegDoorbell = 0x38;  // w: ring_doorbell(); r: the last accepted one
inline constexpr std::uint32_t kRingRegArm = 0x3c;  // w: ring_doorbell() of the count that the host has seen
inline constexpr std::uint32_t kRingRegIndex = 0x40;   // r: as RingStatus::index
inline constexpr std::uint32_t kRingRegEpoch = 0x44;   // r: as RingStatus::epoch
inline constexpr std::uint32_t kRingRegError = 0x48;   // r: RingError
inline constexpr std::uint32_t kRingRegDetail = 0x4c;  // r: as RingStatus::detail
inline constexpr std::uint32_t kRingRegFaults = 0x50;  // r: as RingStatus::faults

enum class RingDirection : std::uint32_t { kIn = 0, kOut = 1 };

inline constexpr std::uint32_t kRingMaxSlots = 256;
inline constexpr std::uint32_t kRingSlots = 64;  // what Millrace uses

enum class RingError : std::uint32_t {
  kNone = 0,
  // kRingEnable was written against a rule. The unit stays disabled and writes no status record. detail: the broken
  // rules, as a sum of the constants below.
  kConfiguration = 1,
  kDoorbell = 2,  // a doorbell of this epoch fell, or offered more slots than the ring has. detail: its value
  kTrailer = 3,   // the way in: a trailer that does not fit its slot. detail: the slot's index
  kReadFailed =
      4,  // the way in: memory answered a read with an error. detail: RingStatus::index at that time
  kWriteFailed = 5,  // memory answered a write with an error. detail: RingStatus::index at that time
};

// Rules of kConfiguration
inline constexpr std::uint32_t kRingBadBase = 1u;
inline constexpr std::uint32_t kRingBadStatusBase = 2u;
inline constexpr std::uint32_t kRingBadSlots =
    4u;  // kRingRegSlots reads 0 after a number of slots that is not allowed
inline constexpr std::uint32_t kRingNotQuiet = 8u;
inline constexpr std::uint32_t kRingOldEpoch = 16u;  // the unit was enabled in this epoch before

/// The end of a slot. On the way in, the card refuses a trailer (kTrailer) unless magic, payload_bytes, status (kOk),
/// mark and epoch are exactly as expected, and the sequence is greater than that of the slot before it in this epoch.
/// It does not read the other fields.
struct RingTrailer {                      // 64 bytes
  std::uint32_t magic = 0x5452524du;      // "MRRT"
  std::uint32_t payload_bytes = 0;        // kRingRegPayloadBytes
  std::uint64_t sequence = 0;             // of the frame
  FrameStatus status = FrameStatus::kOk;  // the way out: kOk or kFailed
  std::uint32_t flags = 0;                // as StatusTrailer::flags
  std::uint64_t cycles = 0;               // the way out: as StatusTrailer::cycles
  std::uint64_t stall_cycles = 0;  // the way out: cycles in which the frame waited for memory or for credit
  std::uint64_t reserved[2] = {};
  std::uint32_t mark = 0;   // ring_mark() of the slot: the phase bit and the index
  std::uint32_t epoch = 0;  // of the frame
};
static_assert(sizeof(RingTrailer) == 64);
static_assert(offsetof(RingTrailer, sequence) == 8 && offsetof(RingTrailer, status) == 16);
static_assert(offsetof(RingTrailer, cycles) == 24 && offsetof(RingTrailer, stall_cycles) == 32);
static_assert(offsetof(RingTrailer, mark) == 56 && offsetof(RingTrailer, epoch) == 60);

/// What the card tells about a ring. The comments name the words of eight bytes that are consistent in themselves.
struct RingStatus {                   // 64 bytes
  std::uint32_t magic = 0x5352524du;  // "MRRS"
  std::uint32_t version = kRingAbiVersion;
  std::uint32_t index = 0;  // word 1: slots of this epoch that the card has read (in) or written (out)
  std::uint32_t epoch = 0;  // word 1: all work for older epochs is over
  RingError error = RingError::kNone;  // word 2
  std::uint32_t faults = 0;            // word 2: errors since the image was loaded or the unit was reset
  std::uint64_t heartbeat = 0;         // word 3: grows with every record, also when the unit is enabled anew
  std::uint64_t now = 0;               // word 4: the card's clock cycles since its reset
  std::uint32_t doorbell = 0;          // word 5: the last accepted doorbell
  std::uint32_t detail = 0;            // word 5: what RingError says about its error
  std::uint64_t reserved[2] = {};
};
static_assert(sizeof(RingStatus) == 64);
static_assert(offsetof(RingStatus, index) == 8 && offsetof(RingStatus, epoch) == 12);
static_assert(offsetof(RingStatus, error) == 16 && offsetof(RingStatus, heartbeat) == 24);
static_assert(offsetof(RingStatus, now) == 32 && offsetof(RingStatus, doorbell) == 40);

/// Returns the bytes of a slot, which is also the distance between slots.
constexpr std::uint64_t ring_slot_bytes(std::uint64_t payload_bytes) {
  return trailer_offset(payload_bytes) + sizeof(RingTrailer);
}
constexpr std::uint64_t ring_bytes(std::uint64_t payload_bytes, std::uint32_t slots) {
  return slots * ring_slot_bytes(payload_bytes);
}

inline constexpr std::uint32_t kRingPhase = 0x8000'0000u;  // the phase bit of a mark

/// Returns the mark of the slot with this index: bit 31 is the phase bit of its lap, bits 0 to 30 are the index
/// modulo 2^31. `slots` is a power of two.
constexpr std::uint32_t ring_mark(std::uint32_t index, std::uint32_t slots) {
  return (index / slots % 2 == 0 ? kRingPhase : 0u) | (index & ~kRingPhase);
}
static_assert(ring_mark(0, 64) == 0x8000'0000u && ring_mark(63, 64) == 0x8000'003fu);
static_assert(ring_mark(64, 64) == 64 && ring_mark(128, 64) == 0x8000'0080u);
static_assert(ring_mark(0xffff'ffffu, 64) == 0x7fff'ffffu);  // the index after it is 0, with the phase 1

/// Returns the value of a doorbell: the low 16 bits of the epoch, and the low 16 bits of the count. The epoch lets the
/// card ignore a doorbell that arrives after the epoch has changed.
constexpr std::uint32_t ring_doorbell(std::uint32_t epoch, std::uint32_t count) {
  return (epoch & 0xffffu) << 16 | (count & 0xffffu);
}
static_assert(2 * kRingMaxSlots <= 0x10000);  // so 16 bits tell valid doorbells from invalid ones

}  // namespace millrace::runtime::plan::abi
