#include "runtime/link/sender.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace millrace::runtime::link {

using std::chrono::duration_cast;
using std::chrono::microseconds;

namespace {

// A packet is lost if this many packets that were sent later have arrived. Networks reorder a few packets.
constexpr std::uint64_t kReordered = 3;
// While a link is trained, the time between greetings grows from the first value to the second.
constexpr microseconds kFirstGreeting{2'000}, kLastGreeting{50'000};
// Sent data packets ask the receiver for an answer, so no greeting is needed meanwhile.
constexpr microseconds kNoGreeting = std::chrono::hours(24);
// A receiver that answers, but acknowledges nothing for this multiple of the allowed silence, does not work.
constexpr int kStuckSilences = 4;

}  // namespace

Sender::Sender(const ChannelSettings& settings)
    : settings_(settings),
      slots_(std::bit_ceil(settings.credits)),
      memory_(slots_.size() * (kHeaderBytes + settings.packet_bytes)),
      repeat_(settings.timing.most_repeat) {
  assert(settings.are_valid());
}

void Sender::start(std::uint32_t generation, std::uint32_t epoch, Time now) {
  generation_ = generation;
  epoch_ = epoch;
  phase_ = Phase::kTraining;
  closing_ = false;
  violation_ = Violation::kNone;
  repeat_ = settings_.timing.most_repeat;  // until a round trip has been measured
  round_trip_ = variation_ = microseconds{0};
  waiting_since_.reset();
  incarnation_ = 0;
  greeting_wait_ = microseconds{0};
  greeted_ = heard_ = now;
  repaired_ = Time::min();
  reset_window();
}

void Sender::stop() {
  closing_ = phase_ != Phase::kDown;
  phase_ = Phase::kDown;
  reset_window();
}

void Sender::set_epoch(std::uint32_t epoch, Time now) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  reset_window();
  // When the host raised the epoch, it discarded all packets. So the time for which the receiver left earlier
  // packets unanswered must not count as silence.
  if (waiting_since_) waiting_since_ = now;
}

void Sender::reset_window() {
  base_ = fresh_ = head_ = 0;
  limit_ = settings_.credits;
  lost_ = 0;
  order_ = arrived_order_ = 0;
  repeat_at_.reset();
}

std::uint32_t Sender::credit() const {
  return phase_ == Phase::kUp ? limit_ - head_ : 0;
}

std::span<std::byte> Sender::bytes_of(std::uint32_t number) {
  const std::size_t stride = kHeaderBytes + settings_.packet_bytes;
  return std::span(memory_).subspan(number % slots_.size() * stride, stride);
}

// The hot path begins here.
bool Sender::push(std::uint64_t sequence, std::uint32_t offset, bool last,
                  std::span<const std::byte> payload) {
  assert(!payload.empty() && payload.size() <= settings_.packet_bytes);
  if (credit() == 0) return false;
  const auto bytes = bytes_of(head_);
  Datagram datagram;
  datagram.channel = settings_.id;
  datagram.generation = generation_;
  datagram.epoch = epoch_;
  datagram.number = head_;
  datagram.sequence = sequence;
  datagram.offset = offset;
  datagram.last = last;
  datagram.payload = payload;
  encode_header(datagram, bytes.first<kHeaderBytes>());
  std::memcpy(bytes.data() + kHeaderBytes, payload.data(), payload.size());
  Slot& s = slot(head_);
  s = {};
  s.bytes = static_cast<std::uint32_t>(kHeaderBytes + payload.size());
  ++head_;
  ++counters_.packets;
  counters_.bytes += payload.size();
  return true;
}

void Sender::receive(const Datagram& datagram, Time now) {
  if (phase_ == Phase::kDown || datagram.generation != generation_) {
    ++counters_.drops.generation;
    return;
  }
  if (datagram.type == Type::kReceiverOpened) return accept_receiver(datagram, now);
  if (datagram.incarnation != incarnation_) {
    ++counters_.drops.generation;  // delayed in the network since before the receiver restarted
    return;
  }
  if (datagram.type == Type::kReceiverClosed) {
    // The receiver is gone, so nothing is known about the packets on their way. Greet the receiver until it is back.
    phase_ = Phase::kTraining;
    waiting_since_.reset();
    greeting_wait_ = microseconds{0};
    greeted_ = now;
    return;
  }
  if (datagram.type != Type::kState) return;
  heard(now);
  if (datagram.epoch != epoch_) {
    ++counters_.drops.epoch;
    return;
  }
  accept_state(datagram, now);
}

