// A row of the link table: one end of a channel, over a cable's ring in shared memory.
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

  /// Registers of the row, offsets as image_abi.hpp has them from the row's start. 0 or a negative errno.
  int write(std::uint32_t offset, std::uint32_t value);
  std::uint32_t read(std::uint32_t offset) const;

  bool sends() const { return sends_; }
  /// Goes out of service; the peer sees it.
  void disable();
  /// True where this row has the same ring as `other`.
  bool collides(const LinkPort& other) const;

  // Sender.
  // -------------------------------------------------------------------------------------------------------------
  /// Sends packets of `frame` from byte `sent` on, as far as credit goes, and advances `sent`. True where
  /// some went out.
  bool send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent);

  // Receiver.
  // -----------------------------------------------------------------------------------------------------------
  struct Packet {
    PacketHeader header;
    const std::byte* payload;  // in the ring, until take()
  };
  /// The oldest packet that came; its length is within the slot. False where there is none.
  bool peek(Packet& packet);
  void take();
  /// After some take(): gives the sender its doorbell where it waits for credit.
  void settle();

  /// The peer does not keep to the protocol: the port goes out of service.
  void fail(std::string what);
  bool has_fault() const { return !fault_.empty(); }
  /// What went wrong for good, and its end: the port is out of service then. Empty where nothing did.
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
