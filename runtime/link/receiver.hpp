// The receiving end of a channel: a state machine without socket, thread or clock.
//
//   network ─▶ receive() ─▶ window of `credits` packets, ordered by number ─▶ peek(), take()
//                                      └─▶ next_datagram(): the state, which acknowledges packets and gives credit
//
// All memory is allocated by the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/link/channel.hpp"

namespace millrace::runtime::link {

/// A packet that has arrived.
struct Packet {
  std::uint64_t sequence = 0;
  std::uint32_t epoch = 0;
  std::uint32_t offset = 0;
  bool last = false;
  std::span<const std::byte> payload;  // in the receiver's memory
};

/// One thread at a time may use a Receiver.
class Receiver {
 public:
  /// `settings` must be valid.
  explicit Receiver(const ChannelSettings& settings);

  /// Goes into service. After a greeting of the sender that names `incarnation`, the receiver accepts packets
  /// of `epoch` (the number that the host raises to discard frames). `incarnation` must be above 0, and
  /// larger than in earlier calls, also of earlier processes on this card.
  void start(std::uint32_t incarnation, std::uint32_t epoch);
  /// Goes out of service. next_datagram() then returns one last datagram, which tells the sender that the receiver is
  /// out of service.
  void stop();
  /// Forgets the packets of all other epochs (the epoch is a number that the host raises to discard frames). From now
  /// on, accepts only packets of this epoch.
  void set_epoch(std::uint32_t epoch);

  /// Processes a datagram of this channel for its receiver.
  void receive(const Datagram& datagram, Time now);

  /// Returns the next packet in order, or false if it has not arrived. The packet is valid until take(), start(),
  /// stop() or set_epoch().
  bool peek(Packet& packet) const;
  /// Removes the packet that peek() returned, so that the sender gets its credit back.
  void take();

  /// Returns the datagram to be sent now, or an empty span. The bytes stay valid until the next call of this function.
  std::span<const std::byte> next_datagram(Time now);
  /// Returns the time at which next_datagram() must be called again if nothing else happens.
  Time next_time() const;

  LinkState state(Time now) const;
  /// Returns the first violation by the sender since start().
  Violation violation() const { return violation_; }

  /// Whether the receiver is in service, and its sender has violated the protocol.
  bool has_trouble() const { return in_service_ && violation_ != Violation::kNone; }

  struct Counters {
    std::uint64_t packets = 0, bytes = 0;  // removed by take()
    std::uint64_t gaps = 0;                // packets that arrived before a packet with a smaller number
    Drops drops;
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Slot {
    std::uint64_t sequence = 0;
    std::uint32_t offset = 0, bytes = 0;
    bool arrived = false, last = false;
  };

  Slot& slot(std::uint32_t number) { return slots_[number % slots_.size()]; }
  const Slot& slot(std::uint32_t number) const { return slots_[number % slots_.size()]; }
  std::span<std::byte> bytes_of(std::uint32_t number);
  void reset_window(std::uint32_t first);
  void accept_greeting(const Datagram& datagram, Time now);
  void accept_data(const Datagram& datagram, Time now);
  bool is_silent(Time now) const;
  bool must_report() const;
  std::span<const std::byte> control(Type type);

  const ChannelSettings settings_;
  const std::uint32_t report_after_;  // packets that arrive or are taken before a state is due
  // The number of slots is a power of two, so that numbers that pass 2^32 keep their order in the ring.
  std::vector<Slot> slots_;
  std::vector<std::byte> memory_;
  std::byte control_[kHeaderBytes] = {};

  bool in_service_ = false, greeted_ = false, closing_ = false;
  std::uint32_t incarnation_ = 0, generation_ = 0, epoch_ = 0;
  std::uint32_t sender_epoch_ = 0;  // the sender's epoch in its latest greeting since set_epoch()
  std::optional<std::uint32_t>
      opening_for_;  // generation of a sender that must still be told the incarnation

  // Packets below next_ have arrived; of those, packets below taken_ were taken.
  std::uint32_t next_ = 0, taken_ = 0;
  std::uint32_t beyond_ = 0;  // packets in the window that arrived before packet next_
  std::uint32_t reported_next_ = 0, reported_limit_ = 0;  // as in the last state that was sent
  bool report_now_ = false;
  std::optional<Time> unreported_since_;  // the first arrival after the last state
  Time heard_;
  Time repaired_{Time::min()};
  Violation violation_ = Violation::kNone;
  Counters counters_;
};

}  // namespace millrace::runtime::link
