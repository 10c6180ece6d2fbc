// One end of a cable: all channels that pass through one UDP socket to one neighbour. Checks each datagram against the
// plan and hands it to the sender or receiver of its channel. Has no socket, thread or clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/link/receiver.hpp"
#include "runtime/link/sender.hpp"

namespace millrace::runtime::link {

/// One thread at a time may use a CableEnd and its channels.
class CableEnd {
 public:
  static constexpr std::uint8_t kTags = 16;  // plan::abi::kMaxTags

  /// `local` and `peer` are the endpoints: the numbers of the two cards (their positions in the cluster file).
  CableEnd(std::uint16_t local, std::uint16_t peer) : local_(local), peer_(peer) {}

  /// Adds the sender of a channel, or replaces the one with the same tag. `tag` must be below kTags.
  Sender& add_sender(std::uint8_t tag, std::uint32_t packet_bytes, std::uint32_t credits,
                     const Timing& timing);
  Receiver& add_receiver(std::uint8_t tag, std::uint32_t packet_bytes, std::uint32_t credits,
                         const Timing& timing);

  /// Processes the content of a UDP datagram. `from_peer` says whether the datagram came from the neighbour's address.
  /// Drops and counts damaged datagrams, and those for a channel that this end does not have.
  void receive(std::span<const std::byte> bytes, bool from_peer, Time now);

  /// Returns the next datagram to be sent now, or an empty span. The bytes stay valid until the next call of another
  /// function than next_datagram() and next_time().
  std::span<const std::byte> next_datagram(Time now);
  /// Returns the time at which next_datagram() must be called again if nothing else happens.
  Time next_time() const;

  /// Whether the link of any channel in service is lost on the sender's side, or the other end of any channel in service has
  /// violated the protocol.
  bool has_trouble() const;

  /// Returns how many datagrams were dropped before they reached a channel.
  const Drops& drops() const { return drops_; }

 private:
  const std::uint16_t local_, peer_;
  std::array<std::unique_ptr<Sender>, kTags> senders_;
  std::array<std::unique_ptr<Receiver>, kTags> receivers_;
  unsigned turn_ = 0;  // channels take turns to send
  Drops drops_;
};

}  // namespace millrace::runtime::link
