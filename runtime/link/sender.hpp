// The sending end of a channel: a state machine without socket, thread or clock.
//
//   push() ─▶ window of at most `credits` packets ─▶ next_datagram() ─▶ network
//                        ▲ acknowledged, lost ◀─ receive() ◀─ states of the receiver
//
// A packet stays in the window until the receiver has acknowledged it. A packet is sent again if three packets that
// were sent later have arrived, or if no answer came in time. All memory is allocated by the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/link/channel.hpp"

namespace millrace::runtime::link {

/// One thread at a time may use a Sender.
class Sender {
 public:
  /// `settings` must be valid.
  explicit Sender(const ChannelSettings& settings);

  /// Goes into service. `generation` must be larger than in earlier calls, also of earlier processes on this card.
  void start(std::uint32_t generation, std::uint32_t epoch, Time now);
  /// Goes out of service. next_datagram() then returns one last datagram, which tells the receiver that the sender is
  /// out of service.
  void stop();
  /// Forgets all packets of other epochs.
  void set_epoch(std::uint32_t epoch, Time now);

  /// Returns how many packets push() accepts now.
  std::uint32_t credit() const;
  /// Appends a packet of the current epoch (the number that the host raises to discard frames) and copies its
  /// payload. Returns false if there is no credit.
  bool push(std::uint64_t sequence, std::uint32_t offset, bool last, std::span<const std::byte> payload);

  /// Processes a received datagram that is addressed to this sender: a welcome, credits or acknowledgements.
  void receive(const Datagram& datagram, Time now);

  /// Returns the next datagram to be sent now, or an empty span. The bytes stay valid until the next call of another
  /// function than next_datagram() and next_time().
  std::span<const std::byte> next_datagram(Time now);
  /// Returns the time at which next_datagram() must be called again if nothing else happens.
  Time next_time() const;

  LinkState state(Time now) const;
  /// Whether the sender is in service, and its link is lost or its receiver has violated the protocol.
  bool has_trouble() const {
    return phase_ == Phase::kLost || (phase_ != Phase::kDown && violation_ != Violation::kNone);
  }
  /// Returns the first violation by the receiver since start().
  Violation violation() const { return violation_; }

  struct Counters {
    std::uint64_t packets = 0, bytes = 0;  // accepted by push()
    std::uint64_t repeats = 0;             // packets sent again
    std::uint64_t losses = 0;              // how often the link was lost
    Drops drops;
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Slot {
    std::uint32_t bytes = 0;
    std::uint32_t sends = 0;
    std::uint64_t order = 0;  // counts transmissions of all packets
    Time sent;
    bool arrived = false, lost = false;
    bool interrupted =
        false;  // whether the link was lost, or was trained anew, after the packet was first sent
  };
  enum class Phase { kDown, kTraining, kUp, kLost };

  Slot& slot(std::uint32_t number) { return slots_[number % slots_.size()]; }
  std::span<std::byte> bytes_of(std::uint32_t number);
  bool outstanding() const { return base_ != fresh_; }
  bool is_silent(Time now) const;
  void reset_window();
  void forget_arrivals();
  void accept_receiver(const Datagram& datagram, Time now);
  void acknowledge(std::uint32_t number, Time now);
  void accept_state(const Datagram& datagram, Time now);
  void find_lost(Time now);
  void heard(Time now);
  void repeat_late(Time now);
  void await_answer(Time now);
  std::chrono::microseconds usual_repeat() const;
  std::chrono::microseconds longest_repeat() const;
  std::chrono::microseconds greeting_interval() const;
  std::span<const std::byte> control(Type type);
  std::span<const std::byte> transmit(std::uint32_t number, Time now);

  const ChannelSettings settings_;
  // The number of slots is a power of two, so that numbers that pass 2^32 keep their order in the ring.
  std::vector<Slot> slots_;
  std::vector<std::byte> memory_;  // headers and payloads of the window
  std::byte control_[kHeaderBytes] = {};

  Phase phase_ = Phase::kDown;
  bool closing_ = false;
  std::uint32_t generation_ = 0, epoch_ = 0;
  std::uint32_t incarnation_ = 0;  // of the receiver; 0 if unknown

  // Packets base_ to fresh_ - 1 were sent, and packets fresh_ to head_ - 1 were not sent yet. All are below limit_.
  std::uint32_t base_ = 0, fresh_ = 0, head_ = 0, limit_ = 0;
  std::uint32_t lost_ = 0;           // packets in the window that must be sent again
  std::uint64_t order_ = 0;          // transmissions so far
  std::uint64_t arrived_order_ = 0;  // the latest transmission that has arrived

  std::chrono::microseconds round_trip_{0}, variation_{0}, repeat_;
  std::optional<Time> repeat_at_;      // when a packet is late; set while packets are outstanding
  std::optional<Time> waiting_since_;  // the first transmission since the receiver's last answer
  Time greeted_, progressed_;          // the last greeting; the last time that base_ advanced
  Time heard_;                         // the last datagram from the receiver
  Time repaired_{Time::min()};
  std::chrono::microseconds greeting_wait_{0};
  Violation violation_ = Violation::kNone;
  Counters counters_;
};

}  // namespace millrace::runtime::link
