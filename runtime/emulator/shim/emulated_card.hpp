// The host's side of one emulated card: starts its process, maps its memory, sends it commands and calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/emulator/protocol.hpp"
#include "runtime/emulator/shim/image_layout.hpp"
#include "runtime/emulator/shim/kept_cards.hpp"
#include "runtime/emulator/topology.hpp"

namespace millrace::runtime::emulator {

/// Any thread may call any function of a card. Functions that return int return 0 or a negative errno, like the HAL.
class EmulatedCard {
 public:
  /// The object must never be destroyed, because the threads that watch the card's process use it.
  EmulatedCard(std::uint32_t index, const Topology& topology, const SharedMemory& fabric,
               SharedMemory control, SharedMemory memory, SharedMemory image, KeptCards* keeper = nullptr);

  /// Continues with a card whose process a former host started. Takes ownership of that process's descriptors. If the
  /// former host died with runs on the card, aborts them as XRT's driver does. Called once, before any other function.
  Status adopt(int liveness, int process);

  const std::string& device() const { return card_.device; }
  std::uint64_t memory_bytes() const { return card_.memory_bytes; }
  std::uint32_t index() const { return index_; }

  // The functions below load FPGA images. The card's process runs while any handle of the card is open.
  void opened();
  void closed();
  /// Loads an FPGA image unless the card already runs it. Restarts a card that died. Throws std::system_error with the
  /// reason of a failure, such as EBUSY while compute units of another image are in use.
  void load(const axlf* image);
  bool has_image(const Uuid& uuid) const;
  int open_context(const Uuid& uuid, std::uint32_t unit, bool shared);
  /// With the option manners=hardware, closing the last context of a unit aborts the unit's runs.
  void close_context(std::uint32_t unit);

  // The functions below (manners.cpp) are for cards with the option manners=hardware, which behave as real
  // cards do after a loss (README.md, "Manners").

  /// Returns the error of commands, contexts and loads that the card cannot serve: EIO if its process has
  /// ended or, with manners=hardware, EDEADLK after a loss until reset(). Returns 0 if the card works.
  int refusal() const;
  /// Whether the card is lost, so that memory and registers read all ones.
  bool reads_all_ones() const { return condition() == Condition::kLost; }
  /// Resets the device: ends the card's process, and forgets the image, the contexts and any loss. Takes the
  /// option reset_time. Returns ENOSYS for a card without manners=hardware.
  int reset();
  /// Aborts the run of a packet (ERT_ABORT).
  int abort_run(std::uint32_t slot);
  const Topology::Options& options() const { return options_; }

  DeviceMemory& memory() { return memory_; }

  // The functions below send commands to the card.
  std::optional<std::uint32_t> allocate_packet();
  void free_packet(std::uint32_t slot);
  std::byte* packet(std::uint32_t slot) const;
  bool alive() const { return alive_.load(std::memory_order_acquire); }
  int submit(std::uint32_t slot);
  /// Returns 1 if a command may have completed since this thread's last call, or 0 after `milliseconds` without one.
  int wait(int milliseconds);

  /// Sends a request to the card and waits for the answer (protocol.hpp). `value` is sent to the card and receives the
  /// card's answer. A card that does not answer in time is killed, and the function returns EIO.
  int call(Request request, std::uint32_t unit, std::uint32_t offset, std::uint32_t& value,
           std::string* message = nullptr);

 private:
  /// The condition of an emulated card. Only cards with the option manners=hardware become kLost or kBad.
  enum class Condition : std::uint32_t {
    kWorks,
    kLost,  // the process has ended: reads return all ones, and runs complete
    kBad,   // the driver aborted a run and could not reset the unit; the card itself still runs
  };

  struct Context {
    std::uint32_t users = 0;
    bool exclusive = false;
  };

  Condition condition() const {
    return static_cast<Condition>(control().driver.condition.load(std::memory_order_acquire));
  }
  void set_condition(Condition condition) {
    control().driver.condition.store(static_cast<std::uint32_t>(condition));
  }
  void set_image(const ImageLayout* layout);
  void abort_runs_of_former_host();
  ControlBlock& control() const { return control_memory_.as<ControlBlock>(); }
  Fabric& fabric() const { return fabric_.as<Fabric>(); }
  Word& packet_header(std::uint32_t slot) const;
  Status start();
  int spawn(int liveness);
  bool watch();
  void ended();
  void leave_service();
  void kill();
  bool await_end();
  Status program(const ImageLayout& layout);
  void use_image_of_former_host(const ImageLayout& layout);
  bool busy_with_other(const Uuid& uuid) const;
  bool runs(std::uint32_t slot) const;
  std::uint32_t unit_of(std::uint32_t slot) const;
  void end_runs(std::uint32_t state);
  void abort_runs(std::uint32_t unit, std::optional<std::uint32_t> only);
  int answer_of_lost_card(Request request, std::uint32_t& value) const;
  void set_cables(bool up);

  // The members below are constant after construction.
  const std::uint32_t index_;
  const Topology::Card card_;
  const Topology::Options options_;
  const std::vector<Topology::Cable> cables_;
  const SharedMemory& fabric_;
  KeptCards* const keeper_;  // null: the card ends with this process
  SharedMemory control_memory_, image_memory_;

  const bool hardware_;  // whether the card has the manners of hardware

  std::atomic<bool> alive_{false};

  mutable std::mutex load_mutex_;  // the first lock in the locking order; held during a load
  std::uint32_t handles_ = 0;

  mutable std::mutex image_mutex_;
  Uuid uuid_{};                    // uuid of the image to which the contexts belong
  bool loaded_ = false;            // whether a running card has the image uuid_
  std::vector<Context> contexts_;  // one for each compute unit
  std::vector<bool> resettable_;   // by compute unit: whether the driver can reset the unit

  DeviceMemory memory_;

  std::mutex call_mutex_;

  std::mutex submit_mutex_;  // the last lock in the locking order; also guards changes of alive_
  int process_ = -1;         // pidfd, for signals; -1: no process
  int liveness_ = -1;        // host's end of a socket; closing it ends the card
  std::vector<std::uint32_t> free_packets_;
  std::vector<std::uint64_t>
      submitted_;               // by slot: 1 + number of the packet's last submission; 0: never submitted
  bool ends_by_reset_ = false;  // whether the host itself ends the process
};

}  // namespace millrace::runtime::emulator
