#include "runtime/emulator/card/link_port.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

namespace abi = plan::abi;

namespace {

constexpr std::uint32_t kNoCable = ~0u;

// The register for a link's state has the same numbers as link::LinkState in runtime/link.
static_assert(static_cast<int>(abi::LinkState::kUp) == static_cast<int>(link::LinkState::kUp) &&
              static_cast<int>(abi::LinkState::kLost) == static_cast<int>(link::LinkState::kLost));

struct CableEndpoint {
  std::uint32_t cable = kNoCable, end = 0;  // `end` is this card's end of the cable
};

CableEndpoint find_cable(const Fabric& fabric, std::uint32_t card, std::uint32_t connector) {
  for (std::uint32_t cable = 0; cable < fabric.cables; ++cable)
    for (std::uint32_t end = 0; end < 2; ++end)
      if (fabric.cable[cable][end].card == card && fabric.cable[cable][end].connector == connector)
        return {cable, end};
  return {};
}

}  // namespace

LinkPort::LinkPort(std::byte* fabric, std::uint32_t card, bool sends, UdpLinks& udp_links)
    : fabric_(*reinterpret_cast<Fabric*>(fabric)),
      bytes_(fabric),
      card_(card),
      sends_(sends),
      udp_links_(udp_links) {}

int LinkPort::write(std::uint32_t offset, std::uint32_t value) {
  if (offset == abi::kLinkEnable) {
    disable();
    if (value > 1) return -EINVAL;
    return value == 0 ? 0 : enable();
  }
  std::uint32_t* target = offset == abi::kLinkConnector     ? &connector_
                          : offset == abi::kLinkTag         ? &tag_
                          : offset == abi::kLinkPacketBytes ? &packet_bytes_
                          : offset == abi::kLinkCredits     ? &credits_
                                                            : nullptr;
  if (target == nullptr) return -EINVAL;
  if (enabled_ != 0) return -EBUSY;  // the row must be disabled
  *target = value;
  return 0;
}

std::uint32_t LinkPort::read(std::uint32_t offset) const {
  const std::uint32_t settings[] = {enabled_, connector_, tag_, packet_bytes_, credits_};
  static_assert(abi::kLinkEnable == 0 && abi::kLinkCredits == 4 * (std::size(settings) - 1));
  if (offset <= abi::kLinkCredits) return settings[offset / 4];
  if (offset == abi::kLinkStatus || offset >= abi::kLinkRepeats) return read_status(offset);
  const std::uint64_t counters[] = {packets_, payload_, stalls_};
  static_assert(abi::kLinkStallsHigh == abi::kLinkPacketsLow + 8 * std::size(counters) - 4);
  if (offset < abi::kLinkPacketsLow || offset > abi::kLinkStallsHigh) return 0;
  const std::uint64_t counter = counters[(offset - abi::kLinkPacketsLow) / 8];
  const bool high = (offset - abi::kLinkPacketsLow) % 8 != 0;
  return static_cast<std::uint32_t>(high ? counter >> 32 : counter);
}

std::uint64_t LinkPort::cable_up_at() const {
  if (fabric_.hardware == 0 || enabled_ == 0) return kNever;
  const std::uint64_t own = fabric_.doorbell[card_].cables_up_at.load(std::memory_order_acquire),
                      other = peer_->cables_up_at.load(std::memory_order_acquire);
  // If the cable came up after send() or peek() found it down, return the time in the past. The caller then
  // tries again at once.
  const bool known_to_be_up = own == ready_[0] && other == ready_[1];
  return own == 0 || other == 0 || known_to_be_up ? kNever : std::max(own, other);
}

/// Whether the transceivers at both ends of the cable are ready. Once both are, later calls do not read the
/// clock.
bool LinkPort::cable_is_up() const {
  if (fabric_.hardware == 0 || enabled_ == 0) return true;
  const std::uint64_t own = fabric_.doorbell[card_].cables_up_at.load(std::memory_order_acquire),
                      other = peer_->cables_up_at.load(std::memory_order_acquire);
  if (own == 0 || other == 0) return false;
  if (own == ready_[0] && other == ready_[1]) return true;
  if (now_nanoseconds() < std::max(own, other)) return false;
  ready_[0] = own;
  ready_[1] = other;
  return true;
}