/// Greets a receiver that has gone into service, so that it knows which packet to expect.
void Sender::accept_receiver(const Datagram& datagram, Time now) {
  if (datagram.incarnation == incarnation_) return;  // the greeting that names the incarnation is under way
  // An answer that was delayed in the network must not replace a receiver that is in service.
  if (incarnation_ != 0 && precedes(datagram.incarnation, incarnation_) &&
      now - heard_ < settings_.timing.stopped()) {
    ++counters_.drops.generation;
    return;
  }
  incarnation_ = datagram.incarnation;
  heard_ = greeted_ = now;
  phase_ = Phase::kTraining;
  waiting_since_.reset();
  greeting_wait_ = microseconds{0};
  forget_arrivals();
}

/// Marks all packets in the window to be sent again.
void Sender::forget_arrivals() {
  repeat_ = usual_repeat();
  repeat_at_.reset();
  lost_ = 0;
  for (std::uint32_t number = base_; number != fresh_; ++number) {
    Slot& s = slot(number);
    s.arrived = false;
    s.lost = true;
    s.interrupted = true;
    ++lost_;
  }
}

/// Notes that the receiver answers. If it did not answer before, all packets in the window are sent again, except those
/// that this answer acknowledges.
void Sender::heard(Time now) {
  heard_ = now;
  waiting_since_.reset();
  if (outstanding()) waiting_since_ = now;
  if (phase_ == Phase::kUp) return;
  phase_ = Phase::kUp;
  progressed_ = now;
  greeting_wait_ = microseconds{0};
  forget_arrivals();
}

void Sender::accept_state(const Datagram& datagram, Time now) {
  if (precedes(datagram.next, base_)) return;  // overtaken by a later state
  const bool unsent = precedes(fresh_, datagram.next) ||
                      (datagram.arrived != 0 &&
                       precedes(fresh_, datagram.next + 2 + 63 -
                                            static_cast<std::uint32_t>(std::countl_zero(datagram.arrived))));
  const std::uint32_t ahead = datagram.limit - datagram.next;
  if (unsent || ahead > settings_.credits) {
    ++counters_.drops.violation;
    if (violation_ == Violation::kNone) violation_ = unsent ? Violation::kUnsent : Violation::kLimit;
    return;
  }
  const std::uint32_t base = base_;
  for (std::uint32_t number = base_; number != datagram.next; ++number) acknowledge(number, now);
  base_ = datagram.next;
  for (std::uint64_t bits = datagram.arrived; bits != 0; bits &= bits - 1)
    acknowledge(datagram.next + 1 + static_cast<std::uint32_t>(std::countr_zero(bits)), now);
  if (precedes(limit_, datagram.limit)) limit_ = datagram.limit;
  find_lost(now);
  if (base_ != base) {
    progressed_ = now;
    repeat_ = usual_repeat();
    repeat_at_.reset();
  }
  if (!outstanding()) {
    waiting_since_.reset();
    repeat_at_.reset();
  } else if (!repeat_at_) {
    repeat_at_ = now + repeat_;
  }
}

void Sender::acknowledge(std::uint32_t number, Time now) {
  Slot& s = slot(number);
  if (s.arrived) return;
  s.arrived = true;
  if (s.lost) {
    s.lost = false;
    --lost_;
  }
  arrived_order_ = std::max(arrived_order_, s.order);
  // The answer to a repeated packet may belong to any of the transmissions (Karn's algorithm). If the link was lost
  // meanwhile, the time until the answer is the length of the outage.
  if (s.sends != 1 || s.interrupted) return;
  const auto sample = duration_cast<microseconds>(now - s.sent);
  if (round_trip_ == microseconds{0}) {
    round_trip_ = sample;
    variation_ = sample / 2;
    return;
  }
  const auto difference = sample > round_trip_ ? sample - round_trip_ : round_trip_ - sample;
  variation_ += (difference - variation_) / 4;
  round_trip_ += (sample - round_trip_) / 8;
}

/// Returns the time after which a packet without an answer is sent again. Before the first measurement, this is the
/// longest time.
microseconds Sender::usual_repeat() const {
  if (round_trip_ == microseconds{0}) return settings_.timing.most_repeat;
  return std::clamp(round_trip_ + 4 * variation_ + settings_.timing.state_delay,
                    settings_.timing.least_repeat, longest_repeat());
}

/// On a network with a long round trip, a packet is not late before two round trips have passed.
microseconds Sender::longest_repeat() const {
  return std::max(settings_.timing.most_repeat, 2 * round_trip_);
}

/// Marks packets that later packets have overtaken.
void Sender::find_lost(Time now) {
  for (std::uint32_t number = base_; number != fresh_; ++number) {
    Slot& s = slot(number);
    if (s.arrived || s.lost || s.order + kReordered > arrived_order_) continue;
    s.lost = true;
    ++lost_;
    repaired_ = now;
  }
}

