// Bench of the modules of a UDP link, with a network in between that loses, repeats, reorders and damages datagrams.
//
// The other end of the cable is the software of runtime/link, or the hardware itself: then the card is its
// own neighbour. Frames pass in both directions. The scripts change the epoch (the number that every frame
// carries; a new one discards all older frames) in mid-frame, take the network away, restart an end, and
// violate the protocol. No wrong byte may leave, and every frame must arrive unless the epoch discards it.
//
// The file is above 500 lines because all scripts share the state of one row, which is an instance of the tested module
// with its own parameters.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "kernels/program/packing.hpp"
#include "kernels/tb/bench.hpp"
#include "kernels/tb/integers.hpp"
#include "runtime/link/cable_end.hpp"
#include "runtime/link/impairment.hpp"

namespace millrace::kernels::tb {
namespace {

namespace link = runtime::link;

constexpr unsigned kBeatBytes = 64;               // of a beat
constexpr std::uint64_t kTickCycles = 4;          // cycles in a microsecond
constexpr std::uint64_t kMostCycles = 2'000'000;  // cycles within which a script must end
constexpr std::uint64_t kDrainCycles = 6'000;     // cycles in which every datagram leaves the network

using UdpBytes = std::vector<std::byte>;

struct UdpFrame {
  std::uint64_t sequence = 0;
  std::uint32_t epoch = 0;
  Beats beats;
  UdpBytes wire;
};

/// A datagram that neither sender nor receiver has sent, and the violation that the hardware must report: in bit `port`
/// of `fault`, with `code` (runtime/link/channel.hpp, Violation). Code 0: the hardware must not report anything.
struct ForgedDatagram {
  link::Datagram datagram;
  unsigned port = 0;
  std::uint64_t code = 0;
  UdpBytes payload;
};

enum class LinkEvent { kNone, kEpoch, kOutage, kRestart, kViolate };

class UdpLinkRow {
 public:
  UdpLinkRow(const Parameters& parameters, std::map<std::string, Port>& ports, std::uint64_t seed, int rounds)
      : clk(ports.at("clk")),
        parameters_(parameters),
        ports_(ports),
        rng_(seed),
        scripts_(rounds * 24),
        lanes_(positive(parameters, "LANES")),
        beats_(positive(parameters, "BEATS")),
        type_(element_type(0, parameters["ABITS"])),
        forth_(seed),
        back_(seed + 1) {
    timing_.least_repeat = std::chrono::microseconds(parameters["LEAST_REPEAT"]);
    timing_.most_repeat = std::chrono::microseconds(parameters["MOST_REPEAT"]);
    timing_.state_delay = std::chrono::microseconds(parameters["STATE_DELAY"]);
    timing_.keepalive = std::chrono::milliseconds(parameters["KEEPALIVE"] / 1000);
    timing_.silence = std::chrono::milliseconds(parameters["SILENCE"] / 1000);
  }

  Port clk;
  bool finished() const { return stage_ == Stage::kFinished; }
  int failures() const { return failures_; }
  void drive();
  void sample();

 private:
  enum class Stage { kReset, kRunning, kViolating, kDrain, kFinished };
  /// The end that a restart takes out of service.
  enum class End { kSender, kReceiver, kPeerSender, kPeerReceiver };

  void fail(const std::string& what) {
    if (++failures_ <= 8)
      std::printf("  %s: script %d (event %d, %s), cycle %" PRIu64 ": %s\n", parameters_.row().c_str(),
                  script_, static_cast<int>(event_), loop_ ? "loop" : "peer", cycle_, what.c_str());
  }
  /// Incarnations grow modulo 2^32, but are never 0.
  static std::uint32_t next_incarnation(std::uint32_t& incarnation) {
    if (++incarnation == 0) ++incarnation;
    return incarnation;
  }
  bool high(const char* port) const { return ports_.at(port).get() != 0; }
  std::uint64_t later(std::int64_t least, std::int64_t most) {
    return cycle_ + static_cast<std::uint64_t>(rng_.between(least, most));
  }