/// Returns the registers that tell how well the link works.
std::uint32_t LinkPort::read_status(std::uint32_t offset) const {
  if (offset == abi::kLinkStatus)
    return (find_cable(fabric_, card_, connector_).cable != kNoCable && cable_is_up() ? 1u : 0u) |
           (peer_in_service() ? 2u : 0u);
  if (udp_ == nullptr) {
    if (offset != abi::kLinkState || enabled_ == 0) return 0;
    return static_cast<std::uint32_t>(peer_in_service() ? abi::LinkState::kUp : abi::LinkState::kTraining);
  }
  const UdpChannel::Report report = udp_->report();
  switch (offset) {
    case abi::kLinkRepeats:
      return static_cast<std::uint32_t>(report.repeats);
    case abi::kLinkDamaged:
      return static_cast<std::uint32_t>(report.damaged);
    case abi::kLinkDropped:
      return static_cast<std::uint32_t>(report.dropped);
    case abi::kLinkState:
      return static_cast<std::uint32_t>(report.state);
    default:
      return 0;
  }
}

int LinkPort::enable() {
  const auto place = find_cable(fabric_, card_, connector_);
  const bool udp = place.cable != kNoCable && fabric_.uses_udp[place.cable] != 0;
  if (tag_ >= abi::kMaxTags || packet_bytes_ == 0 || credits_ == 0) return -EINVAL;
  const bool fits = udp ? packet_bytes_ <= link::kMostPayloadBytes && credits_ <= link::kMostCredits
                        : packet_bytes_ <= kRingBytes && credits_ <= kRingBytes &&
                              slot_bytes(packet_bytes_) * credits_ <= kRingBytes;
  if (!fits) return -EINVAL;
  if (place.cable == kNoCable) return -ENODEV;
  return udp ? enable_udp(place.cable, place.end) : enable_ring(place.cable, place.end);
}

int LinkPort::enable_udp(std::uint32_t cable, std::uint32_t end) {
  Ring& channel = fabric_.rings[cable][sends_ ? end : 1 - end][tag_];
  Word& in_service = sends_ ? channel.sender.in_service : channel.receiver.in_service;
  if (in_service.load(std::memory_order_relaxed) != 0) return -EBUSY;  // another row has this tag
  const auto found = udp_links_.find(cable, end);
  if (!found.ok()) {
    std::fprintf(stderr, "millrace-card: %s\n", found.error().message().c_str());
    return -EADDRNOTAVAIL;
  }
  ring_ = &channel;
  peer_ = &fabric_.doorbell[fabric_.cable[cable][1 - end].card];
  enabled_ = 1;
  starved_ = holds_packet_ = was_lost_ = false;
  in_service.store(1, std::memory_order_release);
  // The counters (generations of the sender, incarnations of the receiver) are in shared memory, so that a restarted card
  // goes on counting.
  generation_ = (sends_ ? channel.sender.generation : channel.receiver.generation).fetch_add(1) + 1;
  udp_ = std::make_unique<UdpChannel>(
      *found, UdpChannel::Settings{sends_, tag_, packet_bytes_, credits_, generation_, epoch_});
  return 0;
}

int LinkPort::enable_ring(std::uint32_t cable, std::uint32_t end) {
  const auto sending_end = sends_ ? end : 1 - end;
  ring_ = &fabric_.rings[cable][sending_end][tag_];
  slots_ = ring_data(bytes_, cable, sending_end, tag_);
  peer_ = &fabric_.doorbell[fabric_.cable[cable][1 - end].card];
  times_ = fabric_.times[cable].nanoseconds_per_byte > 0 ? &fabric_.times[cable] : nullptr;
  end_ = sending_end;
  enabled_ = 1;
  starved_ = false;
  if (sends_) {
    auto& s = ring_->sender;
    position_ = 0;
    s.head.store(0, std::memory_order_relaxed);
    s.packet_bytes.store(packet_bytes_, std::memory_order_relaxed);
    s.credits.store(credits_, std::memory_order_relaxed);
    generation_ = std::max(s.generation.load(std::memory_order_relaxed) + 1, 1u);
    s.generation.store(generation_, std::memory_order_release);
    s.in_service.store(1, std::memory_order_release);
  } else {
    auto& r = ring_->receiver;
    generation_ = r.generation.load(std::memory_order_relaxed);  // continue an existing sender
    position_ = r.tail.load(std::memory_order_relaxed);
    r.in_service.store(1, std::memory_order_release);
  }
  ring(*peer_);
  return 0;
}

void LinkPort::disable() {
  if (enabled_ == 0) return;
  udp_.reset();
  (sends_ ? ring_->sender.in_service : ring_->receiver.in_service).store(0, std::memory_order_release);
  ring(*peer_);
  enabled_ = 0;
  ring_ = nullptr;
}

