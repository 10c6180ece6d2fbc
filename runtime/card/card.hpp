// One FPGA card as a pipeline uses it: load an FPGA image, start units, read and write control registers.
//
// The interface is abstract so that a pipeline can be tested with cards that fail on command. open() returns
// the implementation for real use, which calls only XRT's public C++ API; XRT decides whether an Alveo or an
// emulated card answers. runtime/plan/image_abi.hpp defines the units and registers of an FPGA image.
//
// Threads. A slot (buffer and run) of an Ingress or Egress belongs to one thread at a time, which alone
// starts its runs. For each card, only one thread at a time may be inside Egress::wait() or
// Card::wait_supervisor(), because XRT 2.13 lets one thread wait in the driver and blocks all further ones.
// Any thread may call read(), write() and info() at any time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::card {

enum class RunState {
  kDone,     // the run completed or was never started
  kRunning,  // the run has not completed yet
  kFailed,   // XRT ended the run with an error: the card is lost
};

/// The steps of Card::reset(), in the order in which recovery tries them. Each step loses more than the one before.
enum class ResetStep : std::uint8_t {
  kUnit,    // aborts the outstanding runs, so that XRT's driver resets the units that execute them
  kShell,   // resets everything on the card but its registers (kRegReset in image_abi.hpp)
  kDevice,  // resets the whole device, as `xbutil reset` does: the FPGA then has no image
};
inline constexpr std::size_t kResetSteps = 3;
/// Returns "unit", "shell" or "device".
const char* to_string(ResetStep step);

/// An input port that the host feeds. Each of its `slots` slots has a buffer and a run. All arguments of a run except
/// epoch and sequence are set only once.
class Ingress {
 public:
  virtual ~Ingress() = default;

  /// Returns the slot's host memory, which is exactly one frame of the port. Do not write to this memory
  /// while the slot's run is kRunning.
  virtual std::span<std::byte> buffer(std::uint32_t slot) = 0;

  /// Copies the slot's buffer to the card and starts the slot's run. Allocates nothing. Returns kUnavailable
  /// if the card is gone.
  virtual Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) = 0;

  /// Returns the state of the slot's last run. Does not wait.
  virtual RunState state(std::uint32_t slot) = 0;
};

/// An output port that the host reads. Each of its slots has a buffer and a run, as in an Ingress.
class Egress {
 public:
  virtual ~Egress() = default;

  /// Starts the slot's run, which receives the frame (epoch, sequence). Returns kUnavailable if the card is lost.
  virtual Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) = 0;

  /// Waits until the slot's run ends, but not much longer than `bound`. The wait is longer only while other runs of the
  /// card keep ending.
  virtual RunState wait(std::uint32_t slot, std::chrono::milliseconds bound) = 0;

  /// Copies the frame's payload and its status trailer from the card. Returns the trailer. May be called only after
  /// wait() returned kDone.
  virtual Result<plan::abi::StatusTrailer> fetch(std::uint32_t slot) = 0;

  /// Returns the payload in host memory. Valid after fetch() and until the slot is started again.
  virtual std::span<const std::byte> payload(std::uint32_t slot) const = 0;
};

struct CardInfo {
  std::uint32_t index = 0;  // the card's number in XRT
  std::string bdf;          // "0000:03:00.1"; empty if XRT does not report it
  std::string name;         // the shell's or the emulator's name; empty if XRT does not report it
  std::string image_uuid;   // the loaded image's uuid; empty if no image is loaded
};

/// Values that XRT measures on a board. A value is absent if XRT does not measure it, as on emulated cards.
struct Sensors {
  std::optional<double> temperature_celsius;  // the hottest sensor's value
  std::optional<double> power_watts;          // power that the whole board draws
};

class Card {
 public:
  /// Releases the card for other owners. The card's units must be destroyed first. The loaded image stays on the
  /// card.
  virtual ~Card() = default;

  /// Loads the image (xclbin bytes, which the caller keeps) onto the card. Returns whether the card was programmed:
  /// XRT does not program an image that the card already runs. Units of an earlier load must be destroyed before.
  /// Returns kCorrupt if XRT rejects the bytes or the image has another ABI version, kUnavailable if the card is lost or
  /// the driver has taken it out of use until reset(kDevice), and kEnvironment if XRT cannot load the image for another
  /// reason.
  virtual Result<bool> load(std::span<const std::byte> image) = 0;

