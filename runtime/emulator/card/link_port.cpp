#include "runtime/emulator/card/link_port.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace millrace::runtime::emulator {

namespace abi = plan::abi;

namespace {

constexpr std::uint32_t kNoCable = ~0u;

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

LinkPort::LinkPort(std::byte* fabric, std::uint32_t card, bool sends)
    : fabric_(*reinterpret_cast<Fabric*>(fabric)), bytes_(fabric), card_(card), sends_(sends) {}

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
  if (offset == abi::kLinkStatus)
    return (find_cable(fabric_, card_, connector_).cable != kNoCable ? 1u : 0u) |
           (peer_in_service() ? 2u : 0u);
  const std::uint64_t counters[] = {packets_, payload_, stalls_};
  static_assert(abi::kLinkStallsHigh == abi::kLinkPacketsLow + 8 * std::size(counters) - 4);
  if (offset < abi::kLinkPacketsLow || offset > abi::kLinkStallsHigh) return 0;
  const std::uint64_t counter = counters[(offset - abi::kLinkPacketsLow) / 8];
  const bool high = (offset - abi::kLinkPacketsLow) % 8 != 0;
  return static_cast<std::uint32_t>(high ? counter >> 32 : counter);
}

int LinkPort::enable() {
  if (tag_ >= abi::kMaxTags || packet_bytes_ == 0 || credits_ == 0 || packet_bytes_ > kRingBytes ||
      credits_ > kRingBytes || slot_bytes(packet_bytes_) * credits_ > kRingBytes)
    return -EINVAL;
  const auto place = find_cable(fabric_, card_, connector_);
  if (place.cable == kNoCable) return -ENODEV;
  const auto sending_end = sends_ ? place.end : 1 - place.end;
  ring_ = &fabric_.rings[place.cable][sending_end][tag_];
  slots_ = ring_data(bytes_, place.cable, sending_end, tag_);
  peer_ = &fabric_.doorbell[fabric_.cable[place.cable][1 - place.end].card];
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
  if (enabled_ == 0 || peer_->alive.load(std::memory_order_acquire) == 0) return false;
  return (sends_ ? ring_->receiver.in_service : ring_->sender.in_service).load(std::memory_order_acquire) !=
         0;
}

// The hot path begins here.
bool LinkPort::send(const FrameKey& key, std::span<const std::byte> frame, std::uint64_t& sent) {
  if (enabled_ == 0) return false;
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
                                0};
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
  if (enabled_ == 0 || !acknowledge()) return false;
  const auto waiting = ring_->sender.head.load(std::memory_order_acquire) - position_;
  if (waiting == 0 || waiting > credits_) return false;  // more than credits_: the sender is restarting
  const auto* slot = slots_ + position_ % credits_ * slot_bytes(packet_bytes_);
  std::memcpy(&packet.header, slot, sizeof packet.header);
  packet.payload = slot + sizeof packet.header;
  if (packet.header.length == 0 || packet.header.length > packet_bytes_) {
    fail("a packet of " + std::to_string(packet.header.length) +
         " bytes arrived, which is not a valid length");
    return false;
  }
  return true;
}

void LinkPort::take() {
  ++packets_;
  PacketHeader header;
  std::memcpy(&header, slots_ + position_ % credits_ * slot_bytes(packet_bytes_), sizeof header);
  payload_ += header.length;
  ring_->receiver.tail.store(++position_, std::memory_order_seq_cst);
}

void LinkPort::notify_sender() {
  if (enabled_ == 0) return;
  auto& starved = ring_->sender.starved;
  if (starved.load(std::memory_order_seq_cst) != 0 && starved.exchange(0) != 0) ring(*peer_);
}
// The hot path ends here.

void LinkPort::fail(std::string what) {
  fault_ = std::move(what);
  disable();
}

std::string LinkPort::take_fault() {
  return std::exchange(fault_, std::string());
}

}  // namespace millrace::runtime::emulator
