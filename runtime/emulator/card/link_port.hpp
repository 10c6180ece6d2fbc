// A row of the link table: one end of a channel, whose packets pass through a ring in the cable's shared memory.
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

  /// Disables this row of the link table. The card at the other end notices that.
  void disable();
  /// Whether this row uses the same ring as `other`.
  bool collides(const LinkPort& other) const;

  // For senders: sends packets of `frame` from byte `sent` on, as far as credit allows, and advances
  // `sent`. Returns whether any packet was sent.
  bool send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent);

  struct Packet {
    PacketHeader header;
    const std::byte* payload;  // points into the ring; valid until take()
  };
  /// For receivers: returns the oldest packet that arrived, or false if there is none. The packet is never longer than
  /// its slot in the ring.
  bool peek(Packet& packet);
  void take();
  /// Rings the sender's doorbell if the sender waits for credit. Called once after one or several calls of take().
  void notify_sender();

  /// Records that the card at the other end violated the protocol, and disables this port.
  void fail(std::string what);
  bool has_fault() const { return !fault_.empty(); }
  /// Returns the fault and clears it. Returns an empty text if there is none. A fault also disables the port.
  std::string take_fault();

 private:
  int enable();
  bool peer_in_service() const;
  bool acknowledge();

  Fabric& fabric_;
  std::byte* const bytes_;
  const std::uint32_t card_;
  const bool sends_;

  std::uint32_t enabled_ = 0, connector_ = 0, tag_ = 0, packet_bytes_ = 0, credits_ = 0;  // host wrote them
  std::uint64_t packets_ = 0, payload_ = 0, stalls_ = 0;

  // The members below are valid while the row is enabled, and constant until disable().
  Ring* ring_ = nullptr;
  std::byte* slots_ = nullptr;
  Doorbell* peer_ = nullptr;
  std::uint32_t generation_ = 0;
  std::uint64_t position_ = 0;  // this card's head or tail in the ring
  bool starved_ = false;
  std::string fault_;
};

}  // namespace millrace::runtime::emulator