  /// Closes the registers and the supervisor (the unit that reports faults) that load() opened. Must be called before
  /// the next load(). Idempotent.
  virtual void unload() = 0;

  /// Opens a unit. `unit` is a plan::ImagePort::compute_unit, `bytes` is the size of the port's frame in storage form
  /// (each element in whole bytes).
  virtual Result<std::unique_ptr<Ingress>> make_ingress(const std::string& unit, std::uint64_t bytes,
                                                        std::uint32_t slots) = 0;
  virtual Result<std::unique_ptr<Egress>> make_egress(const std::string& unit, std::uint64_t bytes,
                                                      std::uint32_t slots) = 0;

  /// Loads the parameters of a partition whose image does not contain them. `file` has the format of
  /// plan/parameters.hpp; its copy stays on the card until unload(). `unit` is a
  /// plan::ImagePartition::parameters_unit. Blocks until the card has read the file: at most 10 s, and 20 µs more for
  /// each byte. The pipeline must have no frame in this partition; the card drops frames that the partition holds.
  /// Returns kCorrupt if the file has another format or the card rejects it, kUnavailable if the card is lost or does
  /// not answer, and kUnsupported if this card loads no parameters.
  virtual Status give_parameters(const std::string& unit, std::span<const std::byte> file) {
    static_cast<void>(file);
    return Error(ErrorCode::kUnsupported, unit + ": this card does not support loading parameters");
  }

  /// Reads a register of millrace_control (image_abi.hpp). Returns kUnavailable if the card has no image or is lost.
  virtual Result<std::uint32_t> read(std::uint32_t offset) = 0;
  virtual Status write(std::uint32_t offset, std::uint32_t value) = 0;

  /// Starts the run of the supervisor, the unit that reports faults. The run ends when the card has a fault to report,
  /// and wait_supervisor() then returns kDone. If the run ends without a report, wait_supervisor() returns kFailed.
  virtual Status start_supervisor() = 0;
  virtual RunState wait_supervisor(std::chrono::milliseconds bound) = 0;
  /// Whether the run of the supervisor (the unit that reports faults) has ended, with or without a report. Does not
  /// wait.
  virtual bool supervisor_ended() = 0;
  virtual plan::abi::FaultReport fault_report() = 0;

  /// Brings the card one step nearer to a state in which it can be used again. After kUnit or kShell, no run is
  /// outstanding; the image and its memory stay. For kDevice, the units must be destroyed first, and load() must follow:
  /// all buffers and contexts of this process on this device are lost. Blocks for at most 10 s, for kDevice as long as
  /// XRT's driver takes (seconds). Called by the thread that loads the card, while no thread is inside wait(). Returns
  /// kUnsupported if the card, its image or its driver does not have this reset, and kUnavailable if the card does not
  /// answer afterwards.
  virtual Status reset(ResetStep step) {
    return Error(ErrorCode::kUnsupported, std::string("this card has no ") + to_string(step) + " reset");
  }

  virtual CardInfo info() = 0;

  /// Reads the board's sensors, which is slow. Any thread may call it.
  virtual Sensors sensors() { return {}; }

  /// Returns how many bytes of the host's memory the card can access, as `xbutil configure --host-mem` sets them up.
  /// Returns nothing if XRT does not say, as for emulated cards and for images that do not use host memory.
  virtual std::optional<std::uint64_t> host_memory_bytes() { return std::nullopt; }
};

/// Identifies a device by its PCIe address or, if `bdf` is empty, by XRT's index.
struct Address {
  std::uint32_t index = 0;
  std::string bdf;
};

/// Opens a device. A process can open each device once. Returns kResourceExhausted if another Card of this process
/// holds the device, kNotFound if XRT has no such device, kInvalidInput if `bdf` is not a PCIe address, and
/// kEnvironment if XRT cannot open the device or has no devices at all.
Result<std::unique_ptr<Card>> open(const Address& address);

/// Whether a Card of this process holds the device.
bool is_open(const Address& address);

/// Returns the uuid of the FPGA image on a device, whoever holds the device, or "" without an image or device.
std::string image_uuid(const Address& address);

/// Lists every device of XRT, in the order of XRT's indices. Opens each device for a moment.
Result<std::vector<CardInfo>> enumerate();

}  // namespace millrace::runtime::card