bool LinkPort::collides(const LinkPort& other) const {
  return &other != this && enabled_ != 0 && other.enabled_ != 0 && ring_ == other.ring_ &&
         sends_ == other.sends_;
}

bool LinkPort::peer_in_service() const {
  if (!cable_is_up()) return false;
  if (udp_ != nullptr) {
    const link::LinkState state = udp_->report().state;
    return state == link::LinkState::kUp || state == link::LinkState::kDegraded;
  }
  if (enabled_ == 0 || peer_->alive.load(std::memory_order_acquire) == 0) return false;
  return (sends_ ? ring_->receiver.in_service : ring_->sender.in_service).load(std::memory_order_acquire) !=
         0;
}

// The hot path begins here.
bool LinkPort::send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent,
                    std::uint64_t left_at) {
  if (enabled_ == 0 || !cable_is_up()) return false;
  if (udp_ != nullptr) return send_udp(key, frame, sent);
  const bool resumed = sent > 0;
  auto& s = ring_->sender;
  const auto& r = ring_->receiver;
  const auto credit = [&]() -> std::uint64_t {
    if (r.in_service.load(std::memory_order_acquire) == 0 ||
        r.generation.load(std::memory_order_acquire) != generation_)
      return 0;
    const auto used = position_ - r.tail.load(std::memory_order_seq_cst);
    return used < credits_ ? credits_ - used : 0;
  };
  const auto before = sent;
  while (sent < frame.size()) {
    auto free = credit();
    if (free == 0) {
      if (!starved_) {
        starved_ = true;
        ++stalls_;
      }
      s.starved.store(1, std::memory_order_seq_cst);
      free = credit();  // credit may have come before `starved` was set
      if (free == 0) break;
    }
    starved_ = false;
    for (; free > 0 && sent < frame.size(); --free) {
      const auto length = std::min<std::uint64_t>(packet_bytes_, frame.size() - sent);
      auto* slot = slots_ + position_ % credits_ * slot_bytes(packet_bytes_);
      const PacketHeader header{key.sequence,
                                key.epoch,
                                static_cast<std::uint32_t>(sent),
                                static_cast<std::uint32_t>(length),
                                sent + length == frame.size() ? 1u : 0u,
                                arrival(frame.size(), sent, length, resumed, left_at)};
      std::memcpy(slot, &header, sizeof header);
      std::memcpy(slot + sizeof header, frame.data() + sent, length);
      sent += length;
      payload_ += length;
      ++packets_;
      ++position_;
    }
    s.head.store(position_, std::memory_order_release);
  }
  if (sent == before) return false;
  ring(*peer_);
  return true;
}

bool LinkPort::send_udp(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent) {
  const std::uint64_t before = sent;
  packets_ += udp_->send(key.epoch, key.sequence, frame, sent);
  payload_ += sent - before;
  const bool starved = sent < frame.size();
  if (starved && !starved_) ++stalls_;
  starved_ = starved;
  return sent != before;
}

/// Returns the time at which a packet of `length` bytes, which begins at byte `sent` of its frame, arrives at
/// the other end. Must be called once for each packet, in order.
///
/// An emulated card has a whole frame at once, where the hardware makes the frame packet by packet and sends each
/// packet when it is complete. So the cable's time for all but the last packet overlaps the time in which the frame is
/// made, unless the cable was busy with earlier frames.
std::uint64_t LinkPort::arrival(std::uint64_t frame_bytes, std::uint64_t sent, std::uint64_t length,
                                bool resumed, std::uint64_t left_at) {
  if (times_ == nullptr) return 0;
  const auto time = [&](std::uint64_t wire_bytes) {
    return static_cast<std::uint64_t>(
        std::llround(static_cast<double>(wire_bytes) * times_->nanoseconds_per_byte));
  };
  const std::uint64_t own = time(plan::packet_bytes_on_wire(length));
  if (sent == 0) {
    const std::uint64_t last = (frame_bytes - 1) % packet_bytes_ + 1;
    auto& free_at = times_->free_at[end_];
    const std::uint64_t begin = std::max(left_at, free_at.load(std::memory_order_relaxed));
    free_at.store(begin + time(plan::frame_bytes_on_wire(frame_bytes, packet_bytes_)),
                  std::memory_order_relaxed);
    frame_arrives_at_ = begin + time(plan::packet_bytes_on_wire(last)) + times_->latency_nanoseconds;
  }
  const std::uint64_t behind = time(plan::frame_bytes_on_wire(frame_bytes - sent - length, packet_bytes_));
  const std::uint64_t planned = frame_arrives_at_ - std::min(behind, frame_arrives_at_);
  // A packet that had to wait for credit leaves now, not at its planned time.
  return resumed ? std::max(planned, now_nanoseconds() + own + times_->latency_nanoseconds) : planned;
}

