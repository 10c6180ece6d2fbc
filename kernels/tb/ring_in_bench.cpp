// Bench of mr_ring_in: a host that fills slots, and a card that takes the frames. Every element and tag must come once
// and in order. The unit may read only what the host has offered and the unit has not released: the trailer of a slot,
// then its payload, slot after slot. The host overwrites released slots at once.
#include <algorithm>
#include <cstring>

#include "kernels/tb/ring_row.hpp"

namespace millrace::kernels::tb {
namespace {

class RingInRow : public RingRow {
 public:
  RingInRow(const Parameters& parameters, Model& model, Ports& ports, std::uint64_t seed)
      : RingRow(parameters, model, ports, seed) {
    memory_.read_asked = [this](std::uint64_t address, unsigned bytes) { check_read(address, bytes); };
  }

 private:
  struct Frame {
    Values values;
    std::uint64_t sequence = 0;
  };

  void drive_stream() override {
    port("m_ready").set(rng_.chance(taking_));
    port("t_ready").set(rng_.chance(taking_));
  }
  void sample_stream() override;
  void reset_flow() override {
    arrived_.clear();
    tag_due_.reset();
  }
  void host_cycle() override;
  void begin_session() override {
    fed_.clear();
    produced_ = released_ = 0;
    sequence_ = static_cast<std::uint64_t>(between(0, 1'000'000)) << (rng_.chance(0.2) ? 30 : 0);
    taking_ = rng_.chance(0.3) ? 1.0 : 0.1 * static_cast<double>(between(1, 9));
    first_read_ = memory_.reads_delivered();
  }
  void leave_session() override {
    fed_.clear();
    read_slots_ = late_slots_ = 0;
    read_offset_ = 0;
    broken_ = false;
    memory_.read_fails = {};
  }
  void hurry() override { taking_ = 1; }
  bool drained() const override { return fed_.empty() && produced_ == rung_ && released_ == produced_; }
  bool host_sees_more_than(std::uint32_t count) override {
    return static_cast<std::uint32_t>(memory_.word(status_base_ + offsetof(abi::RingStatus, index))) > count;
  }
  void slot_written(std::uint64_t, unsigned) override { fail("writes outside the status record"); }
  void write_failed(std::uint64_t) override {}
  std::uint32_t most_index() const override {
    return static_cast<std::uint32_t>((memory_.reads_delivered() - first_read_) / slot_words());
  }
  void measure() override;
  void misuse() override;

  std::uint64_t word_bytes() const { return positive(parameters_, "DATA_BYTES"); }
  std::uint64_t payload_words() const { return (payload_bytes_ + word_bytes() - 1) / word_bytes(); }
  std::uint64_t slot_words() const { return 64 / word_bytes() + payload_words(); }
  void check_read(std::uint64_t address, unsigned bytes);
  void fill(abi::RingTrailer* trailer = nullptr);
  void wrong_trailer();
  void failing_read();

