// The interface between host code and every FPGA image of Millrace, emulated or real: constants and layouts.
// compiler/emit writes such images, runtime/card uses them, runtime/emulator and kernels/rtl/shell implement
// them. Any change here must raise kAbiVersion.
//
// Compute units (kernel:cu) of an image. All except the last are ap_ctrl_chain and scheduled (xrt::run):
//   millrace_ingress:<partition>_<port>   one for each input port that the host feeds
//   millrace_egress:<partition>_<port>    one for each output port that the host reads
//   millrace_parameters:<partition>       one for each partition with parameters outside the image
//   millrace_supervisor:supervisor        exactly one
//   millrace_control:control              exactly one; not scheduled (xrt::ip); see the registers below
//
// A partition is a free-running dataflow: it computes frames as they come to its input ports and sends
// results from its output ports. The host starts only ingress and egress units, with one run for each frame,
// in frame order on each unit; runs are queued. Frames carry (epoch, sequence). The card drops every frame
// whose epoch differs from the card's epoch.
#pragma once

#include <cstdint>

namespace millrace::runtime::plan::abi {

inline constexpr std::uint32_t kAbiVersion = 1;

inline constexpr char kIngressKernel[] = "millrace_ingress";
inline constexpr char kEgressKernel[] = "millrace_egress";
inline constexpr char kSupervisorKernel[] = "millrace_supervisor";
inline constexpr char kSupervisorUnit[] = "supervisor";
inline constexpr char kControlKernel[] = "millrace_control";
inline constexpr char kControlUnit[] = "control";
inline constexpr char kParametersKernel[] = "millrace_parameters";

/// Arguments of an ingress run. The run reads `bytes` bytes (the port's frame in storage form) from `buffer`
/// and sends them to the partition. The run completes when the partition has received the frame, or when the
/// frame is dropped because its epoch is not the card's epoch.
enum IngressArgument : std::uint32_t {
  kIngressBuffer = 0,    // global pointer, offset 0x10
  kIngressBytes = 1,     // u32, 0x1c
  kIngressEpoch = 2,     // u32, 0x24
  kIngressSequence = 3,  // u64, 0x2c
};

/// Arguments of an egress run. The run waits for the frame (epoch, sequence) on its port and writes it to `buffer`,
/// and its StatusTrailer to trailer_offset(bytes). If that frame can no longer come, because the epoch was raised or a
/// later sequence arrived, the run completes with trailer.status kDropped and no payload.
enum EgressArgument : std::uint32_t {
  kEgressBuffer = 0,    // global pointer, 0x10
  kEgressBytes = 1,     // u32, 0x1c: expected payload bytes
  kEgressEpoch = 2,     // u32, 0x24
  kEgressSequence = 3,  // u64, 0x2c
};

/// Arguments of a run that loads a partition's parameters (parameters.hpp). `buffer` holds the parameter file, whose
/// sections begin at these offsets. The buffer must exist while the image is loaded, because streamed weights are read
/// from it. Before the first such run completes, the partition computes nothing; the run drops frames that the
/// partition holds. The host starts the run between raising the epoch and sending the next frame, so that all cards
/// use the same parameters for a frame. The run fails if the file is for another image.
enum ParametersArgument : std::uint32_t {
  kParametersBuffer = 0,          // global pointer, 0x10
  kParametersBytes = 1,           // u32, 0x1c: bytes of the file
  kParametersLoadOffset = 2,      // u32, 0x24
  kParametersLoadBytes = 3,       // u32, 0x2c
  kParametersStreamedOffset = 4,  // u32, 0x34
};

/// The supervisor has one run for each load of the image. The run completes when the card has a fault, or on a write
/// to kRegSupervisorStop. If the card dies, XRT ends the run with an error, so the host learns of the loss even if it
/// is not waiting for a frame from this card.
enum SupervisorArgument : std::uint32_t {
  kSupervisorReport = 0,  // global pointer, 0x10: where the FaultReport is written
};

enum class FaultCode : std::uint32_t { kNone = 0, kStopped = 1, kLinkDown = 2, kProtocol = 3, kInternal = 4 };

struct FaultReport {                  // 64 bytes
  std::uint32_t magic = 0x4654524du;  // "MRTF"
  FaultCode code = FaultCode::kNone;
  std::uint32_t link_index = 0;
  std::uint32_t reserved = 0;
  char detail[48] = {};  // zero-terminated text
};
static_assert(sizeof(FaultReport) == 64);

/// The status of a frame that leaves the card. kFailed: a memory access of the card failed, so the payload may be
/// wrong; all later frames have this status until the host raises the epoch, which discards all frames. Memory accesses
/// of emulated cards do not fail.
enum class FrameStatus : std::uint32_t { kOk = 0, kDropped = 1, kFailed = 2 };

struct StatusTrailer {                // 64 bytes
  std::uint32_t magic = 0x5354524du;  // "MRTS"
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  FrameStatus status = FrameStatus::kOk;
  std::uint32_t payload_bytes = 0;
  // The card's cycles from the frame's first input element to its last output element. In functional emulation: the
  // nanoseconds of computation; kTrailerNanoseconds is then set in `flags`.
  std::uint64_t cycles = 0;
  std::uint64_t stall_cycles = 0;
  std::uint32_t flags = 0;
  std::uint32_t reserved[5] = {};
};
static_assert(sizeof(StatusTrailer) == 64);
inline constexpr std::uint32_t kTrailerNanoseconds = 1u;

constexpr std::uint64_t trailer_offset(std::uint64_t payload_bytes) {
  return (payload_bytes + 63) / 64 * 64;
}
constexpr std::uint64_t egress_buffer_bytes(std::uint64_t payload_bytes) {
  return trailer_offset(payload_bytes) + sizeof(StatusTrailer);
}

// Registers of millrace_control, 32 bits each. The constants are byte offsets. Comments: r means readable, w writable.
inline constexpr std::uint32_t kRegAbiVersion = 0x10;  // r: kAbiVersion of the image
inline constexpr std::uint32_t kRegEpoch = 0x14;       // rw: a write drops all frames of other epochs
inline constexpr std::uint32_t kRegLinkPorts = 0x18;   // r: number of rows in the link table
inline constexpr std::uint32_t kRegSupervisorStop =
    0x1c;                                             // w: any value ends the supervisor's run (kStopped)
inline constexpr std::uint32_t kRegFramesLow = 0x20;  // r: frames that all partitions computed since load
inline constexpr std::uint32_t kRegFramesHigh = 0x24;
inline constexpr std::uint32_t kRegBusyLow =
    0x28;  // r: microseconds some partition was computing, since load
inline constexpr std::uint32_t kRegBusyHigh = 0x2c;
// rw: a write of 1 resets the shell: all ports drain their memory accesses, all runs of ingress and egress units end
// (egress runs as kDropped), and all frames are discarded. The epoch, the link table and the units' registers stay.
// Reads as a combination of the bits below. Reads 0 on cards without this register, such as all hardware that
// kernels/rtl/shell describes; emulated cards have it.
inline constexpr std::uint32_t kRegReset = 0x30;
inline constexpr std::uint32_t kResetBusy = 1u;    // the reset is not done yet
inline constexpr std::uint32_t kResetExists = 2u;  // this card has the register

// The link table. Row i (ImagePort::link_index) is at kLinkTable + i * kLinkRowBytes. The host writes a row after it
// has chosen the cards of the deployment, and sets kLinkEnable last.
inline constexpr std::uint32_t kLinkTable = 0x100;
inline constexpr std::uint32_t kLinkRowBytes = 0x40;
inline constexpr std::uint32_t kMaxLinkPorts = 32;
inline constexpr std::uint32_t kLinkEnable = 0x00;     // rw: 1 enables the link
inline constexpr std::uint32_t kLinkConnector = 0x04;  // rw: the card's connector
inline constexpr std::uint32_t kLinkTag = 0x08;        // rw: the channel's number on the cable, 0..kMaxTags-1
inline constexpr std::uint32_t kLinkPacketBytes = 0x0c;  // rw: payload bytes of a packet
inline constexpr std::uint32_t kLinkCredits = 0x10;      // rw: most packets in flight
inline constexpr std::uint32_t kLinkStatus = 0x14;       // r: bit 0 cable present, bit 1 peer enabled
inline constexpr std::uint32_t kLinkPacketsLow = 0x18;   // r: packets since the image was loaded
inline constexpr std::uint32_t kLinkPacketsHigh = 0x1c;
inline constexpr std::uint32_t kLinkBytesLow = 0x20;  // r: payload bytes since the image was loaded
inline constexpr std::uint32_t kLinkBytesHigh = 0x24;
inline constexpr std::uint32_t kLinkStallsLow = 0x28;  // r: how often the sender had no credit
inline constexpr std::uint32_t kLinkStallsHigh = 0x2c;
// The next four registers read 0 on cards that do not have them, because such cards repair no losses.
inline constexpr std::uint32_t kLinkRepeats = 0x30;  // r: packets sent again
inline constexpr std::uint32_t kLinkDamaged =
    0x34;  // r: packets dropped because of a wrong CRC, on the whole cable
inline constexpr std::uint32_t kLinkDropped =
    0x38;                                          // r: packets dropped for other reasons, on the whole cable
inline constexpr std::uint32_t kLinkState = 0x3c;  // r: LinkState

enum class LinkState : std::uint32_t {
  kDown = 0,      // out of service
  kTraining = 1,  // in service, but the other end has not answered yet
  kUp = 2,        // the other end answers
  kDegraded = 3,  // the other end answers, but packets had to be repaired recently
  kLost = 4,      // the other end answered before, and does not answer now
};

// Images with UDP links have at most kMaxUdpPorts rows, and further registers for row i at kUdpTable + i * kUdpRowBytes.
// They are written like the row itself, before kLinkEnable. Emulated cards do not have them.
inline constexpr std::uint32_t kUdpTable = 0x500;
inline constexpr std::uint32_t kUdpRowBytes = 0x10;
inline constexpr std::uint32_t kMaxUdpPorts = 16;
inline constexpr std::uint32_t kUdpEndpoints =
    0x0;  // rw: bits 0 to 15 the source of the channel's data, bits 16 to 31 the destination
inline constexpr std::uint32_t kUdpSocket =
    0x4;  // rw: the neighbour's index in the network layer's socket table
inline constexpr std::uint32_t kUdpGeneration =
    0x8;  // r: how often the port went into service since the card's reset
inline constexpr std::uint32_t kUdpViolation = 0xc;  // r: link::Violation of the neighbour; 0: none

inline constexpr std::uint32_t kMaxTags = 16;  // most channels in each direction of a cable

}  // namespace millrace::runtime::plan::abi