  void begin_script();
  link::Impairment faults();
  void add_own_frames();
  void add_peer_frames();
  UdpFrame make_frame(std::uint32_t epoch);
  void drive_network();
  void watch_network();
  void datagram_sent();
  void watch_frames();
  void watch_faults();
  void serve_network();
  void serve_peer();
  void advance();
  void happen();
  void restart(bool on);
  void flush_done();
  void change_peer_epoch();
  bool all_arrived() const;
  void end_script();
  ForgedDatagram forge();
  void violate();

  const Parameters& parameters_;
  std::map<std::string, Port>& ports_;
  Rng rng_;
  int scripts_, script_ = 0;
  unsigned lanes_, beats_;
  ElementType type_;
  link::Timing timing_;
  link::Impairer forth_, back_;  // from the hardware, to the hardware
  link::Time now_{std::chrono::hours(1)};

  Stage stage_ = Stage::kReset;
  LinkEvent event_ = LinkEvent::kNone;
  std::uint64_t cycle_ = 0, since_ = 0, event_at_ = 0, restart_until_ = 0, peer_epoch_at_ = 0,
                own_epoch_at_ = 0, drain_until_ = 0, flushing_ = 0;
  bool loop_ = false, happened_ = false, flush_ = false, send_enable_ = false, receive_enable_ = false,
       lost_seen_ = false,
       unsettled_ = false;  // unsettled: an end was restarted, and not all ends have the new epoch
  bool forgetful_ =
      false;  // the sender that is restarted forgets its generation and tells nobody that it stops
  End restarted_ = End::kSender;
  std::uint32_t epoch_ = 0xffff'fffd, peer_epoch_ = 0xffff'fffd, generation_ = 0xffff'fff0,
                incarnation_ = 0xffff'fff0;
  std::uint16_t socket_ = 0;
  std::uint8_t tag_ = 0;
  std::uint32_t packet_bytes_ = 64, credits_ = 1;
  link::Impairment impairment_;

  std::unique_ptr<link::CableEnd> far_;
  link::Sender* sender_ = nullptr;
  link::Receiver* receiver_ = nullptr;
  std::uint32_t peer_generation_ = 0, peer_incarnation_ = 0;
  std::uint32_t pushed_ = 0, fresh_ = 0;  // packets of this epoch from the peer, from the hardware

  std::deque<UdpBytes> arriving_;
  std::size_t arriving_at_ = 0;
  bool arrives_ = false;
  UdpBytes leaving_;

  std::uint64_t sequence_ = 0;
  std::deque<UdpFrame> to_give_, to_get_, to_push_,
      to_take_;  // to and from the hardware, to and from the peer
  bool offered_ = false, tag_given_ = false;
  std::size_t given_ = 0, got_ = 0, push_at_ = 0, take_at_ = 0;
  std::optional<UdpFrame> begun_;  // the frame whose first beat came but whose tag did not yet
  double sink_pace_ = 0.8, peer_pace_ = 0.8;