  std::deque<Frame> fed_;
  std::uint32_t produced_ = 0;  // slots that the host has filled
  std::uint32_t released_ = 0;  // slots that it knows to be read
  std::uint64_t sequence_ = 0, first_read_ = 0;
  double taking_ = 0.5;
  std::uint32_t late_slots_ = 0;   // slots that it has begun to ask for after an error
  std::uint32_t read_slots_ = 0;   // slots that the unit has asked for as a whole
  std::uint64_t read_offset_ = 0;  // bytes of the next slot that it has asked for, the trailer first
  bool broken_ = false;            // what arrives may be wrong: a read has failed
  std::vector<Beat> arrived_;
  std::optional<std::uint64_t> tag_due_;  // time of the first beat of a frame whose tag has not come
  std::uint64_t tag_sequence_ = 0;
  std::vector<std::uint64_t> ends_;  // cycles of the frames' last beats
  std::uint64_t first_beat_ = 0;
};

void RingInRow::check_read(std::uint64_t address, unsigned bytes) {
  const std::uint64_t payload = payload_words() * word_bytes();
  const bool trailer = read_offset_ < 64;
  const std::uint64_t start = slot_address(read_slots_) + read_offset_ + (trailer ? slot_bytes_ : 0) - 64;
  // The read of one more slot can wait for ready when the record goes out.
  if (error_seen_ && read_offset_ == 0 && ++late_slots_ > 1) fail("begins a slot after an error");
  if (read_slots_ >= rung_) fail("reads a slot that was not offered");
  if (address != start) fail("reads out of order");
  if (read_offset_ + bytes > (trailer ? 64 : 64 + payload)) fail("reads beyond its part of a slot");
  read_offset_ += bytes;
  if (read_offset_ == 64 + payload) {
    ++read_slots_;
    read_offset_ = 0;
  }
}

/// Fills the next slot, and gives it this trailer if there is one.
void RingInRow::fill(abi::RingTrailer* wrong) {
  Frame frame{random_frame(), sequence_};
  sequence_ += static_cast<std::uint64_t>(rng_.chance(0.8) ? 1 : between(1, 1000));
  abi::RingTrailer trailer;
  trailer.payload_bytes = static_cast<std::uint32_t>(payload_bytes_);
  trailer.sequence = frame.sequence;
  trailer.mark = abi::ring_mark(produced_, slots_);
  trailer.epoch = epoch_;
  trailer.flags =
      static_cast<std::uint32_t>(between(0, 0xffffffff));  // the card reads neither this nor the rest
  trailer.cycles = trailer.stall_cycles = trailer.reserved[1] =
      static_cast<std::uint64_t>(between(0, 1'000'000));
  if (wrong != nullptr) trailer = *wrong;
  const auto bytes = stored(frame.values);
  memory_.store(slot_address(produced_), bytes.data(), bytes.size());
  memory_.store(slot_address(produced_) + slot_bytes_ - 64, &trailer, sizeof trailer);
  if (wrong == nullptr) fed_.push_back(std::move(frame));
  ++produced_;
}

void RingInRow::host_cycle() {
  if (const std::uint32_t index = known_index(); index > released_) {
    std::vector<std::uint8_t> noise(slot_bytes_);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(between(0, 255));
    for (; released_ < index; ++released_) memory_.store(slot_address(released_), noise.data(), noise.size());
  }
  const bool healthy = expected_error_ == abi::RingError::kNone;
  if (healthy && !finishing_ && working() && produced_ - released_ < slots_ && rng_.chance(0.1)) fill();
  if (healthy && working() && produced_ != rung_ && registers_.idle() && rng_.chance(0.1)) ring(produced_);
  if (working() && registers_.idle() && rng_.chance(0.01)) arm(released_);
}

void RingInRow::sample_stream() {
  if (!enabled_ && quiet_ && port("m_valid").get() != 0) fail("sends although it is disabled");
  if (fires("t_valid", "t_ready")) {
    const Beat tag = port("t_data").read();
    if (!tag_due_) {
      fail("a tag without a frame");
    } else if (tag.get(0, 32) != card_epoch_ || tag.get(32, 64) != tag_sequence_ ||
               tag.get(96, 64) != *tag_due_) {
      fail("a wrong tag");
    }
    tag_due_.reset();
  }
  if (!fires("m_valid", "m_ready")) return;
  if (fed_.empty()) return fail("a beat that the host has not sent");
  if (arrived_.empty()) {
    if (tag_due_) fail("a frame before the tag of the last one was taken");
    tag_due_ = now_;
    tag_sequence_ = fed_.front().sequence;
    if (first_beat_ == 0) first_beat_ = cycle_;
  }
  const Values& values = fed_.front().values;
  const std::size_t from = arrived_.size() * lanes_;
  const Values part(values.begin() + static_cast<std::ptrdiff_t>(from),
                    values.begin() + static_cast<std::ptrdiff_t>(from + lanes_));
  arrived_.push_back(port("m_data").read());
  if (!broken_ && !(arrived_.back() == to_beats(part, type_, lanes_).front())) fail("a wrong beat");
  if (from + lanes_ < values.size()) return;
  ++frames_;
  ends_.push_back(cycle_);
  fed_.pop_front();
  arrived_.clear();
}

void RingInRow::misuse() {
  if (rng_.chance(0.6)) return wrong_trailer();
  failing_read();
}

/// Offers a slot whose trailer no honest host could have written. The frames before it must come, and nothing after it.
void RingInRow::wrong_trailer() {
  drain();
  fill();
  abi::RingTrailer trailer;
  trailer.payload_bytes = static_cast<std::uint32_t>(payload_bytes_);
  trailer.sequence = sequence_;
  trailer.mark = abi::ring_mark(produced_, slots_);
  trailer.epoch = epoch_;
  const std::uint32_t bit = 1u << between(0, 31);
  switch (between(0, 6)) {
    case 0:
      trailer.magic ^= bit;
      break;
    case 1:
      trailer.payload_bytes ^= bit;
      break;
    case 2:
      trailer.sequence =
          fed_.back().sequence - static_cast<std::uint64_t>(rng_.chance(0.5) ? 0 : between(0, 5));
      break;
    case 3:
      trailer.status = static_cast<abi::FrameStatus>(bit);
      break;
    case 4:
      trailer.mark ^= abi::kRingPhase;
      break;
    case 5:
      trailer.mark ^= bit;
      break;
    default:
      trailer.epoch ^= bit;
  }
  if (trailer.sequence > sequence_) trailer.sequence = 0;  // below zero
  const std::uint32_t index = produced_;
  fill(&trailer);
  expect_error(abi::RingError::kTrailer, index);
  ring(produced_);
  until([this] { return fed_.empty(); }, "for the frame before the wrong trailer");
  recover();
}

void RingInRow::failing_read() {
  if (read(abi::kRingRegError) != 0) return;
  int left = static_cast<int>(between(0, 3 * static_cast<std::int64_t>(slot_words())));
  bool failed = false;
  expect_error(abi::RingError::kReadFailed, std::nullopt);
  traffic_ = true;
  // The unit takes every word at once, so each call is about another word.
  memory_.read_fails = [&](std::uint64_t) {
    if (left-- != 0) return false;
    return broken_ = failed = true;
  };
  until(
      [&] {
        if (produced_ - released_ < slots_ && !failed) fill();
        if (produced_ != rung_ && registers_.idle()) ring(produced_);
        return failed;
      },
      "for a read that fails");
  traffic_ = false;
  steps(2);
  expect(port("error").get() != 0, "`error` is low although a read failed");
  recover();
}

/// Measures latency and interval at full speed, and compares them with the module's header.
void RingInRow::measure() {
  boot(Stop::kDisable, 16);
  memory_.pace = taking_ = 1;
  settle();
  while (produced_ < slots_) fill();
  std::uint64_t rung = 0, asked = 0, trailer = 0;
  first_beat_ = 0;
  ends_.clear();
  const std::uint64_t before = memory_.reads_delivered();
  registers_.write(abi::kRingRegDoorbell, abi::ring_doorbell(epoch_, produced_));
  rung_ = produced_;
  observe_ = [&] {
    if (asked == 0 && (fires("axil_awvalid", "axil_awready") || fires("axil_wvalid", "axil_wready")))
      rung = cycle_;
    if (asked == 0 && port("axi_arvalid").get() != 0) asked = cycle_;
    if (trailer == 0 && memory_.reads_delivered() - before == 64 / word_bytes()) trailer = cycle_;
  };
  until([&] { return fed_.empty(); }, "for frames at full speed");
  observe_ = {};
  const auto word = static_cast<std::int64_t>(word_bytes());
  const std::int64_t beat = std::int64_t{lanes_} * element_bytes_, trailer_words = word < 64 ? 64 / word : 0;
  const std::int64_t beat_words = beat == word ? 0 : (beat + word - 1) / word;
  const auto beats = static_cast<std::int64_t>(elements_ / lanes_),
             words = static_cast<std::int64_t>(payload_words());
  compare("latency", static_cast<std::int64_t>(asked - rung), 4);
  compare("latency", static_cast<std::int64_t>(first_beat_ - trailer), 4 + (word < 64 ? 1 : 0) + beat_words);
  compare("interval", static_cast<std::int64_t>(ends_[14] - ends_[6] + 7) / 8,
          std::max(beats, words) + (beat == word ? 2 : 3) + trailer_words);
  drain();

  // Without a receiver, the unit fills its buffer with the slots to come. The last burst may not fit any more.
  boot(Stop::kDisable, 16);
  memory_.pace = 1;
  taking_ = 0;
  while (produced_ < slots_) fill();
  const std::uint64_t buffer = 2 * positive(parameters_, "BURST"), begin = memory_.reads_delivered();
  ring(produced_);
  settle();
  steps(100 + static_cast<std::int64_t>(2 * buffer));
  expect(memory_.reads_delivered() - begin >= std::min(slots_ * slot_words(), buffer / 2),
         "does not read ahead");
  drain();
}

}  // namespace

void add_ring_in_bench(Benches& benches) {
  benches["mr_ring_in"] = run_ring_rows<RingInRow>;
}

}  // namespace millrace::kernels::tb
