#include "runtime/link/cable_end.hpp"

#include <algorithm>
#include <cassert>

namespace millrace::runtime::link {

Sender& CableEnd::add_sender(std::uint8_t tag, std::uint32_t packet_bytes, std::uint32_t credits,
                             const Timing& timing) {
  assert(tag < kTags);
  senders_[tag] =
      std::make_unique<Sender>(ChannelSettings{{local_, peer_, tag}, packet_bytes, credits, timing});
  return *senders_[tag];
}

Receiver& CableEnd::add_receiver(std::uint8_t tag, std::uint32_t packet_bytes, std::uint32_t credits,
                                 const Timing& timing) {
  assert(tag < kTags);
  receivers_[tag] =
      std::make_unique<Receiver>(ChannelSettings{{peer_, local_, tag}, packet_bytes, credits, timing});
  return *receivers_[tag];
}

// The hot path begins here.
void CableEnd::receive(std::span<const std::byte> bytes, bool from_peer, Time now) {
  if (!from_peer) {
    ++drops_.address;
    return;
  }
  Datagram datagram;
  const Refusal refusal = parse(bytes, datagram);
  if (refusal == Refusal::kHeaderCrc || refusal == Refusal::kPayloadCrc) {
    ++drops_.damaged;
    return;
  }
  if (refusal != Refusal::kNone) {
    ++drops_.malformed;
    return;
  }
  const bool to_sender = datagram.type == Type::kState || datagram.type == Type::kReceiverClosed ||
                         datagram.type == Type::kReceiverOpened;
  const ChannelId& id = datagram.channel;
  if (id.source != (to_sender ? local_ : peer_) || id.destination != (to_sender ? peer_ : local_)) {
    ++drops_.endpoint;
    return;
  }
  if (id.tag >= kTags || (to_sender ? senders_[id.tag] == nullptr : receivers_[id.tag] == nullptr)) {
    ++drops_.tag;
    return;
  }
  if (to_sender) {
    senders_[id.tag]->receive(datagram, now);
  } else {
    receivers_[id.tag]->receive(datagram, now);
  }
}

std::span<const std::byte> CableEnd::next_datagram(Time now) {
  for (unsigned i = 0; i < 2 * kTags; ++i) {
    const unsigned place = (turn_ + i) % (2 * kTags);
    std::span<const std::byte> bytes;
    if (place < kTags && senders_[place] != nullptr) bytes = senders_[place]->next_datagram(now);
    if (place >= kTags && receivers_[place - kTags] != nullptr)
      bytes = receivers_[place - kTags]->next_datagram(now);
    if (bytes.empty()) continue;
    turn_ = (place + 1) % (2 * kTags);
    return bytes;
  }
  return {};
}

bool CableEnd::has_trouble() const {
  for (const auto& sender : senders_)
    if (sender != nullptr && sender->has_trouble()) return true;
  for (const auto& receiver : receivers_)
    if (receiver != nullptr && receiver->has_trouble()) return true;
  return false;
}
// The hot path ends here.

Time CableEnd::next_time() const {
  Time next = Time::max();
  for (const auto& sender : senders_)
    if (sender != nullptr) next = std::min(next, sender->next_time());
  for (const auto& receiver : receivers_)
    if (receiver != nullptr) next = std::min(next, receiver->next_time());
  return next;
}

}  // namespace millrace::runtime::link