/// Acknowledges a sender that has restarted. Returns whether a sender is ready to send to this port.
bool LinkPort::acknowledge() {
  const auto& s = ring_->sender;
  if (s.in_service.load(std::memory_order_acquire) == 0)
    return generation_ != 0;  // packets that were sent before remain valid
  const auto generation = s.generation.load(std::memory_order_acquire);
  if (generation == generation_) return true;
  const auto packet_bytes = s.packet_bytes.load(std::memory_order_relaxed),
             credits = s.credits.load(std::memory_order_relaxed);
  if (packet_bytes != packet_bytes_ || credits != credits_) {
    fail("the sender has packets of " + std::to_string(packet_bytes) + " bytes and " +
         std::to_string(credits) + " credits");
    return false;
  }
  generation_ = generation;
  position_ = 0;
  ring_->receiver.tail.store(0, std::memory_order_relaxed);
  ring_->receiver.generation.store(generation, std::memory_order_release);
  ring(*peer_);
  return true;
}

bool LinkPort::peek(Packet& packet) {
  next_arrival_ = kNever;
  if (!cable_is_up()) {
    next_arrival_ = cable_up_at();
    return false;
  }
  if (udp_ != nullptr) {
    if (!holds_packet_ && !udp_->take(arrived_)) return false;
    holds_packet_ = true;
    packet = {arrived_, udp_->payload()};
    return true;
  }
  if (enabled_ == 0 || !acknowledge()) return false;
  const auto waiting = ring_->sender.head.load(std::memory_order_acquire) - position_;
  if (waiting == 0 || waiting > credits_) return false;  // more than credits_: the sender is restarting
  const auto* slot = slots_ + position_ % credits_ * slot_bytes(packet_bytes_);
  std::memcpy(&packet.header, slot, sizeof packet.header);
  packet.payload = slot + sizeof packet.header;
  if (packet.header.arrives_at > 0 && packet.header.arrives_at > now_nanoseconds()) {
    next_arrival_ = packet.header.arrives_at;
    return false;
  }
  if (packet.header.length == 0 || packet.header.length > packet_bytes_) {
    fail("a packet of " + std::to_string(packet.header.length) +
         " bytes arrived, which is not a valid length");
    return false;
  }
  return true;
}

void LinkPort::take() {
  ++packets_;
  if (udp_ != nullptr) {
    payload_ += arrived_.length;
    holds_packet_ = false;
    return;
  }
  PacketHeader header;
  std::memcpy(&header, slots_ + position_ % credits_ * slot_bytes(packet_bytes_), sizeof header);
  payload_ += header.length;
  ring_->receiver.tail.store(++position_, std::memory_order_seq_cst);
}

void LinkPort::notify_sender() {
  if (enabled_ == 0) return;
  if (udp_ != nullptr) return udp_->give_credit();
  auto& starved = ring_->sender.starved;
  if (starved.load(std::memory_order_seq_cst) != 0 && starved.exchange(0) != 0) ring(*peer_);
}
// The hot path ends here.

void LinkPort::set_epoch(std::uint32_t epoch) {
  epoch_ = epoch;
  holds_packet_ = false;
  if (udp_ != nullptr) udp_->set_epoch(epoch);
}

bool LinkPort::has_fault() {
  // The card's event loop calls has_fault() often. To ask for a report takes a lock, so ask only if there may
  // be a fault.
  if (udp_ != nullptr && !udp_->has_trouble()) was_lost_ = false;
  if (udp_ != nullptr && udp_->has_trouble()) {
    const UdpChannel::Report report = udp_->report();
    const bool lost = report.state == link::LinkState::kLost;
    if (const std::string failure = udp_->failure(); !failure.empty()) {
      fault_ = {abi::FaultCode::kLinkDown, "cannot serve the cable: " + failure};
      disable();
    } else if (report.violation != link::Violation::kNone) {
      fail(link::to_string(report.violation));
    } else if (sends_ && lost && !was_lost_) {
      fault_ = {abi::FaultCode::kLinkDown, "the card at the other end does not answer"};
    }
    was_lost_ = lost;
  }
  return fault_.code != abi::FaultCode::kNone;
}

void LinkPort::fail(std::string what) {
  fault_ = {abi::FaultCode::kProtocol, std::move(what)};
  disable();
}

LinkPort::Fault LinkPort::take_fault() {
  return std::exchange(fault_, Fault{});
}

}  // namespace millrace::runtime::emulator