  // The forged datagrams: how many are still to be sent, the present one, and the faults that were reported
  // since it was sent.
  int forged_left_ = 0;
  std::optional<ForgedDatagram> forged_;
  std::uint64_t forged_until_ = 0, faults_seen_ = 0;
  std::array<std::uint64_t, 2> violation_before_{};
  std::uint64_t frames_ = 0, datagrams_ = 0, repeats_ = 0, gaps_ = 0, losses_ = 0, violations_ = 0;
  int failures_ = 0;
};

UdpFrame UdpLinkRow::make_frame(std::uint32_t epoch) {
  UdpFrame frame;
  frame.sequence = sequence_++;
  frame.epoch = epoch;
  const Values values = random_values(type_, std::size_t{lanes_} * beats_, rng_);
  frame.beats = to_beats(values, type_, lanes_);
  UdpBytes stored(values.size() * type_.storage_bytes());
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(&stored[i * type_.storage_bytes()], &values[i], type_.storage_bytes());
  frame.wire.resize(packed_bytes(type_, values.size()));
  pack(type_, stored, frame.wire);
  return frame;
}

void UdpLinkRow::add_own_frames() {
  for (auto i = rng_.between(1, 6); i > 0; --i) to_give_.push_back(make_frame(epoch_));
}

void UdpLinkRow::add_peer_frames() {
  for (auto i = rng_.between(1, 6); i > 0; --i) {
    to_push_.push_back(make_frame(peer_epoch_));
    to_get_.push_back(to_push_.back());
  }
}

link::Impairment UdpLinkRow::faults() {
  link::Impairment impairment;
  impairment.latency = std::chrono::microseconds(rng_.between(0, 60));
  if (rng_.chance(0.3)) return impairment;
  if (rng_.chance(0.6)) impairment.loss = rng_.chance(0.5) ? 0.01 : 0.1;
  if (rng_.chance(0.5)) impairment.duplicate = 0.1;
  if (rng_.chance(0.5)) impairment.reorder = 0.1;
  if (rng_.chance(0.5)) impairment.bit_errors = 1e-5;
  return impairment;
}

void UdpLinkRow::begin_script() {
  ++script_;
  since_ = cycle_;
  // After an event other than kViolate, packets may be unacknowledged, and the sender may block until a
  // flush. So omit the flush only after kViolate.
  flush_ = event_ != LinkEvent::kViolate || rng_.chance(0.5);
  if (flush_) ++epoch_;
  event_ = static_cast<LinkEvent>(rng_.between(0, 4));
  loop_ = rng_.chance(0.3) && event_ != LinkEvent::kViolate;
  happened_ = lost_seen_ = unsettled_ = forgetful_ = false;
  restart_until_ = peer_epoch_at_ = own_epoch_at_ = 0;
  socket_ = static_cast<std::uint16_t>(rng_.between(0, 15));
  tag_ = static_cast<std::uint8_t>(rng_.between(0, 15));
  packet_bytes_ = static_cast<std::uint32_t>(rng_.between(1, parameters_["PACKET"] / 64)) * 64;
  const std::size_t frame_bytes = packed_bytes(type_, std::size_t{lanes_} * beats_);
  if (frame_bytes <= positive(parameters_, "PACKET") && rng_.chance(0.5))
    packet_bytes_ = static_cast<std::uint32_t>(frame_bytes);
  credits_ = static_cast<std::uint32_t>(rng_.between(1, parameters_["SLOTS"]));
  impairment_ = faults();
  forth_.set(impairment_, now_);
  back_.set(impairment_, now_);
  sink_pace_ = rng_.chance(0.3) ? 0.05 : 0.8;
  peer_pace_ = rng_.chance(0.3) ? 0.05 : 0.8;
  send_enable_ = receive_enable_ = true;
  ++generation_;
  next_incarnation(incarnation_);
  pushed_ = fresh_ = 0;
  peer_epoch_ = epoch_;
  peer_generation_ = generation_;
  peer_incarnation_ = incarnation_;
  far_.reset();
  if (!loop_) {
    far_ = std::make_unique<link::CableEnd>(std::uint16_t{2}, std::uint16_t{1});
    sender_ = &far_->add_sender(tag_, packet_bytes_, credits_, timing_);
    receiver_ = &far_->add_receiver(tag_, packet_bytes_, credits_, timing_);
    sender_->start(peer_generation_, peer_epoch_, now_);
    receiver_->start(peer_incarnation_, peer_epoch_);
  }
  if (!loop_) add_peer_frames();
  if (flush_) {
    flushing_ = 0;  // the hardware's frames begin with the new epoch
  } else {
    add_own_frames();
  }
  event_at_ = later(500, 20'000);
  stage_ = Stage::kRunning;
}

void UdpLinkRow::drive() {
  ports_.at("rst").set(stage_ == Stage::kReset);
  ports_.at("tick").set(cycle_ % kTickCycles == 0);
  ports_.at("flush").set(flush_);
  ports_.at("spoilt").set(0);
  ports_.at("card_epoch").set(epoch_);
  ports_.at("now").set(cycle_);
  ports_.at("send_enable").set(send_enable_);
  ports_.at("receive_enable").set(receive_enable_);
  ports_.at("generation").set(generation_);
  ports_.at("incarnation").set(incarnation_);
  ports_.at("local_end").set(1);
  ports_.at("remote_end").set(loop_ ? 1 : 2);
  ports_.at("tag").set(tag_);
  ports_.at("socket").set(socket_);
  ports_.at("packet_bytes").set(packet_bytes_);
  ports_.at("credits").set(credits_);
  drive_network();

  offered_ = offered_ || (!to_give_.empty() && rng_.chance(0.8));
  ports_.at("in_valid").set(offered_);
  if (offered_) ports_.at("in_data").write(0, to_give_.front().beats.at(given_));
  tag_given_ = !to_give_.empty() && (tag_given_ || given_ > 0 || rng_.chance(0.5));
  ports_.at("in_tag_valid").set(tag_given_);
  if (tag_given_) {
    Beat tag(160);
    tag.set(0, 32, to_give_.front().epoch);
    tag.set(32, 64, to_give_.front().sequence);
    ports_.at("in_tag_data").write(0, tag);
  }
  ports_.at("out_ready").set(rng_.chance(sink_pace_));
  ports_.at("out_tag_ready").set(rng_.chance(0.3));
}

void UdpLinkRow::drive_network() {
  arrives_ = arrives_ || (!arriving_.empty() && rng_.chance(0.8));
  ports_.at("n_valid").set(arrives_);
  if (arrives_) {
    const UdpBytes& bytes = arriving_.front();
    Beat beat(8 * kBeatBytes);
    std::uint64_t keep = 0;
    for (unsigned i = 0; i < kBeatBytes && arriving_at_ + i < bytes.size(); ++i) {
      beat.set(8 * i, 8, static_cast<std::uint64_t>(bytes[arriving_at_ + i]));
      keep |= std::uint64_t{1} << i;
    }
    ports_.at("n_data").write(0, beat);
    ports_.at("n_keep").set(keep);
    ports_.at("n_last").set(arriving_at_ + kBeatBytes >= bytes.size());
    ports_.at("n_dest").set(socket_);
  }
  ports_.at("x_ready").set(rng_.chance(0.8));
}

void UdpLinkRow::sample() {
  ++cycle_;
  if (stage_ == Stage::kReset) {
    if (cycle_ >= 4) begin_script();
    return;
  }
  watch_network();
  watch_frames();
  watch_faults();
  if (cycle_ % kTickCycles == 0) {
    now_ += std::chrono::microseconds(1);
    serve_network();
    if (far_ != nullptr) serve_peer();
  }
  advance();
}

void UdpLinkRow::watch_network() {
  if (arrives_ && high("n_ready")) {
    arrives_ = false;
    arriving_at_ += kBeatBytes;
    if (arriving_at_ >= arriving_.front().size()) {
      arriving_.pop_front();
      arriving_at_ = 0;
    }
  }
  if (!high("x_valid") || !high("x_ready")) return;
  const Beat data = ports_.at("x_data").read();
  const std::uint64_t keep = ports_.at("x_keep").get();
  for (unsigned i = 0; i < kBeatBytes && (keep >> i & 1U) != 0; ++i)
    leaving_.push_back(static_cast<std::byte>(data.get(8 * i, 8)));
  if (!high("x_last")) return;
  datagram_sent();
  leaving_.clear();
}

/// Checks a datagram of the hardware and gives it to the network.
void UdpLinkRow::datagram_sent() {
  ++datagrams_;
  link::Datagram datagram;
  if (link::parse(leaving_, datagram) != link::Refusal::kNone) fail("a datagram that a parser refuses");
  const bool states = datagram.type == link::Type::kState || datagram.type == link::Type::kReceiverClosed ||
                      datagram.type == link::Type::kReceiverOpened;
  const std::uint16_t remote = loop_ ? 1 : 2;
  const link::ChannelId id{states ? remote : std::uint16_t{1}, states ? std::uint16_t{1} : remote, tag_};
  if (!(datagram.channel == id)) fail("a datagram of another channel");
  if (ports_.at("x_dest").get() != socket_) fail("a datagram to another socket");
  if (datagram.type == link::Type::kData && datagram.epoch == epoch_ && datagram.generation == generation_)
    fresh_ = std::max(fresh_, datagram.number + 1);
  forth_.accept(leaving_, now_);
}

void UdpLinkRow::serve_network() {
  for (auto d = forth_.next(now_); !d.empty(); d = forth_.next(now_)) {
    if (loop_) {
      arriving_.emplace_back(d.begin(), d.end());
    } else if (far_ != nullptr) {
      far_->receive(d, true, now_);
    }
  }
  if (far_ == nullptr) return;
  for (auto d = far_->next_datagram(now_); !d.empty(); d = far_->next_datagram(now_)) back_.accept(d, now_);
  for (auto d = back_.next(now_); !d.empty(); d = back_.next(now_))
    arriving_.emplace_back(d.begin(), d.end());
}

/// Gives packets to the peer's sender, and takes packets from its receiver and checks them.
void UdpLinkRow::serve_peer() {
  if (sender_->violation() != link::Violation::kNone) fail(to_string(sender_->violation()));
  if (receiver_->violation() != link::Violation::kNone) fail(to_string(receiver_->violation()));
  if (!to_push_.empty() && sender_->credit() > 0) {
    const UdpFrame& frame = to_push_.front();
    const std::size_t size = std::min<std::size_t>(packet_bytes_, frame.wire.size() - push_at_);
    const bool last = push_at_ + size == frame.wire.size();
    sender_->push(frame.sequence, static_cast<std::uint32_t>(push_at_), last,
                  std::span(frame.wire).subspan(push_at_, size));
    ++pushed_;
    push_at_ = last ? 0 : push_at_ + size;
    if (last) to_push_.pop_front();
  }
  link::Packet packet;
  if (!rng_.chance(peer_pace_) || !receiver_->peek(packet)) return;
  if (!unsettled_) {
    if (to_take_.empty()) return fail("a packet of no frame");
    const UdpFrame& frame = to_take_.front();
    const std::size_t size = std::min<std::size_t>(packet_bytes_, frame.wire.size() - take_at_);
    const bool last = take_at_ + size == frame.wire.size();
    if (packet.sequence != frame.sequence || packet.epoch != frame.epoch || packet.offset != take_at_ ||
        packet.last != last)
      fail("a packet with other fields");
    if (!std::ranges::equal(packet.payload, std::span(frame.wire).subspan(take_at_, size)))
      fail("a packet with a wrong byte");
    take_at_ = last ? 0 : take_at_ + size;
    if (last) {
      to_take_.pop_front();
      ++frames_;
    }
  }
  receiver_->take();
}

void UdpLinkRow::watch_frames() {
  if (tag_given_ && high("in_tag_ready")) {
    if (given_ + 1 != beats_) fail("the tag was taken before the last beat of its frame");
    tag_given_ = false;
  }
  if (offered_ && high("in_ready")) {
    offered_ = false;
    if (given_ == 0) (loop_ ? to_get_ : to_take_).push_back(to_give_.front());
    if (++given_ == beats_) {
      given_ = 0;
      to_give_.pop_front();
    }
  }
  if (flush_ || unsettled_) return;
  if (high("out_tag_valid") && high("out_tag_ready")) {
    const Beat got = ports_.at("out_tag_data").read();
    if (!begun_ || got.get(0, 32) != begun_->epoch || got.get(32, 64) != begun_->sequence)
      fail("a wrong tag");
    begun_.reset();
  }
  if (high("out_valid") && high("out_ready")) {
    if (to_get_.empty()) return fail("a beat of no frame");
    if (got_ == 0) begun_ = to_get_.front();
    if (ports_.at("out_data").read() != to_get_.front().beats.at(got_)) fail("a wrong beat");
    if (++got_ == beats_) {
      got_ = 0;
      ++frames_;
      to_get_.pop_front();
    }
  }
}

void UdpLinkRow::watch_faults() {
  repeats_ += high("again");
  gaps_ += high("gap");
  if (high("lost") && !lost_seen_) ++losses_;
  lost_seen_ = lost_seen_ || high("lost");
  const std::uint64_t fault = ports_.at("fault").get();
  faults_seen_ |= fault;
  if (stage_ == Stage::kViolating || fault == 0) return;
  // If an end restarts in the middle of a frame, the rest of the frame never comes, and the hardware may
  // report a fault.
  const bool violated = high("send_violation") || high("receive_violation");
  if (!unsettled_ || violated) fail("a fault without a cause");
}

bool UdpLinkRow::all_arrived() const {
  return to_give_.empty() && to_get_.empty() && to_push_.empty() && to_take_.empty() && !begun_;
}

void UdpLinkRow::advance() {
  if (cycle_ - since_ > kMostCycles) {
    fail("nothing moves");
    stage_ = Stage::kFinished;
    return;
  }
  if (flush_ && ++flushing_ >= 4 && high("quiet")) flush_done();
  switch (stage_) {
    case Stage::kRunning:
      if (!happened_ && cycle_ >= event_at_) happen();
      if (restart_until_ != 0 && cycle_ >= restart_until_) restart(true);
      if (own_epoch_at_ != 0 && cycle_ >= own_epoch_at_) {
        own_epoch_at_ = 0;
        ++epoch_;
        flush_ = true;
        flushing_ = 0;
      }
      if (peer_epoch_at_ != 0 && cycle_ >= peer_epoch_at_) change_peer_epoch();
      if (happened_ && !flush_ && own_epoch_at_ == 0 && peer_epoch_at_ == 0 && restart_until_ == 0 &&
          all_arrived()) {
        if (event_ == LinkEvent::kOutage && !lost_seen_) fail("the outage was not noticed");
        since_ = cycle_;
        forged_left_ = 6;
        drain_until_ = cycle_ + kDrainCycles;
        if (event_ == LinkEvent::kViolate) {
          stage_ = Stage::kViolating;
        } else {
          end_script();
        }
      }
      return;
    case Stage::kViolating:
      if (cycle_ >= drain_until_) violate();
      return;
    case Stage::kDrain:
      if (cycle_ < drain_until_ || !arriving_.empty()) return;
      if (script_ < scripts_) return begin_script();
      stage_ = Stage::kFinished;
      std::printf("  %-8s %s: %d scripts, %" PRIu64 " frames, %" PRIu64 " datagrams, %" PRIu64
                  " repeats, %" PRIu64 " gaps, %" PRIu64 " links lost, %" PRIu64 " violations, %" PRIu64
                  " cycles\n",
                  parameters_.row().c_str(), failures_ == 0 ? "ok" : "FAILED", script_, frames_, datagrams_,
                  repeats_, gaps_, losses_, violations_, cycle_);
      return;
    default:
      return;
  }
}

/// Lets the event of the script begin. Also called when an outage ends.
void UdpLinkRow::happen() {
  switch (event_) {
    case LinkEvent::kEpoch:
      own_epoch_at_ = later(1, 2'000);
      if (loop_) break;
      peer_epoch_at_ = later(1, 2'000);
      break;
    case LinkEvent::kOutage:
      if (!impairment_.outage) {
        impairment_.outage = true;
        event_at_ = later(0, 4'000) + kTickCycles * static_cast<std::uint64_t>(parameters_["KEEPALIVE"] +
                                                                               2 * parameters_["SILENCE"]);
      } else {
        impairment_.outage = false;
        happened_ = true;
        add_own_frames();
        if (!loop_) add_peer_frames();
      }
      forth_.set(impairment_, now_);
      back_.set(impairment_, now_);
      return;
    case LinkEvent::kRestart:
      unsettled_ = true;
      restarted_ = static_cast<End>(rng_.between(0, loop_ ? 1 : 3));
      forgetful_ = (restarted_ == End::kSender || restarted_ == End::kPeerSender) && rng_.chance(0.3);
      restart(false);
      restart_until_ = later(1, 4'000);
      // The receiver notices only by the silence that the sender has stopped.
      if (forgetful_)
        restart_until_ +=
            kDrainCycles +
            kTickCycles * static_cast<std::uint64_t>(3 * parameters_["KEEPALIVE"] + parameters_["SILENCE"]);
      break;
    default:
      break;
  }
  happened_ = true;
}

/// Takes an end out of service, or brings it back. After the end is back, the epoch changes, which discards
/// all frames, because frames may have lost a part.
void UdpLinkRow::restart(bool on) {
  if (forgetful_) {
    impairment_.outage = !on;
    forth_.set(impairment_, now_);
    back_.set(impairment_, now_);
  }
  if (restarted_ == End::kSender) send_enable_ = on;
  if (restarted_ == End::kReceiver) receive_enable_ = on;
  if (!on) {
    if (restarted_ == End::kPeerSender) sender_->stop();
    if (restarted_ == End::kPeerReceiver) receiver_->stop();
    return;
  }
  if (restarted_ == End::kSender && !forgetful_) ++generation_;
  if (restarted_ == End::kReceiver) next_incarnation(incarnation_);
  if (restarted_ == End::kPeerSender) {
    if (!forgetful_) ++peer_generation_;
    sender_->start(peer_generation_, peer_epoch_, now_);
  }
  if (restarted_ == End::kPeerReceiver) receiver_->start(next_incarnation(peer_incarnation_), peer_epoch_);
  restart_until_ = 0;
  own_epoch_at_ = later(1, 8'000);
  if (!loop_) peer_epoch_at_ = later(1, 8'000);
}

/// The hardware has the new epoch, so all frames of the old epoch were discarded.
void UdpLinkRow::flush_done() {
  flush_ = false;
  offered_ = tag_given_ = false;
  begun_.reset();
  given_ = got_ = 0;
  fresh_ = 0;
  to_give_.clear();
  std::erase_if(to_get_, [&](const UdpFrame& frame) { return frame.epoch != epoch_; });
  unsettled_ = unsettled_ && peer_epoch_at_ != 0;
  add_own_frames();
}

void UdpLinkRow::change_peer_epoch() {
  peer_epoch_at_ = 0;
  ++peer_epoch_;
  sender_->set_epoch(peer_epoch_, now_);
  receiver_->set_epoch(peer_epoch_);
  push_at_ = take_at_ = 0;
  pushed_ = 0;
  to_push_.clear();
  std::erase_if(to_take_, [&](const UdpFrame& frame) { return frame.epoch != peer_epoch_; });
  unsettled_ = unsettled_ && (epoch_ != peer_epoch_ || flush_);
  add_peer_frames();
}

/// All packets have arrived, so the bench knows the exact state of both ends, and forges datagrams at the limits of what
/// the protocol allows.
ForgedDatagram UdpLinkRow::forge() {
  ForgedDatagram forged;
  link::Datagram& d = forged.datagram;
  const auto kind = rng_.between(0, 10);
  const bool to_sender = kind >= 5 && kind <= 9;
  forged.port = to_sender ? 0 : 1;
  d.channel = to_sender ? link::ChannelId{1, 2, tag_} : link::ChannelId{2, 1, tag_};
  d.type = to_sender ? link::Type::kState : link::Type::kData;
  d.generation = to_sender ? generation_ : peer_generation_;
  d.incarnation = to_sender ? peer_incarnation_ : incarnation_;
  d.epoch = epoch_;
  d.next = fresh_;
  d.limit = fresh_ + credits_;
  std::size_t size = packet_bytes_;
  switch (kind) {
    case 0:
      d.type = link::Type::kGreeting;
      d.packet_bytes = packet_bytes_;
      d.credits = credits_ + 1;
      forged.code = 1;
      break;
    case 1:  // one packet too far
      d.number = pushed_ + credits_;
      forged.code = 3;
      break;
    case 2:
      if (packet_bytes_ < positive(parameters_, "PACKET")) {
        d.number = pushed_ + credits_ - 1;
        ++size;
        forged.code = 2;
        break;
      }
      [[fallthrough]];
    case 3:  // a packet that arrived before
      d.number = pushed_ - 1;
      break;
    case 4:  // an earlier sender
      d.number = pushed_ + credits_;
      d.generation -= 1;
      break;
    case 5:  // one packet that was not sent
      ++d.next;
      ++d.limit;
      forged.code = 4;
      break;
    case 6:
      d.arrived = 1;
      forged.code = 4;
      break;
    case 7:
      ++d.limit;
      forged.code = 5;
      break;
    case 8:  // an earlier receiver
      d.incarnation = d.incarnation == 1 ? 0xffff'ffffU : d.incarnation - 1;
      d.next += 5;
      break;
    case 10:  // delayed since before the receiver went into service, when the plan was another one
      d.type = link::Type::kGreeting;
      d.incarnation = rng_.chance(0.5) || d.incarnation == 1 ? 0 : d.incarnation - 1;
      d.packet_bytes = packet_bytes_;
      d.credits = credits_ + 1;
      break;
    default:  // exactly what is allowed
      break;
  }
  if (to_sender || d.type == link::Type::kGreeting) {
    d.number = 0;
  } else {
    d.incarnation = d.next = d.limit = 0;
    for (std::size_t i = 0; i < size; ++i)
      forged.payload.push_back(static_cast<std::byte>(rng_.between(0, 255)));
  }
  if (d.type == link::Type::kGreeting) d.next = d.limit = 0;
  return forged;
}

void UdpLinkRow::violate() {
  constexpr std::uint64_t kReaction = 400;  // cycles
  const std::array<std::uint64_t, 2> violations{ports_.at("send_violation").get(),
                                                ports_.at("receive_violation").get()};
  if (!forged_) {
    if (forged_left_-- == 0) return end_script();
    if (fresh_ == 0 || pushed_ == 0) return fail("no packet");
    forged_ = forge();
    forged_->datagram.payload = forged_->payload;
    UdpBytes bytes(link::kHeaderBytes);
    link::encode_header(forged_->datagram, std::span(bytes).first<link::kHeaderBytes>());
    bytes.insert(bytes.end(), forged_->payload.begin(), forged_->payload.end());
    arriving_.push_back(std::move(bytes));
    forged_until_ = cycle_ + kReaction;
    faults_seen_ = 0;
    violation_before_ = violations;
  }
  if (cycle_ < forged_until_ || !arriving_.empty()) return;
  const std::uint64_t code = forged_->code, wanted = code == 0 ? 0 : std::uint64_t{1} << forged_->port;
  if (faults_seen_ != wanted)
    fail("faults " + std::to_string(faults_seen_) + " for violation " + std::to_string(code));
  const std::uint64_t before = violation_before_[forged_->port];
  if (violations[forged_->port] != (before == 0 ? code : before)) fail("a violation was named wrongly");
  violations_ += code != 0;
  forged_.reset();
}

void UdpLinkRow::end_script() {
  send_enable_ = receive_enable_ = false;
  if (far_ != nullptr) {
    sender_->stop();
    receiver_->stop();
  }
  push_at_ = take_at_ = 0;
  forth_.set({}, now_);
  back_.set({}, now_);
  drain_until_ = cycle_ + kDrainCycles;
  stage_ = Stage::kDrain;
}

int run_udp_link_bench(std::uint64_t seed, int rounds) {
  const auto& parameters = model_rows();
  const auto model = make_model();
  std::vector<std::unique_ptr<UdpLinkRow>> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    rows.push_back(std::make_unique<UdpLinkRow>(parameters[i], model->ports(i), seed * 1000 + i, rounds));
  for (;;) {
    std::vector<UdpLinkRow*> active;
    for (auto& row : rows)
      if (!row->finished()) active.push_back(row.get());
    if (active.empty()) break;
    for (UdpLinkRow* row : active) row->drive();
    model->eval();
    for (UdpLinkRow* row : active) {
      row->sample();
      row->clk.set(1);
    }
    model->eval();
    for (UdpLinkRow* row : active) row->clk.set(0);
  }
  model->final();
  int failures = 0;
  for (const auto& row : rows) failures += row->failures();
  return failures;
}

}  // namespace

void add_udp_link_bench(Benches& benches) {
  benches["mr_udp_link"] = run_udp_link_bench;
}

}  // namespace millrace::kernels::tb
