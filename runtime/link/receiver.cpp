#include "runtime/link/receiver.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace millrace::runtime::link {

Receiver::Receiver(const ChannelSettings& settings)
    : settings_(settings),
      report_after_(std::max(settings.credits / 4, 1u)),
      slots_(std::bit_ceil(settings.credits)),
      memory_(slots_.size() * settings.packet_bytes) {
  assert(settings.are_valid());
}

void Receiver::start(std::uint32_t incarnation, std::uint32_t epoch) {
  assert(incarnation != 0);
  in_service_ = true;
  greeted_ = closing_ = false;
  incarnation_ = incarnation;
  opening_for_.reset();
  epoch_ = epoch;
  violation_ = Violation::kNone;
  repaired_ = Time::min();
  reset_window(0);
}

void Receiver::stop() {
  closing_ = in_service_ && greeted_;
  in_service_ = greeted_ = false;
  reset_window(0);
}

void Receiver::set_epoch(std::uint32_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = sender_epoch_ = epoch;
  reset_window(0);
}

void Receiver::reset_window(std::uint32_t first) {
  for (Slot& s : slots_) s.arrived = false;
  next_ = taken_ = reported_next_ = first;
  reported_limit_ = first + settings_.credits;
  beyond_ = 0;
  report_now_ = false;
  unreported_since_.reset();
}

std::span<std::byte> Receiver::bytes_of(std::uint32_t number) {
  return std::span(memory_).subspan(number % slots_.size() * settings_.packet_bytes, settings_.packet_bytes);
}

// The hot path begins here.
void Receiver::receive(const Datagram& datagram, Time now) {
  if (!in_service_) {
    ++counters_.drops.generation;
    return;
  }
  if (datagram.type == Type::kGreeting) return accept_greeting(datagram, now);
  if (!greeted_ || datagram.generation != generation_) {
    ++counters_.drops.generation;
    return;
  }
  if (datagram.type == Type::kSenderClosed) {
    greeted_ = false;  // packets that have arrived stay valid
    return;
  }
  if (datagram.type != Type::kData) return;
  heard_ = now;
  // If the sender's greeting has a newer epoch, the sender has already discarded the packets of this epoch.
  if (datagram.epoch != epoch_ || precedes(epoch_, sender_epoch_)) {
    ++counters_.drops.epoch;
    if (!unreported_since_) unreported_since_ = now;  // tells the sender that the link works
    return;
  }
  accept_data(datagram, now);
}

void Receiver::accept_greeting(const Datagram& datagram, Time now) {
  const bool known = greeted_ && datagram.generation == generation_;
  // A greeting that was delayed in the network must not replace a sender that is in service.
  if (greeted_ && precedes(datagram.generation, generation_) && !is_silent(now)) {
    ++counters_.drops.generation;
    return;
  }
  if (datagram.incarnation != incarnation_) {
    // The greeting may be older than this receiver, and its number and settings with it. So they count only if the sender
    // has seen the receiver's incarnation. A sender that this receiver knows has seen it already. If a known sender was
    // silent for long, it has started again with the same generation.
    if (known && !is_silent(now)) {
      ++counters_.drops.generation;
    } else {
      if (known) greeted_ = false;  // packets that have arrived stay valid
      opening_for_ = datagram.generation;
    }
    return;
  }
  if (datagram.packet_bytes != settings_.packet_bytes || datagram.credits != settings_.credits) {
    ++counters_.drops.violation;
    if (violation_ == Violation::kNone) violation_ = Violation::kSettings;
    return;
  }
  heard_ = now;
  opening_for_.reset();
  if (!known) {
    greeted_ = true;
    generation_ = datagram.generation;
    reset_window(datagram.epoch == epoch_ ? datagram.number : 0);
  }
  sender_epoch_ = datagram.epoch;
  report_now_ = true;
}

