// One FPGA, as a pipeline drives it: load an image, start units, read and write the control registers.
//
// The contract is abstract so that a pipeline can be tested against cards that fail on command; open() gives
// the one implementation that ships, which uses XRT's public C++ API and nothing else. Whether an Alveo or an
// emulated card answers is decided below XRT. What an image offers (units, registers) is
// runtime/plan/image_abi.hpp.
//
// Threads. A slot of a unit (Ingress, Egress) belongs to one thread at a time, and so does the starting of
// its runs. Of one card, only one thread at a time may be inside Egress::wait() or Card::wait_supervisor():
// XRT 2.13 lets a single waiter into the driver and blocks the others behind it. read(), write() and info()
// may be called by any thread at any time.
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
  kDone,     // completed, or never started
  kRunning,  // not yet
  kFailed,   // the card is lost: ended by XRT with an error
};

/// A host-fed input port: `slots` buffers, each with a run whose arguments but epoch and sequence are set
/// once.
class Ingress {
 public:
  virtual ~Ingress() = default;

  /// Host memory of the slot, exactly the port's frame. Not to be written while the slot's run is kRunning.
  virtual std::span<std::byte> buffer(std::uint32_t slot) = 0;

  /// Copies the slot's buffer to the card and starts its run. Allocates nothing. kUnavailable: the card is
  /// lost.
  virtual Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) = 0;

  /// Of the slot's last run. Does not wait.
  virtual RunState state(std::uint32_t slot) = 0;
};

/// A host-read output port, likewise.
class Egress {
 public:
  virtual ~Egress() = default;

  /// Starts the slot's run: it will take the frame (epoch, sequence). kUnavailable: the card is lost.
  virtual Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) = 0;

  /// Waits for the slot's run to end, at most about `bound` (longer while other runs of the card keep
  /// ending).
  virtual RunState wait(std::uint32_t slot, std::chrono::milliseconds bound) = 0;

  /// After wait() gave kDone: copies payload and trailer from the card and returns the trailer as it was
  /// written.
  virtual Result<plan::abi::StatusTrailer> fetch(std::uint32_t slot) = 0;

  /// After fetch(): the payload, in host memory, until the slot is started again.
  virtual std::span<const std::byte> payload(std::uint32_t slot) const = 0;
};

struct CardInfo {
  std::uint32_t index = 0;  // XRT's
  std::string bdf;          // "0000:03:00.1"; empty where XRT does not tell
  std::string name;         // shell, or what the emulator calls itself; empty where XRT does not tell
  std::string image_uuid;   // of the image on it; empty where there is none
};

/// What XRT measures on a board; nothing where it does not, as on emulated cards.
struct Sensors {
  std::optional<double> temperature_celsius;  // the hottest of its sensors
  std::optional<double> power_watts;          // of the whole board
};

class Card {
 public:
  /// Gives the card free for others; units made by it must be gone. The image stays on it.
  virtual ~Card() = default;

  /// Puts the image (xclbin bytes, kept by the card's owner) on the card. Returns whether another one was
  /// there before: XRT does not program an image again that a living card has already. Units of an earlier
  /// load must be gone. kCorrupt: XRT does not take the bytes, or the image has another ABI version.
  /// kEnvironment: XRT refuses to load.
  virtual Result<bool> load(std::span<const std::byte> image) = 0;

  /// Releases what load() opened (control registers, supervisor): needed before another load(). Idempotent.
  virtual void unload() = 0;

  /// `unit` as plan::ImagePort::compute_unit, `bytes` the port's frame in storage form.
  virtual Result<std::unique_ptr<Ingress>> make_ingress(const std::string& unit, std::uint64_t bytes,
                                                        std::uint32_t slots) = 0;
  virtual Result<std::unique_ptr<Egress>> make_egress(const std::string& unit, std::uint64_t bytes,
                                                      std::uint32_t slots) = 0;

  /// Gives a partition the parameters its image does not hold: `file` as plan/parameters.hpp has it, copied
  /// to the card, where it stays until unload(). `unit` as plan::ImagePartition::parameters_unit. Blocks
  /// until the card has them, at most about 10 s. No frame of the partition may be under way; those it holds
  /// are dropped. kCorrupt: it is no such file, or the card does not take it. kUnavailable: the card is lost,
  /// or does not answer. kUnsupported: this card takes none.
  virtual Status give_parameters(const std::string& unit, std::span<const std::byte> file) {
    static_cast<void>(file);
    return Error(ErrorCode::kUnsupported, unit + ": this card takes no parameters");
  }

  /// Registers of millrace_control (image_abi.hpp). kUnavailable: nothing loaded, or the card is lost.
  virtual Result<std::uint32_t> read(std::uint32_t offset) = 0;
  virtual Status write(std::uint32_t offset, std::uint32_t value) = 0;

  /// The supervisor's run ends only when there is something to tell. wait: kDone with a report, or kFailed.
  virtual Status start_supervisor() = 0;
  virtual RunState wait_supervisor(std::chrono::milliseconds bound) = 0;
  /// Without waiting; true once it has ended, however.
  virtual bool supervisor_ended() = 0;
  virtual plan::abi::FaultReport fault_report() = 0;

  virtual CardInfo info() = 0;

  /// Asks the board: slow. Any thread.
  virtual Sensors sensors() { return {}; }
};

/// Opens the card with this XRT index, or PCIe address. One owner a process: kResourceExhausted where another
/// Card holds it. kNotFound: XRT has no such device. kEnvironment: it has, but does not open it, or it has
/// none at all.
Result<std::unique_ptr<Card>> open(std::uint32_t index);
Result<std::unique_ptr<Card>> open(const std::string& bdf);

/// Whether a Card of this process holds it.
bool is_open(std::uint32_t index);
bool is_open(const std::string& bdf);

/// Uuid of the image on it, whoever holds it; empty where there is none, or no such device.
std::string image_uuid(std::uint32_t index);
std::string image_uuid(const std::string& bdf);

/// Every device XRT shows, in the order of its indices. Opens each for a moment.
Result<std::vector<CardInfo>> enumerate();

}  // namespace millrace::runtime::card
