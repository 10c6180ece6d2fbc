// Bench of the link modules: a sender and a receiver, both in one FPGA image, connected by simulated cables.
//
// The bench decodes every packet on a cable, computes the packet's CRC bit by bit and compares its payload with
// kernels/program/packing.hpp. Its scripts are: clean frames; a change of epoch in mid-frame; lost greetings and
// credits, which may only cost time; damaged and lost packets, which must raise a fault and must never give wrong
// output; a cable that goes down; a sender and a receiver with different packet sizes; a memory that fails, after which
// no packet may begin; connectors that do not exist; an acknowledgement of packets that were not sent.
//
// In every script, the bench counts the sender's credit, and sends packets of an earlier generation (an earlier time in
// service of the sender) into the cables. Sender and receiver must ignore these packets.
//
// The file is above 500 lines because all scripts share the state of one row, which is an instance of the tested module
// with its own parameters.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "kernels/program/packing.hpp"
#include "kernels/tb/axi.hpp"
#include "kernels/tb/integers.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::kernels::tb {
namespace {

namespace abi = runtime::plan::abi;

enum Kind : std::uint64_t { kData = 1, kTaken = 2, kGreeting = 3, kWelcome = 4 };
constexpr std::uint32_t kReceiver = 0, kSender = 1;  // rows of the link table
constexpr std::uint64_t kBegun = 200;                // cycles within which a packet that has begun must end
constexpr std::uint64_t kPatience = 60'000;          // cycles within which a script must end

std::uint32_t crc32(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t crc = ~0u;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

struct Packet {
  std::vector<std::uint8_t> bytes;  // header, then the payload with its padding
  std::uint64_t field(std::size_t at, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{bytes.at(at + i)} << (8 * i);
    return value;
  }
  void set(std::size_t at, std::size_t size, std::uint64_t value) {
    for (std::size_t i = 0; i < size; ++i) bytes.at(at + i) = static_cast<std::uint8_t>(value >> (8 * i));
  }
  std::uint64_t kind() const { return field(0, 1); }
};

struct LinkFrame {
  std::uint64_t sequence = 0;
  std::uint32_t epoch = 0;
  Beats beats;
  std::vector<std::uint8_t> wire;
};

enum class Script { kClean, kEpoch, kSpoilt, kLossy, kDamaged, kLost, kCableDown, kMismatch, kUnsent };

class LinkRow {
 public:
  LinkRow(const Parameters& parameters, Ports& ports, std::uint64_t seed, int rounds)
      : clk(ports.at("clk")),
        parameters_(parameters),
        ports_(ports),
        rng_(seed),
        scripts_(rounds * 30),
        bytes_(static_cast<unsigned>(parameters["BYTES"])),
        lanes_(static_cast<unsigned>(parameters["LANES"])),
        beats_(static_cast<unsigned>(parameters["BEATS"])),
        type_(element_type(0, parameters["ABITS"])),
        cables_(static_cast<std::size_t>(parameters["CONNECTORS"])) {}

  Port clk;
  bool finished() const { return stage_ == Stage::kFinished; }
  int failures() const { return failures_; }
  void drive();
  void sample();

 private:
  enum class Stage { kReset, kDrain, kSetUp, kGreeting, kRunning, kFlush, kCounters, kFinished };
  struct Cable {
    std::vector<Beat> coming;  // words received of the packet under way
    std::deque<std::pair<Beat, bool>> words;
    std::deque<Packet> on_way;  // whole packets in `words`, in order
  };
  struct Write {
    std::uint32_t row, offset, value;
  };

  void fail(const std::string& what) {
    if (++failures_ <= 8)
      std::printf("  %s: script %d, cycle %" PRIu64 ": %s\n", parameters_.row().c_str(), script_number_,
                  cycle_, what.c_str());
  }
  bool high(const char* port) const { return ports_.at(port).get() != 0; }

  std::uint32_t rounded(std::uint32_t size) const { return (size + bytes_ - 1) / bytes_ * bytes_; }
  void begin_script();
  void set_up();
  LinkFrame make_frame();
  void watch_cables();
  void packet_sent(Cable& cable);
  std::vector<Beat> words_of(const Packet& packet) const;
  void deliver(Cable& cable, const std::vector<Beat>& words, const Packet& packet);
  void deliver_forged(Cable& cable, Packet packet);
  void send_old(Cable& cable, const Packet& packet);
  bool acknowledge_unsent(Cable& cable, Packet packet);
  void arrived(const Packet& packet);
  void check_session(const Packet& packet);
  void check_data(const Packet& packet);
  void watch_frames();
  void watch_faults();
  void advance();
  void begin_flush();
  void check_counters();
  void finish_script();

  const Parameters& parameters_;
  Ports& ports_;
  Rng rng_;
  int scripts_, script_number_ = 0;
  unsigned bytes_, lanes_, beats_;
  ElementType type_;
  std::vector<Cable> cables_;

  Stage stage_ = Stage::kReset;
  Script script_ = Script::kClean;
  std::uint64_t cycle_ = 0, since_ = 0, flushing_ = 0, resting_ = 0, change_at_ = 0,
                spoilt_from_ = 0;          // the cycle in which memory failed
  std::vector<std::uint64_t> epoch_ends_;  // the cycle in which each earlier epoch ended
  std::uint32_t epoch_ = 0, connector_ = 0, tag_ = 0, packet_bytes_ = 0, credits_ = 0;
  std::uint64_t sequence_ = 0;
  std::deque<Write> writes_;
  // The sender's present session (its time in service since it was last enabled): its generation modulo 256,
  // how many packets it has sent, how many of them reached the receiver, how many were acknowledged, and
  // whether a welcome has arrived.
  std::uint32_t generation_ = 0, session_sent_ = 0, session_arrived_ = 0, acknowledged_ = 0;
  bool welcomed_ = false, session_cut_ = false;
  double sink_pace_ = 0.8;
  bool in_session_ = false, aftermath_ = false, flush_ = false, up_ = true, faulted_ = false, spoilt_ = false,
       ever_faulted_ = false, ever_down_ = false;

  std::deque<LinkFrame> to_give_, on_wire_, to_get_;
  bool offered_ = false, tag_given_ = false;
  std::optional<LinkFrame> begun_;  // the frame whose first beat came but whose tag did not yet
  std::uint64_t begun_at_ = 0;
  std::size_t given_ = 0, got_ = 0, wire_at_ = 0;
  std::uint64_t sent_packets_ = 0, sent_bytes_ = 0, arrived_packets_ = 0, frames_ = 0, faults_ = 0,
                stalls_ = 0;
  std::uint32_t reading_ = 0;
  int failures_ = 0;
};

LinkFrame LinkRow::make_frame() {
  LinkFrame frame;
  frame.sequence = sequence_++;
  frame.epoch = epoch_;
  const Values values = random_values(type_, std::size_t{lanes_} * beats_, rng_);
  frame.beats = to_beats(values, type_, lanes_);
  std::vector<std::byte> stored(values.size() * type_.storage_bytes());
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(&stored[i * type_.storage_bytes()], &values[i], type_.storage_bytes());
  frame.wire.resize(packed_bytes(type_, values.size()));
  pack(type_, stored, std::as_writable_bytes(std::span(frame.wire)));
  return frame;
}

void LinkRow::begin_script() {
  constexpr Script kScripts[] = {Script::kClean,     Script::kClean,    Script::kEpoch,   Script::kEpoch,
                                 Script::kSpoilt,    Script::kLossy,    Script::kDamaged, Script::kLost,
                                 Script::kCableDown, Script::kMismatch, Script::kUnsent};
  script_ = kScripts[rng_.between(0, static_cast<std::int64_t>(std::size(kScripts)) - 1)];
  ++script_number_;
  since_ = cycle_;
  // A channel whose script ended without a fault may stay in service for the next script. Otherwise disable both of its
  // ends, so that its settings can change.
  sink_pace_ = rng_.chance(0.4) ? 0.05 : 0.8;
  const bool goes_on =
      in_session_ && !faulted_ && !spoilt_ && script_ != Script::kMismatch && rng_.chance(0.5);
  aftermath_ = faulted_ || spoilt_;
  faulted_ = spoilt_ = false;
  up_ = true;
  in_session_ = true;
  if (goes_on) {
    stage_ = Stage::kGreeting;
    return;
  }
  for (const std::uint32_t row : {kReceiver, kSender}) writes_.push_back({row, abi::kLinkEnable, 0});
  resting_ = 0;
  stage_ = Stage::kDrain;
}

void LinkRow::set_up() {
  connector_ = static_cast<std::uint32_t>(rng_.between(0, parameters_["CONNECTORS"] - 1));
  tag_ = static_cast<std::uint32_t>(rng_.between(0, 15));
  packet_bytes_ = static_cast<std::uint32_t>(rng_.between(1, parameters_["PACKET"]));
  if (rng_.chance(0.5)) packet_bytes_ = rounded(packet_bytes_);
  const auto room = static_cast<std::int64_t>(static_cast<std::uint32_t>(parameters_["BUFFER"]) * bytes_ /
                                              rounded(packet_bytes_));
  credits_ = static_cast<std::uint32_t>(rng_.between(1, std::min<std::int64_t>(room, parameters_["MOST"])));
  const std::uint32_t first = rng_.chance(0.5) ? kReceiver : kSender;
  for (const std::uint32_t row : {kReceiver, kSender}) {
    writes_.push_back({row, abi::kLinkConnector, connector_});
    writes_.push_back({row, abi::kLinkTag, tag_});
    const bool other = script_ == Script::kMismatch && row == kReceiver;
    writes_.push_back({row, abi::kLinkPacketBytes, packet_bytes_});
    writes_.push_back({row, abi::kLinkCredits, other ? credits_ + 1 : credits_});
  }
  if (rng_.chance(
          0.5)) {  // a connector that does not exist: the row stays out of service until it gets another
    const auto beyond = static_cast<std::uint32_t>(parameters_["CONNECTORS"] + rng_.between(0, 300));
    writes_.push_back({first, abi::kLinkConnector, rng_.chance(0.5) ? 0x8000'0000u + connector_ : beyond});
    writes_.push_back({first, abi::kLinkEnable, 1});
    writes_.push_back({first, abi::kLinkConnector, connector_});  // a row in service would ignore this write
  }
  writes_.push_back({first, abi::kLinkEnable, 1});
  writes_.push_back({1 - first, abi::kLinkEnable, 1});
  writes_.push_back({first, abi::kLinkTag, 99});  // must be ignored, because the row is in service
  generation_ = (generation_ + 1) % 256;
  session_sent_ = session_arrived_ = acknowledged_ = 0;
  welcomed_ = session_cut_ = false;
  stage_ = Stage::kSetUp;
}

void LinkRow::drive() {
  ports_.at("rst").set(stage_ == Stage::kReset);
  ports_.at("flush").set(flush_);
  ports_.at("spoilt").set(spoilt_from_ != 0);
  ports_.at("card_epoch").set(epoch_);
  ports_.at("now").set(cycle_);
  ports_.at("up").set(up_ ? ~std::uint64_t{0} : 0);
  const bool writing = stage_ != Stage::kReset && !writes_.empty() && rng_.chance(0.3);
  ports_.at("link_write").set(writing);
  if (writing) {
    const Write& w = writes_.front();
    ports_.at("link_waddr").set(abi::kLinkTable + w.row * abi::kLinkRowBytes + w.offset);
    ports_.at("link_wdata").set(w.value);
    writes_.pop_front();
  }
  ports_.at("link_raddr").set(reading_);

  std::uint64_t ready = 0, valid = 0, last = 0;
  for (std::size_t c = 0; c < cables_.size(); ++c) {
    Cable& cable = cables_[c];
    if (up_ && rng_.chance(0.8)) ready |= std::uint64_t{1} << c;  // a cable that is down takes nothing
    if (!cable.words.empty() && rng_.chance(0.7)) {
      valid |= std::uint64_t{1} << c;
      if (cable.words.front().second) last |= std::uint64_t{1} << c;
      ports_.at("rx_data").write(static_cast<unsigned>(c) * bytes_ * 8, cable.words.front().first);
      if (cable.words.front().second) {
        arrived(cable.on_way.front());
        cable.on_way.pop_front();
      }
      cable.words.pop_front();
    }
  }
  ports_.at("tx_ready").set(ready);
  ports_.at("rx_valid").set(valid);
  ports_.at("rx_last").set(last);

  offered_ = offered_ || (!to_give_.empty() && rng_.chance(0.8));
  ports_.at("in_valid").set(offered_);
  if (offered_) ports_.at("in_data").write(0, to_give_.front().beats.at(given_));
  const bool tagged = !to_give_.empty() && (tag_given_ || given_ > 0 || rng_.chance(0.5));
  tag_given_ = tagged;
  ports_.at("in_tag_valid").set(tagged);
  if (tagged) {
    Beat tag(160);
    tag.set(0, 32, to_give_.front().epoch);
    tag.set(32, 64, to_give_.front().sequence);
    tag.set(96, 64, 0x1234);
    ports_.at("in_tag_data").write(0, tag);
  }
  ports_.at("out_ready").set(rng_.chance(sink_pace_));
  ports_.at("out_tag_ready").set(rng_.chance(0.3));
}

void LinkRow::sample() {
  ++cycle_;
  if (stage_ == Stage::kReset) {
    if (cycle_ >= 4) begin_script();
    return;
  }
  watch_cables();
  watch_frames();
  watch_faults();
  advance();
}

void LinkRow::watch_cables() {
  for (std::size_t c = 0; c < cables_.size(); ++c) {
    const auto bit = [&](const char* port) { return (ports_.at(port).get() >> c & 1u) != 0; };
    Cable& cable = cables_[c];
    if (!up_) {
      if (bit("tx_valid")) fail("offered to a cable that is down");
      cable.coming.clear();  // the rest of a packet that was cut off is lost too
      ever_down_ = session_cut_ = true;
    }
    if (!bit("tx_valid") || !bit("tx_ready")) continue;
    cable.coming.push_back(ports_.at("tx_data").read(static_cast<unsigned>(c) * bytes_ * 8, bytes_ * 8));
    if (bit("tx_last")) {
      if (c != connector_ && stage_ != Stage::kDrain) fail("a packet on another connector");
      packet_sent(cable);
      cable.coming.clear();
    }
  }
}

/// Checks a packet that was sent completely. Then delivers, loses or damages the packet.
void LinkRow::packet_sent(Cable& cable) {
  Packet packet;
  for (std::size_t i = 0; i + 1 < cable.coming.size(); ++i)
    for (unsigned b = 0; b < bytes_; ++b)
      packet.bytes.push_back(static_cast<std::uint8_t>(cable.coming[i].get(8 * b, 8)));
  if (packet.bytes.size() < 32) return fail("a packet shorter than its header");
  if (cable.coming.back().get(0, 32) != crc32(packet.bytes)) fail("a wrong CRC");
  check_session(packet);
  if (packet.kind() == kData) check_data(packet);

  std::vector<Beat> words = cable.coming;
  const bool data = packet.kind() == kData, hit = !spoilt_ && rng_.chance(0.2);
  if (script_ == Script::kLossy && !data && rng_.chance(0.4)) return;
  if (script_ == Script::kLost && data && hit) {
    spoilt_ = true;
    return;
  }
  if (script_ == Script::kUnsent && packet.kind() == kTaken) {
    // The script forges one acknowledgement. Once that is done, drop the later ones, because only the forged
    // one may cause the fault.
    if ((spoilt_ && !faulted_) || acknowledge_unsent(cable, packet)) return;
  }
  send_old(cable, packet);
  if (script_ == Script::kDamaged && data && hit) {
    spoilt_ = true;
    packet.set(0, 1, 0);  // counts as no packet of any kind
    if (rng_.chance(0.3) && words.size() > 2) {
      words.pop_back();  // cut short
    } else {
      const auto word =
          static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(words.size()) - 1));
      const auto bits = word + 1 == words.size() ? 31 : static_cast<std::int64_t>(bytes_) * 8 - 1;
      const auto at = static_cast<unsigned>(rng_.between(0, bits));
      words[word].set(at, 1, words[word].get(at, 1) ^ 1u);
    }
  } else if (data) {
    ++arrived_packets_;
  }
  deliver(cable, words, packet);
}

std::vector<Beat> LinkRow::words_of(const Packet& packet) const {
  std::vector<Beat> words;
  for (std::size_t at = 0; at < packet.bytes.size(); at += bytes_) {
    Beat& word = words.emplace_back(bytes_ * 8);
    for (unsigned b = 0; b < bytes_; ++b) word.set(8 * b, 8, packet.bytes[at + b]);
  }
  words.emplace_back(bytes_ * 8).set(0, 32, crc32(packet.bytes));
  return words;
}

void LinkRow::deliver(Cable& cable, const std::vector<Beat>& words, const Packet& packet) {
  for (std::size_t i = 0; i < words.size(); ++i) cable.words.emplace_back(words[i], i + 1 == words.size());
  cable.on_way.push_back(packet);
}

/// Delivers a packet that no module has sent. The bench does not count it as sent or acknowledged.
void LinkRow::deliver_forged(Cable& cable, Packet packet) {
  const std::vector<Beat> words = words_of(packet);
  packet.set(0, 1, 0);
  deliver(cable, words, packet);
}

/// Sometimes delivers a packet of an earlier generation before `packet`, as if it had been delayed in the cable. The
/// packet fits the present state of sender and receiver except for its generation, so only the generation can tell them
/// to ignore it.
void LinkRow::send_old(Cable& cable, const Packet& packet) {
  if (stage_ == Stage::kDrain || !rng_.chance(0.2) || packet.field(3, 1) != generation_) return;
  Packet old = packet;
  old.set(3, 1, (generation_ + 256 - static_cast<std::uint64_t>(rng_.between(1, 3))) % 256);
  if (packet.kind() == kGreeting) {
    old.set(0, 1, kWelcome);
    old.set(8, 8, 0);
    deliver_forged(cable, old);
  } else if (packet.kind() == kData && rng_.chance(0.5)) {
    old.bytes[32] ^= 1u;  // another payload
    deliver_forged(cable, old);
  } else if (packet.kind() == kData) {
    old.bytes.resize(32);
    for (std::size_t at = 2; at < 32; ++at)
      if (at != 3) old.set(at, 1, 0);
    old.set(0, 1, kTaken);
    old.set(24, 4, session_sent_);  // would free all credit
    deliver_forged(cable, old);
  }
}

/// Sometimes delivers an acknowledgement of packets that the sender has not sent, instead of `packet`. If the sender
/// cannot have begun another packet, the acknowledgement is for exactly one packet too many. Returns whether it did so.
bool LinkRow::acknowledge_unsent(Cable& cable, Packet packet) {
  if (spoilt_ || packet.field(3, 1) != generation_ || stage_ != Stage::kRunning) return false;
  const bool alone = std::none_of(cable.on_way.begin(), cable.on_way.end(),
                                  [](const Packet& other) { return other.kind() == kTaken; });
  const bool starved = alone && session_sent_ - acknowledged_ == credits_;
  const bool at_rest = starved || (to_give_.empty() && on_wire_.empty());
  if (!rng_.chance(at_rest ? 0.7 : 0.1)) return false;
  packet.set(24, 4, session_sent_ + (at_rest ? 1u : 1000u));
  deliver_forged(cable, packet);
  spoilt_ = true;
  return true;
}

/// Records what the receiver or the sender learns from this packet, whose last word it gets in this cycle.
void LinkRow::arrived(const Packet& packet) {
  if (packet.field(3, 1) != generation_ || packet.field(1, 1) != tag_) return;
  if (packet.kind() == kWelcome) welcomed_ = true;
  if (packet.kind() == kData) ++session_arrived_;
  if (packet.kind() == kTaken) acknowledged_ = static_cast<std::uint32_t>(packet.field(24, 4));
}

/// Checks generation, number and credit of a packet.
void LinkRow::check_session(const Packet& packet) {
  const auto number = static_cast<std::uint32_t>(packet.field(24, 4));
  if (packet.kind() == kTaken) {
    // A receiver that has not got the new greeting yet may repeat its last acknowledgement.
    if (packet.field(3, 1) == generation_ && number > session_arrived_)
      fail("an acknowledgement of packets that have not arrived");
    return;
  }
  if (packet.kind() == kWelcome) return;
  if (packet.field(3, 1) != generation_) fail("a packet of another generation");
  if (packet.kind() != kData) return;
  if (!welcomed_) fail("data before the receiver's welcome");
  // Packets that were cut off when the cable went down are missing, so their numbers may be skipped.
  if (number < session_sent_ || (number > session_sent_ && !session_cut_)) fail("a wrong number");
  if (number - acknowledged_ >= credits_) fail("a packet without credit");
  session_sent_ = number + 1;
}

void LinkRow::check_data(const Packet& packet) {
  const std::uint64_t length = packet.field(4, 4), offset = packet.field(20, 4);
  ++sent_packets_;
  sent_bytes_ += length;
  if (spoilt_from_ != 0 && cycle_ - spoilt_from_ > kBegun) fail("a packet began after memory had failed");
  if (packet.field(16, 4) != epoch_) {  // the flush did not stop this packet
    const std::uint64_t epoch = packet.field(16, 4);
    if (epoch >= epoch_ends_.size() || cycle_ - epoch_ends_[epoch] > 2000) fail("a packet of another epoch");
    return;
  }
  if (packet.field(1, 1) != tag_) fail("a packet with another tag");
  if (packet.bytes.size() != 32 + (length + bytes_ - 1) / bytes_ * bytes_) return fail("a wrong length");
  if (length == 0 || length > rounded(packet_bytes_)) fail("a packet too large");
  // A flush can cut off frames on the cable. Remove all frames before the frame of this packet. If a frame was removed,
  // this packet must begin at byte 0 of its frame.
  while (!on_wire_.empty() && on_wire_.front().sequence != packet.field(8, 8)) {
    on_wire_.pop_front();
    wire_at_ = 0;
  }
  if (on_wire_.empty()) return fail("a packet of no frame");
  const LinkFrame& frame = on_wire_.front();
  if (offset != wire_at_) return fail("a packet out of order");
  if (offset + length > frame.wire.size()) return fail("more than the frame");
  if (!std::equal(frame.wire.begin() + static_cast<std::ptrdiff_t>(offset),
                  frame.wire.begin() + static_cast<std::ptrdiff_t>(offset + length),
                  packet.bytes.begin() + 32))
    fail("wrong payload");
  for (std::size_t i = 32 + length; i < packet.bytes.size(); ++i)
    if (packet.bytes[i] != 0) fail("a packet is not filled with zeros");
  wire_at_ += length;
  const bool last = wire_at_ == frame.wire.size();
  if (packet.field(2, 1) != (last ? 1u : 0u)) fail("the last packet's mark");
  if (last) {
    on_wire_.pop_front();
    wire_at_ = 0;
  }
}

void LinkRow::watch_frames() {
  if (high("in_tag_valid") && high("in_tag_ready")) {
    if (given_ + 1 != beats_) fail("the tag was taken before the last beat of its frame");
    tag_given_ = false;
  } else if (offered_ && high("in_ready") && given_ + 1 == beats_) {
    fail("a frame taken without its tag");
  }
  if (offered_ && high("in_ready")) {
    offered_ = false;
    if (given_ == 0) {
      on_wire_.push_back(to_give_.front());
      to_get_.push_back(to_give_.front());
    }
    if (++given_ == beats_) {
      given_ = 0;
      to_give_.pop_front();
    }
  }
  if (high("out_tag_valid") && high("out_tag_ready")) {
    const Beat got = ports_.at("out_tag_data").read();
    if (!begun_)
      fail("a tag before its frame");
    else if (got.get(0, 32) != begun_->epoch || got.get(32, 64) != begun_->sequence)
      fail("a wrong tag");
    else if (got.get(96, 64) != begun_at_)
      fail("a tag with another time");
    begun_.reset();
  }
  if (high("out_valid") && high("out_ready")) {
    if (to_get_.empty()) return fail("a beat of no frame");
    if (got_ == 0) {
      if (begun_) fail("a frame begins before the tag of the previous frame was taken");
      begun_ = to_get_.front();
      begun_at_ = cycle_ - 1;
    }
    if (ports_.at("out_data").read() != to_get_.front().beats.at(got_)) fail("a wrong beat");
    if (++got_ == beats_) {
      got_ = 0;
      ++frames_;
      to_get_.pop_front();
    }
  }
}

void LinkRow::watch_faults() {
  if (!high("fault") || (aftermath_ && stage_ == Stage::kDrain)) return;
  const std::uint64_t code = ports_.at("fault_code").get();
  const bool expected =
      script_ == Script::kCableDown  ? code == 2 && !up_
      : script_ == Script::kMismatch ? code == 3 && ports_.at("fault_link").get() == kReceiver
      : script_ == Script::kUnsent   ? code == 3 && ports_.at("fault_link").get() == kSender && spoilt_
                                     : code == 3 && spoilt_;
  if (!expected) fail("a fault of code " + std::to_string(code));
  if (!faulted_) {
    ++faults_;
    change_at_ = cycle_ + static_cast<std::uint64_t>(rng_.between(0, 600));  // the host reacts with a delay
  }
  faulted_ = ever_faulted_ = true;
}

void LinkRow::begin_flush() {
  ++epoch_;
  flush_ = true;
  epoch_ends_.push_back(cycle_);
  flushing_ = 0;
  stage_ = Stage::kFlush;
}

void LinkRow::advance() {
  if (cycle_ - since_ > kPatience) {
    fail("nothing moves");
    stage_ = Stage::kFinished;
    return;
  }
  reading_ = abi::kLinkTable + kSender * abi::kLinkRowBytes + abi::kLinkStatus;
  switch (stage_) {
    case Stage::kDrain: {
      const bool rest =
          writes_.empty() && std::all_of(cables_.begin(), cables_.end(), [](const Cable& cable) {
            return cable.coming.empty() && cable.words.empty();
          });
      resting_ = rest ? resting_ + 1 : 0;
      if (resting_ > 100) set_up();
      return;
    }
    case Stage::kSetUp:
      if (!writes_.empty()) return;
      if (script_ == Script::kMismatch && !faulted_) return;
      if (script_ == Script::kMismatch) return begin_flush();
      stage_ = Stage::kGreeting;
      return;
    case Stage::kGreeting: {
      if (ports_.at("link_raddr").get() != reading_ || ports_.at("link_rdata").get() != 3) return;
      const auto frames = rng_.between(1, 8);
      for (int i = 0; i < frames; ++i) to_give_.push_back(make_frame());
      change_at_ = cycle_ + static_cast<std::uint64_t>(
                                rng_.between(1, static_cast<std::int64_t>(beats_) * frames * 3));
      stage_ = Stage::kRunning;
      return;
    }
    case Stage::kRunning:
      if (script_ == Script::kCableDown && cycle_ >= change_at_) {
        up_ = false;
        if (faulted_) begin_flush();
      } else if (script_ == Script::kEpoch && cycle_ >= change_at_) {
        begin_flush();
      } else if (script_ == Script::kSpoilt) {
        if (spoilt_from_ == 0 && cycle_ >= change_at_) spoilt_from_ = cycle_;
        if (spoilt_from_ != 0 && cycle_ - spoilt_from_ > 3 * kBegun) begin_flush();
      } else if (script_ == Script::kDamaged || script_ == Script::kLost) {
        // If the very last packet of a script is lost, only the host can notice.
        if ((faulted_ && cycle_ >= change_at_) || (spoilt_ && cycle_ - since_ > kPatience / 2) ||
            (to_give_.empty() && to_get_.empty()))
          begin_flush();
      } else if (script_ == Script::kUnsent && spoilt_) {
        if (faulted_ && cycle_ >= change_at_) begin_flush();  // without a fault, the script fails
      } else if (to_give_.empty() && to_get_.empty()) {
        finish_script();
      }
      return;
    case Stage::kFlush:
      // Act like mr_control: wait until all units are quiet, reset the dataflow, then release all units.
      if (++flushing_ < 4 || !high("quiet")) return;
      flush_ = false;
      spoilt_from_ = 0;
      offered_ = tag_given_ = false;
      begun_.reset();
      given_ = got_ = wire_at_ = 0;
      to_give_.clear();
      to_get_.clear();
      on_wire_.clear();
      finish_script();
      return;
    case Stage::kCounters:
      check_counters();
      return;
    default:
      return;
  }
}

void LinkRow::finish_script() {
  if (script_number_ < scripts_) return begin_script();
  stage_ = Stage::kCounters;
  since_ = cycle_;
}

/// Reads one register per cycle after the last packets have arrived.
void LinkRow::check_counters() {
  struct Expected {
    std::uint32_t row, offset;
    std::uint64_t value;
  };
  const Expected wanted[] = {{kSender, abi::kLinkPacketsLow, sent_packets_},
                             {kSender, abi::kLinkBytesLow, sent_bytes_},
                             {kSender, abi::kLinkPacketsHigh, 0},
                             {kReceiver, abi::kLinkPacketsLow, arrived_packets_},
                             {kReceiver, abi::kLinkTag, tag_},
                             {kReceiver, abi::kLinkConnector, connector_},
                             {kReceiver, abi::kLinkPacketBytes, packet_bytes_},
                             {kSender, abi::kLinkStallsLow, 0}};
  constexpr std::uint64_t kRest = 3000;
  const std::uint64_t step = cycle_ - since_;
  if (step < kRest) return;
  const std::size_t i = step - kRest;
  if (i > 0) {
    const Expected& e = wanted[i - 1];
    const std::uint64_t got = ports_.at("link_rdata").get();
    if (e.row == kSender && e.offset == abi::kLinkStallsLow) {
      stalls_ = got;
      if (got > sent_packets_) fail("more stalls than packets");
    } else if (e.offset == abi::kLinkPacketsLow && e.row == kReceiver && ever_faulted_) {
      if (got > e.value) fail("more packets than came");
    } else if (ever_down_ && e.row == kSender && got >= e.value) {
      // The sender also counts packets that were lost when their cable went down.
    } else if (got != e.value) {
      fail("register " + std::to_string(e.offset) + " of row " + std::to_string(e.row) + " says " +
           std::to_string(got) + ", expected " + std::to_string(e.value));
    }
  }
  if (i == std::size(wanted)) {
    stage_ = Stage::kFinished;
    std::printf("  %-8s %s: %d scripts, %" PRIu64 " frames, %" PRIu64 " packets, %" PRIu64
                " faults told, %" PRIu64 " stalls, %" PRIu64 " cycles\n",
                parameters_.row().c_str(), failures_ == 0 ? "ok" : "FAILED", script_number_, frames_,
                sent_packets_, faults_, stalls_, cycle_);
    return;
  }
  reading_ = abi::kLinkTable + wanted[i].row * abi::kLinkRowBytes + wanted[i].offset;
}

int run_link_bench(std::uint64_t seed, int rounds) {
  const auto& parameters = model_rows();
  const auto model = make_model();
  std::vector<std::unique_ptr<LinkRow>> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    rows.push_back(std::make_unique<LinkRow>(parameters[i], model->ports(i), seed * 1000 + i, rounds));
  for (;;) {
    std::vector<LinkRow*> active;
    for (auto& row : rows) {
      if (!row->finished()) active.push_back(row.get());
    }
    if (active.empty()) break;
    for (LinkRow* row : active) row->drive();
    model->eval();
    for (LinkRow* row : active) {
      row->sample();
      row->clk.set(1);
    }
    model->eval();
    for (LinkRow* row : active) row->clk.set(0);
  }
  model->final();
  int failures = 0;
  for (const auto& row : rows) failures += row->failures();
  return failures;
}

}  // namespace

void add_link_bench(Benches& benches) {
  benches["mr_link"] = run_link_bench;
}

}  // namespace millrace::kernels::tb