/// Marks packets for which no answer came in time.
void Sender::repeat_late(Time now) {
  if (!repeat_at_ || now < *repeat_at_) return;
  for (std::uint32_t number = base_; number != fresh_; ++number) {
    Slot& s = slot(number);
    if (s.arrived || s.lost || s.sent + repeat_ > now) continue;
    s.lost = true;
    ++lost_;
    repaired_ = now;
  }
  repeat_ = std::min(2 * repeat_, longest_repeat());
  repeat_at_ = now + repeat_;
}

void Sender::await_answer(Time now) {
  if (!waiting_since_) waiting_since_ = now;
}

/// Whether the receiver has not answered, or has not made progress, for too long.
bool Sender::is_silent(Time now) const {
  const auto& silence = settings_.timing.silence;
  return (waiting_since_ && now - *waiting_since_ >= silence) ||
         (outstanding() && now - progressed_ >= kStuckSilences * silence);
}

std::span<const std::byte> Sender::next_datagram(Time now) {
  if (closing_) {
    closing_ = false;
    return control(Type::kSenderClosed);
  }
  if (phase_ == Phase::kDown) return {};
  if (phase_ == Phase::kUp && is_silent(now)) {
    phase_ = Phase::kLost;
    ++counters_.losses;
    greeting_wait_ = microseconds{0};
    greeted_ = now;
  }
  if (now - greeted_ >= greeting_interval()) {
    greeted_ = now;
    if (phase_ != Phase::kUp) greeting_wait_ = std::clamp(2 * greeting_wait_, kFirstGreeting, kLastGreeting);
    await_answer(now);
    return control(Type::kGreeting);
  }
  if (phase_ != Phase::kUp) return {};
  repeat_late(now);
  if (lost_ > 0) {
    std::uint32_t number = base_;
    while (!slot(number).lost) ++number;
    ++counters_.repeats;
    --lost_;
    slot(number).lost = false;
    return transmit(number, now);
  }
  if (fresh_ == head_) return {};
  if (!outstanding()) progressed_ = now;
  return transmit(fresh_++, now);
}

std::span<const std::byte> Sender::transmit(std::uint32_t number, Time now) {
  Slot& s = slot(number);
  s.sent = now;
  s.order = ++order_;
  ++s.sends;
  await_answer(now);
  if (!repeat_at_) repeat_at_ = now + repeat_;
  return bytes_of(number).first(s.bytes);
}
// The hot path ends here.

/// Returns the time between greetings. While a link is up, a greeting is needed only if no data packet asks for an
/// answer. If the credit is used up, greetings are frequent, because the datagram that returned the credit may have
/// been lost; otherwise they are rare.
microseconds Sender::greeting_interval() const {
  if (phase_ != Phase::kUp) return greeting_wait_;
  if (outstanding()) return kNoGreeting;
  return head_ == limit_ || waiting_since_ ? settings_.timing.most_repeat
                                           : duration_cast<microseconds>(settings_.timing.keepalive);
}

Time Sender::next_time() const {
  if (closing_) return Time::min();
  if (phase_ == Phase::kDown) return Time::max();
  Time next = greeted_ + greeting_interval();
  if (phase_ != Phase::kUp) return next;
  if (lost_ > 0 || fresh_ != head_) return Time::min();
  if (repeat_at_) next = std::min(next, *repeat_at_);
  if (waiting_since_) next = std::min(next, *waiting_since_ + settings_.timing.silence);
  if (outstanding()) next = std::min(next, progressed_ + kStuckSilences * settings_.timing.silence);
  return next;
}

std::span<const std::byte> Sender::control(Type type) {
  Datagram datagram;
  datagram.type = type;
  datagram.channel = settings_.id;
  datagram.generation = generation_;
  datagram.epoch = epoch_;
  if (type == Type::kGreeting) {
    datagram.number = base_;
    datagram.incarnation = incarnation_;
    datagram.packet_bytes = settings_.packet_bytes;
    datagram.credits = settings_.credits;
  }
  encode_header(datagram, control_);
  return control_;
}

LinkState Sender::state(Time now) const {
  switch (phase_) {
    case Phase::kDown:
      return LinkState::kDown;
    case Phase::kTraining:
      return LinkState::kTraining;
    case Phase::kLost:
      return LinkState::kLost;
    case Phase::kUp:
      break;
  }
  const bool repaired = repaired_ != Time::min() && now - repaired_ < settings_.timing.degraded;
  return repaired ? LinkState::kDegraded : LinkState::kUp;
}

}  // namespace millrace::runtime::link
