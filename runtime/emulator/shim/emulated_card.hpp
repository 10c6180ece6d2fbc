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
#include "runtime/emulator/topology.hpp"

namespace millrace::runtime::emulator {

/// Any thread may call any function of a card. Functions that return int return 0 or a negative errno, like the HAL.
class EmulatedCard {
 public:
  /// The object must never be destroyed, because the threads that watch the card's process use it.
  EmulatedCard(std::uint32_t index, const Topology& topology, const SharedMemory& fabric,
               SharedMemory control, SharedMemory memory, SharedMemory image);

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
  void close_context(std::uint32_t unit);

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
  struct Context {
    std::uint32_t users = 0;
    bool exclusive = false;
  };

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
  bool busy_with_other(const Uuid& uuid) const;

  // The members below are constant after construction.
  const std::uint32_t index_;
  const Topology::Card card_;
  const Topology::Options options_;
  const std::vector<Topology::Cable> cables_;
  const SharedMemory& fabric_;
  SharedMemory control_memory_, image_memory_;

  std::atomic<bool> alive_{false};

  mutable std::mutex load_mutex_;  // the first lock in the locking order; held during a load
  std::uint32_t handles_ = 0;

  mutable std::mutex image_mutex_;
  Uuid uuid_{};                    // uuid of the image to which the contexts belong
  bool loaded_ = false;            // whether a running card has the image uuid_
  std::vector<Context> contexts_;  // one for each compute unit

  DeviceMemory memory_;

  std::mutex call_mutex_;

  std::mutex submit_mutex_;  // the last lock in the locking order; also guards changes of alive_
  int process_ = -1;         // pidfd, for signals; -1: no process
  int liveness_ = -1;        // host's end of a socket; closing it ends the card
  std::vector<std::uint32_t> free_packets_;
  std::vector<std::uint8_t> submitted_;  // indexed by slot: whether its packet was ever submitted
};

}  // namespace millrace::runtime::emulator
