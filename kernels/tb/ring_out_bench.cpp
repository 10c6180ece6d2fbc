// Bench of mr_ring_out: a card that sends frames, and a host that reads slots and grants them again. Every frame must
// arrive once and in order, complete as soon as its trailer shows. The unit may write only slots that the host has
// granted, front to back, the trailer last. The host overwrites what it has read, except the mark.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "kernels/tb/ring_row.hpp"

namespace millrace::kernels::tb {
namespace {

class RingOutRow : public RingRow {
 public:
  using RingRow::RingRow;

 private:
  struct Frame {
    Values values;
    std::uint64_t sequence = 0, cycles = 0, stalls = 0;
    bool counted = true;  // the stalls; not if the unit was disabled meanwhile
  };

  void drive_stream() override;
  void sample_stream() override;
  void reset_flow() override {
    sending_ = Frame{};
    beats_.clear();
    sent_ = 0;
    offering_ = tag_offered_ = false;
  }
  void host_cycle() override;
  void begin_session() override {
    read_ = granted_ = 0;
    sequence_ = static_cast<std::uint64_t>(between(0, 1'000'000)) << (rng_.chance(0.2) ? 30 : 0);
    sending_pace_ = rng_.chance(0.3) ? 1.0 : 0.1 * static_cast<double>(between(1, 9));
    spoilt_ = rng_.chance(0.1);
    port("spoilt").set(spoilt_);
  }
  void leave_session() override {
    taken_.clear();
    sending_.counted = false;
    failed_slots_.clear();
    offset_ = 0;
    prepared_ = false;
  }
  void hurry() override { sending_pace_ = 1; }
  bool drained() const override { return taken_.empty() && sent_ == 0; }
  bool host_sees_more_than(std::uint32_t count) override { return phase_shows(count); }
  void slot_written(std::uint64_t address, unsigned bytes) override;
  void write_failed(std::uint64_t address) override {
    for (std::uint32_t i = 0; i < slots_ && i <= written_index_; ++i)
      if (address - slot_address(written_index_ - i) < slot_bytes_) failed_slots_.insert(written_index_ - i);
  }
  std::uint32_t most_index() const override { return written_index_ + 1; }
  void measure() override;
  void misuse() override;

  std::uint64_t mark_word(std::uint32_t index) { return memory_.word(slot_address(index) + slot_bytes_ - 8); }
  bool phase_shows(std::uint32_t index) {
    return ((mark_word(index) ^ abi::ring_mark(index, slots_)) & abi::kRingPhase) == 0;
  }
  struct Times {
    std::uint64_t last_beat = 0, trailer = 0;
  };
  std::vector<Times> full_speed(std::size_t frames);
  void check_slot();
  void next_frame();

