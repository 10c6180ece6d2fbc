// A row of the link table: one end of a channel, which uses a cable's ring in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/emulator/protocol.hpp"

namespace millrace::runtime::emulator {

struct FrameKey {
  std::uint32_t epoch = 0;
  std::uint64_t sequence = 0;
  bool operator==(const FrameKey&) const = default;
};

class LinkPort {
 public:
  LinkPort(std::byte* fabric, std::uint32_t card, bool sends);

  /// Accesses the row's registers. image_abi.hpp defines their offsets from the row's start. Returns 0 or a
  /// negative errno.
  int write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t read(std::uint32_t offset) const;

  /// Takes the row out of service. The peer sees it.
  void disable();
  /// Whether this row uses the same ring as `other`.
  bool collides(const LinkPort& other) const;

  // For a sender: sends packets of `frame` from byte `sent` on, as far as credit allows, and advances `sent`.
  // Returns true if it sent some.
  bool send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent);

  struct Packet {
    PacketHeader header;
    const std::byte* payload;  // in the ring; valid until take()
  };
  /// For a receiver: the oldest packet that arrived. Its length never exceeds the slot. Returns false if
  /// there is none.
  bool peek(Packet& packet);
  void take();
  /// Call after take(), once for several: rings the sender's doorbell if the sender waits for credit.
  void notify_sender();

  /// Records that the peer violated the protocol and takes the port out of service.
  void fail(std::string what);
  bool has_fault() const { return !fault_.empty(); }
  /// Returns the fault and clears it; empty if there is none. The port is out of service after a fault.
  std::string take_fault();

 private:
  int enable();
  bool peer_in_service() const;
  bool acknowledge();

  Fabric& fabric_;
  std::byte* const bytes_;
  const std::uint32_t card_;
  const bool sends_;

  std::uint32_t enabled_ = 0, connector_ = 0, tag_ = 0, packet_bytes_ = 0, credits_ = 0;  // as written
  std::uint64_t packets_ = 0, payload_ = 0, stalls_ = 0;

  // In service: constant until disable().
  Ring* ring_ = nullptr;
  std::byte* slots_ = nullptr;
  Doorbell* peer_ = nullptr;
  std::uint32_t generation_ = 0;
  std::uint64_t position_ = 0;  // our head or tail
  bool starved_ = false;
  std::string fault_;
};

}  // namespace millrace::runtime::emulator