void Receiver::accept_data(const Datagram& datagram, Time now) {
  if (precedes(datagram.number, next_)) {
    ++counters_.drops.duplicate;
    report_now_ = true;  // the state that acknowledged the packet may be lost
    return;
  }
  const bool beyond = datagram.number - taken_ >= settings_.credits;
  if (beyond || datagram.payload.size() > settings_.packet_bytes) {
    ++counters_.drops.violation;
    if (violation_ == Violation::kNone)
      violation_ = beyond ? Violation::kBeyondCredit : Violation::kPacketBytes;
    return;
  }
  Slot& s = slot(datagram.number);
  if (s.arrived) {
    ++counters_.drops.duplicate;
    report_now_ = true;
    return;
  }
  s = {datagram.sequence, datagram.offset, static_cast<std::uint32_t>(datagram.payload.size()), true,
       datagram.last};
  std::memcpy(bytes_of(datagram.number).data(), datagram.payload.data(), datagram.payload.size());
  if (datagram.number != next_) {
    ++beyond_;
    ++counters_.gaps;
    repaired_ = now;
    report_now_ = true;
    return;
  }
  ++next_;
  while (beyond_ > 0 && slot(next_).arrived) {
    ++next_;
    --beyond_;
  }
  if (beyond_ > 0) report_now_ = true;
  if (!unreported_since_) unreported_since_ = now;
}

bool Receiver::peek(Packet& packet) const {
  if (!in_service_ || taken_ == next_) return false;
  const Slot& s = slot(taken_);
  packet.sequence = s.sequence;
  packet.epoch = epoch_;
  packet.offset = s.offset;
  packet.last = s.last;
  packet.payload = std::span(memory_).subspan(taken_ % slots_.size() * settings_.packet_bytes, s.bytes);
  return true;
}

void Receiver::take() {
  assert(taken_ != next_);
  Slot& s = slot(taken_);
  ++counters_.packets;
  counters_.bytes += s.bytes;
  s.arrived = false;
  ++taken_;
}

/// Whether the sender must be told at once that packets have arrived or that it has new credit.
bool Receiver::must_report() const {
  if (!greeted_) return false;
  if (report_now_) return true;
  const std::uint32_t limit = taken_ + settings_.credits;
  const bool starved = next_ == reported_limit_ && limit != reported_limit_;  // the sender has no credit left
  return starved || next_ - reported_next_ >= report_after_ || limit - reported_limit_ >= report_after_;
}

std::span<const std::byte> Receiver::next_datagram(Time now) {
  if (closing_) {
    closing_ = false;
    return control(Type::kReceiverClosed);
  }
  if (in_service_ && opening_for_) {
    const auto bytes = control(Type::kReceiverOpened);
    opening_for_.reset();
    return bytes;
  }
  const bool late = greeted_ && unreported_since_ && now >= *unreported_since_ + settings_.timing.state_delay;
  if (!in_service_ || (!late && !must_report())) return {};
  report_now_ = false;
  unreported_since_.reset();
  reported_next_ = next_;
  reported_limit_ = taken_ + settings_.credits;
  return control(Type::kState);
}
// The hot path ends here.

Time Receiver::next_time() const {
  if (closing_) return Time::min();
  if (!in_service_) return Time::max();
  if (opening_for_ || must_report()) return Time::min();
  return greeted_ && unreported_since_ ? *unreported_since_ + settings_.timing.state_delay : Time::max();
}

std::span<const std::byte> Receiver::control(Type type) {
  Datagram datagram;
  datagram.type = type;
  datagram.channel = settings_.id;
  datagram.generation = type == Type::kReceiverOpened ? *opening_for_ : generation_;
  datagram.epoch = epoch_;
  datagram.incarnation = incarnation_;
  if (type == Type::kState) {
    datagram.next = next_;
    datagram.limit = taken_ + settings_.credits;
    // Packet next_ has not arrived. The window ends before packet limit.
    for (std::uint32_t i = 0; beyond_ > 0 && i < 64 && precedes(next_ + 1 + i, datagram.limit); ++i)
      if (slot(next_ + 1 + i).arrived) datagram.arrived |= std::uint64_t{1} << i;
  }
  encode_header(datagram, control_);
  return control_;
}

/// Whether the sender has sent neither data nor a greeting for so long that it must have stopped.
bool Receiver::is_silent(Time now) const {
  return now - heard_ >= settings_.timing.stopped();
}

LinkState Receiver::state(Time now) const {
  if (!in_service_) return LinkState::kDown;
  if (!greeted_) return LinkState::kTraining;
  if (is_silent(now)) return LinkState::kLost;
  const bool repaired = repaired_ != Time::min() && now - repaired_ < settings_.timing.degraded;
  return repaired ? LinkState::kDegraded : LinkState::kUp;
}

}  // namespace millrace::runtime::link
