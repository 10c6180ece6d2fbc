// Models the links between cards in simulated time: cables with a bandwidth and a latency, and channels on
// them with packets and credits. The model counts bits; the bits themselves stay where the sender put them.
//
// A sender holds two packets. A packet is sent when it is whole and has a credit. Channels take turns on a
// cable, and a packet occupies the cable for its bytes on the wire. It can be read one cable latency after
// its last bit left. Its credit returns one latency after its last bit was read.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/plan/packets.hpp"

namespace millrace::runtime::rtl {

using plan::packet_bytes_on_wire;

/// One direction of a cable. Times are in cycles of the simulated clock.
struct CableModel {
  std::string name;
  double bits_per_cycle = 0;  // > 0
  double latency_cycles = 0;
};

class LinkChannel {
 public:
  /// `frame_bits`, `packet_bytes` and `credits` must be above 0.
  LinkChannel(std::uint64_t frame_bits, std::uint32_t packet_bytes, std::uint32_t credits)
      : frame_bits_(frame_bits),
        packet_bits_(std::uint64_t{packet_bytes} * 8),
        packets_a_frame_((frame_bits + packet_bits_ - 1) / packet_bits_),
        credits_(credits) {}

  // Sender.
  bool has_room() const { return accepted_ - begin_of(sent_) < 2 * packet_bits_; }
  void accept(std::uint64_t bits) { accepted_ += bits; }
  // Receiver.
  std::uint64_t readable() const { return end_of_previous(arrived_) - read_; }
  void take(std::uint64_t bits, double now, double latency);

  std::uint64_t packets() const { return sent_; }
  std::uint64_t bits() const { return end_of_previous(sent_); }
  /// Cycles in which a whole packet waited for credit.
  std::uint64_t starved_cycles() const { return starved_; }

 private:
  friend class CableDirection;
  std::uint64_t begin_of(std::uint64_t packet) const {
    return packet / packets_a_frame_ * frame_bits_ + packet % packets_a_frame_ * packet_bits_;
  }
  std::uint64_t end_of_previous(std::uint64_t packet) const {
    return packet % packets_a_frame_ == 0 ? packet / packets_a_frame_ * frame_bits_ : begin_of(packet);
  }
  bool is_whole(std::uint64_t packet) const { return accepted_ >= end_of_previous(packet + 1); }

  std::uint64_t frame_bits_, packet_bits_, packets_a_frame_, credits_;
  std::uint64_t accepted_ = 0, read_ = 0;                // bits
  std::uint64_t sent_ = 0, arrived_ = 0, returned_ = 0;  // packets; sent: the last bit left
  std::uint64_t freed_ = 0;                              // packets read completely
  std::uint64_t starved_ = 0;
  std::deque<double> arrivals_, returns_;  // times, ascending
};

class CableDirection {
 public:
  explicit CableDirection(CableModel model) : model_(std::move(model)) {}
  const CableModel& model() const { return model_; }
  void add(LinkChannel& channel) { channels_.push_back(&channel); }

  /// Simulates one cycle of the clock, at time `now`. Returns true if a packet left or arrived.
  bool advance(double now);
  double busy_cycles() const { return busy_; }

 private:
  bool begin_packet(double at);

  CableModel model_;
  std::vector<LinkChannel*> channels_;
  std::size_t next_ = 0;
  LinkChannel* sending_ = nullptr;
  double free_at_ = 0;  // when the present packet leaves the cable, or the last one left it
  double busy_ = 0;
};

}  // namespace millrace::runtime::rtl
