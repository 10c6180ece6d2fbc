// A row of the link table: one end of a channel. Its packets pass through a ring in the cable's shared memory or, on a UDP
// cable, through the host's network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "runtime/emulator/card/frame_key.hpp"
#include "runtime/emulator/card/udp_links.hpp"
#include "runtime/emulator/protocol.hpp"

namespace millrace::runtime::emulator {

class LinkPort {
 public:
  /// `udp_links` are the card's UDP cables, which must outlive the port.
  LinkPort(std::byte* fabric, std::uint32_t card, bool sends, UdpLinks& udp_links);

  /// Accesses the row's registers. image_abi.hpp defines their offsets from the row's start. Returns 0 or a
  /// negative errno.
  int write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t read(std::uint32_t offset) const;

  /// On a UDP cable, drops the packets of other epochs (the epoch is a number that the host raises to discard frames).
  /// Does nothing on other cables, because there each packet carries its epoch to the receiver.
  void set_epoch(std::uint32_t epoch);

  /// Disables this row of the link table. The card at the other end notices that.
  void disable();
  /// Whether this row uses the same ring as `other`.
  bool collides(const LinkPort& other) const;

  // For senders: sends packets of `frame` from byte `sent` on, as far as credit allows, and advances
  // `sent`. Returns whether any packet was sent. If the emulation models the cable's time, `left_at` is the time at
  // which the partition has computed the end of the frame, in nanoseconds of the steady clock. Earlier packets of the
  // frame count as sent while the partition computes.
  bool send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent,
            std::uint64_t left_at = 0);

  struct Packet {
    PacketHeader header;
    const std::byte* payload;  // points into the ring; valid until take()
  };
  /// For receivers: returns the oldest packet that arrived, or false if there is none. The packet is never longer than
  /// its slot in the ring.
  bool peek(Packet& packet);
  /// Returns the time (steady clock, in nanoseconds) at which the oldest packet that is still on the cable
  /// arrives. Returns the largest number if the last call of peek() met no such packet.
  std::uint64_t next_arrival() const { return next_arrival_; }
  /// Returns the time (steady clock, in nanoseconds) at which the cable comes up. Returns the largest number
  /// if send() or peek() found the cable up, or if that time is not known yet. Until the cable is up, send()
  /// and peek() move no packet.
  std::uint64_t cable_up_at() const;
  void take();
  /// Rings the sender's doorbell if the sender waits for credit. Called once after one or several calls of take().
  void notify_sender();

  /// Records that the card at the other end violated the protocol, and disables this port.
  void fail(std::string what);
  /// Whether there is a fault to report. Also looks for faults of a UDP cable.
  bool has_fault();
  struct Fault {
    plan::abi::FaultCode code = plan::abi::FaultCode::kNone;
    std::string text;
  };
  /// Returns the fault and clears it. A violation of the protocol also disables the port.
  Fault take_fault();

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  int enable();
  int enable_ring(std::uint32_t cable, std::uint32_t end);
  int enable_udp(std::uint32_t cable, std::uint32_t end);
  bool send_udp(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent);
  std::uint32_t read_status(std::uint32_t offset) const;
  std::uint64_t arrival(std::uint64_t frame_bytes, std::uint64_t sent, std::uint64_t length, bool resumed,
                        std::uint64_t left_at);
  bool peer_in_service() const;
  bool acknowledge();
  bool cable_is_up() const;

  Fabric& fabric_;
  std::byte* const bytes_;
  const std::uint32_t card_;
  const bool sends_;
  UdpLinks& udp_links_;

  std::uint32_t enabled_ = 0, connector_ = 0, tag_ = 0, packet_bytes_ = 0, credits_ = 0;  // host wrote them
  std::uint64_t packets_ = 0, payload_ = 0, stalls_ = 0;

  // The members below are valid while the row is enabled, and constant until disable().
  Ring* ring_ = nullptr;
  std::byte* slots_ = nullptr;
  Doorbell* peer_ = nullptr;
  mutable std::uint64_t ready_[2] = {};  // when both ends were ready, for the cable that was found to be up
  std::uint32_t generation_ = 0;
  std::uint64_t position_ = 0;  // this card's head or tail in the ring
  bool starved_ = false;
  CableTimes* times_ = nullptr;         // null if the cable takes no time
  std::uint32_t end_ = 0;               // the end of the cable that sends
  std::uint64_t frame_arrives_at_ = 0;  // when the last packet of the current frame arrives
  std::uint64_t next_arrival_ = kNever;

  // For UDP cables.
  std::uint32_t epoch_ = 0;
  std::unique_ptr<UdpChannel> udp_;  // set while the row is enabled
  PacketHeader arrived_{};           // the packet that peek() returned
  bool holds_packet_ = false;        // whether arrived_ still has to be taken
  bool was_lost_ = false;

  Fault fault_;
};

}  // namespace millrace::runtime::emulator