  Frame sending_;  // the frame whose beats are next
  Beats beats_;
  std::size_t sent_ = 0;  // beats of it that were taken
  bool offering_ = false, tag_offered_ = false, spoilt_ = false;
  std::uint64_t tag_time_ = 0, sequence_ = 0;
  double sending_pace_ = 0.5;
  std::deque<Frame> taken_;               // by the unit, and not read by the host
  std::uint32_t read_ = 0, granted_ = 0;  // slots that the host has read, that it may grant
  std::uint64_t offset_ = 0;              // bytes of the slot at written_index_ that were written
  bool prepared_ = false;                 // the trailer was written with the wrong phase bit
  std::set<std::uint32_t> failed_slots_;  // a write into them has failed
  std::vector<std::uint64_t> ends_;
  std::optional<std::size_t> frames_to_send_;  // any number if it is empty
};

void RingOutRow::next_frame() {
  sending_ = Frame{random_frame(), sequence_, 0, 0, true};
  beats_ = to_beats(sending_.values, type_, lanes_);
  sequence_ += static_cast<std::uint64_t>(rng_.chance(0.8) ? 1 : between(1, 1000));
  if (frames_to_send_) --*frames_to_send_;
  tag_time_ = now_ - static_cast<std::uint64_t>(between(0, 500));
}

void RingOutRow::drive_stream() {
  const bool more = !finishing_ && frames_to_send_ != 0u;
  if (beats_.empty() && more && enabled_ && traffic_) next_frame();
  const bool some = !beats_.empty();
  tag_offered_ = some && (tag_offered_ || rng_.chance(sending_pace_));
  offering_ = some && (offering_ || rng_.chance(sending_pace_));
  port("t_valid").set(tag_offered_);
  port("s_valid").set(offering_);
  Beat tag(160);
  tag.set(0, 32, card_epoch_);
  tag.set(32, 64, sending_.sequence);
  tag.set(96, 64, tag_time_);
  port("t_data").write(0, tag);
  if (offering_) port("s_data").write(0, beats_[sent_]);
}

void RingOutRow::sample_stream() {
  const bool fired = fires("s_valid", "s_ready");
  if (quiet_ && fired) fail("takes a beat although it is disabled");
  if (port("t_ready").get() != 0 && !(fired && sent_ + 1 == beats_.size()))
    fail("takes a tag without the last beat of its frame");
  if (!fired) {
    if (offering_ && tag_offered_) ++sending_.stalls;
    return;
  }
  offering_ = false;
  if (++sent_ < beats_.size()) return;
  ends_.push_back(cycle_);
  sending_.cycles = now_ - tag_time_;
  taken_.push_back(std::move(sending_));
  reset_flow();
}

void RingOutRow::slot_written(std::uint64_t address, unsigned bytes) {
  const std::uint64_t trailer = slot_bytes_ - 64;
  if (error_seen_ && offset_ == 0) fail("begins a slot after an error");
  if (written_index_ >= rung_) fail("writes a slot that was not granted");
  if (address != slot_address(written_index_) + offset_) fail("writes out of order or outside the ring");
  if (offset_ < trailer && offset_ + bytes > trailer) fail("a burst of payload and trailer");
  if (offset_ == trailer) {
    if (bytes != 64) fail("a trailer of another size");
    if (mode_ == abi::kRingCardMemory && memory_.unanswered_writes() != 0)
      fail("a trailer before memory has acknowledged the payload");
  }
  if (offset_ == trailer && mode_ == abi::kRingCardMemory && !prepared_) {
    prepared_ = true;  // the trailer comes once more, with the right phase bit
    return;
  }
  prepared_ = false;
  offset_ += bytes;
  if (offset_ < slot_bytes_) return;
  offset_ = 0;
  ++written_index_;
}

/// Reads the slot whose phase bit has changed, as a host does: payload and trailer must be complete.
void RingOutRow::check_slot() {
  const std::string name = "slot " + std::to_string(read_);
  std::vector<std::uint8_t> slot(slot_bytes_);
  memory_.load(slot_address(read_), slot.data(), slot.size());
  abi::RingTrailer trailer;
  std::memcpy(&trailer, &slot[slot_bytes_ - 64], sizeof trailer);
  if (taken_.empty()) return fail(name + ": a frame that the card has not sent");
  const Frame frame = std::move(taken_.front());
  taken_.pop_front();
  ++frames_;
  if (trailer.mark != abi::ring_mark(read_, slots_) || trailer.epoch != epoch_) fail(name + ": a wrong mark");
  if (trailer.magic != abi::RingTrailer{}.magic || trailer.payload_bytes != payload_bytes_)
    fail(name + ": no trailer");
  if (trailer.sequence != frame.sequence) fail(name + ": another frame's trailer");
  if (trailer.status != (spoilt_ ? abi::FrameStatus::kFailed : abi::FrameStatus::kOk))
    fail(name + ": a wrong status");
  if (trailer.flags != 0 || trailer.reserved[0] != 0 || trailer.reserved[1] != 0)
    fail(name + ": reserved fields");
  if (trailer.cycles != frame.cycles) fail(name + ": wrong cycles");
  if (frame.counted && trailer.stall_cycles != frame.stalls)
    fail(name + ": " + std::to_string(trailer.stall_cycles) + " stall cycles instead of " +
         std::to_string(frame.stalls));
  auto want = stored(frame.values);
  want.resize(slot_bytes_ - 64);
  // In host memory, the trailer of a slot can be on its way before the answer that says that its payload has failed.
  const bool excused = mode_ == 0 && failed_slots_.contains(read_);
  if (!excused && !std::equal(want.begin(), want.end(), slot.begin())) fail(name + ": wrong bytes");
}

void RingOutRow::host_cycle() {
  if (working() && read_ < rung_ && rng_.chance(0.2) && phase_shows(read_)) {
    check_slot();
    std::vector<std::uint8_t> noise(slot_bytes_ - 8);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(between(0, 255));
    memory_.store(slot_address(read_), noise.data(), noise.size());
    ++read_;
  }
  const bool healthy = expected_error_ == abi::RingError::kNone;
  if (rng_.chance(0.3)) granted_ = read_ + slots_;
  if (healthy && working() && granted_ > rung_ && registers_.idle() && rng_.chance(0.1)) ring(granted_);
  if (working() && registers_.idle() && rng_.chance(0.01)) arm(read_);
}

void RingOutRow::misuse() {
  // Frames that nobody reads: the unit must wait without credit, and lose nothing.
  traffic_ = false;
  steps(between(100, 3000));
  if (written_index_ > rung_) fail("writes without credit");
}

/// Begins a session at full speed, and sends frames until `frames` trailers have come. Returns the cycles of the frames'
/// last beats and of the trailers' addresses.
std::vector<RingOutRow::Times> RingOutRow::full_speed(std::size_t frames) {
  boot(Stop::kDisable, 16);
  memory_.pace = sending_pace_ = 1;
  granted_ = 16;
  ring(16);
  settle();
  steps(50);
  ends_.clear();
  std::vector<Times> times;
  const auto check = memory_.write_asked;
  memory_.write_asked = [this, &times, &check](std::uint64_t address, unsigned bytes) {
    const std::uint32_t before = written_index_;
    check(address, bytes);
    if (written_index_ != before) times.push_back({ends_[times.size()], cycle_});
  };
  frames_to_send_ = frames;
  traffic_ = true;
  until([&] { return times.size() >= frames; }, "for frames at full speed");
  memory_.write_asked = check;
  frames_to_send_.reset();
  drain();
  return times;
}

/// Measures latency and interval at full speed, and compares them with the module's header.
void RingOutRow::measure() {
  // A status record between makes a frame late, so take the least of some lone frames in the first slot.
  auto latency = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 6; ++i) {
    const Times times = full_speed(1)[0];
    latency = std::min(latency, static_cast<std::int64_t>(times.trailer - times.last_beat));
  }
  const std::vector<Times> times = full_speed(40);
  std::vector<std::uint64_t> gaps;
  for (std::size_t i = 8; i < times.size(); ++i) gaps.push_back(times[i].last_beat - times[i - 1].last_beat);
  std::sort(gaps.begin(), gaps.end());  // status records and borders of 4 KiB make some of them longer

  const std::int64_t word = positive(parameters_, "DATA_BYTES"), beat = std::int64_t{lanes_} * element_bytes_;
  const auto bytes = static_cast<std::int64_t>(payload_bytes_),
             burst = std::int64_t{positive(parameters_, "BURST")};
  const std::int64_t payload = (bytes + word - 1) / word, words = (bytes + 63) / 64 * 64 / word,
                     trailer = 64 / word;
  const std::int64_t zero_beats = (payload * word - bytes + beat - 1) / beat, zeros = words - payload;
  const std::int64_t bursts = (words + burst - 1) / burst, last = (words - 1) % burst + 1;
  const std::int64_t beat_words = beat == word ? 0 : (beat + word - 1) / word,
                     word_beats = (word + beat - 1) / beat;
  const std::int64_t busy = bursts > 1 ? std::max<std::int64_t>(0, burst + 1 - last * word_beats) : 0;
  compare("latency", latency, 3 + beat_words + zero_beats + zeros + last + busy);
  compare("interval", static_cast<std::int64_t>(gaps[gaps.size() / 4]),
          std::max(std::max(bytes / beat + zero_beats, payload) + zeros + (beat == word ? 0 : 1),
                   words + bursts + trailer + 1));
  boot(Stop::kDisable);
}

}  // namespace

void add_ring_out_bench(Benches& benches) {
  benches["mr_ring_out"] = run_ring_rows<RingOutRow>;
}

}  // namespace millrace::kernels::tb
