// Tests all rows of a model in parallel. Each row runs through all phases on its own clock.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {
namespace {

constexpr std::uint64_t kQuietCycles = 60;  // no beat may come for this long after the last expected one
constexpr std::uint64_t kDeadlockCycles = 40000;  // the longest time in which no beat moves

/// How the bench offers inputs and takes outputs in one phase.
struct Pattern {
  const char* name;
  double offer;            // probability per cycle that a source offers its next beat
  double take;             // probability per cycle that a sink is ready
  bool ready_after_valid;  // the sink waits for valid: deadlock if the module waits for ready
  bool reset_first;        // run for a random number of cycles, reset in mid-stream, then start over
};

constexpr Pattern kPatterns[] = {
    {"full speed", 1.0, 1.0, false, false},       {"ready waits for valid", 1.0, 1.0, true, false},
    {"random stalls", 0.5, 0.5, false, false},    {"slow source", 0.1, 1.0, false, false},
    {"slow sink", 1.0, 0.15, false, false},       {"reset in mid-stream", 0.8, 0.7, false, true},
    {"reset, full speed", 1.0, 1.0, false, true},
};

/// One stream of a row: the stream's ports, and the beats that pass through it in the present phase.
struct Stream {
  std::string name;
  bool input = false;
  Port valid, ready, data;
  unsigned lane = 0;  // bit of valid and ready, and slice of data, that belong to this stream
  unsigned width = 0;

  Beats beats;  // input beats to offer, or expected output beats
  std::vector<std::size_t> frame_end;
  std::size_t next = 0;
  bool offered = false;  // once a source has offered a beat, it keeps offering it
  bool saw_valid = false;
  Beat held;  // the beat that the sink saw before it became ready; the module must keep it

  bool get(const Port& port) const { return (port.get() >> lane & 1u) != 0; }
  void set(const Port& port, bool on) const {
    const std::uint64_t bit = std::uint64_t{1} << lane;
    port.set(on ? port.get() | bit : port.get() & ~bit);
  }
  Beat read() const { return data.read(lane * width, width); }
  void write(const Beat& beat) const { data.write(lane * width, beat); }
};

std::vector<Stream> find_streams(std::map<std::string, Port>& ports) {
  std::vector<Stream> streams;
  for (auto& [name, valid] : ports) {
    if (name.size() < 7 || name.substr(name.size() - 6) != "_valid") continue;
    const std::string stem = name.substr(0, name.size() - 6);
    for (unsigned i = 0; i < valid.bits; ++i) {
      Stream s;
      s.name = valid.bits == 1 ? stem : stem + std::to_string(i);
      s.input = stem[0] == 's' || stem[0] == 'l';
      s.valid = valid;
      s.ready = ports.at(stem + "_ready");
      s.data = ports.at(stem + "_data");
      s.lane = i;
      s.width = s.data.bits / valid.bits;
      streams.push_back(std::move(s));
    }
  }
  return streams;
}

class Row {
 public:
  Row(const Parameters& parameters, std::unique_ptr<Case> test, std::map<std::string, Port>& ports,
      std::uint64_t seed, int rounds)
      : parameters_(parameters),
        case_(std::move(test)),
        rng_(seed),
        rounds_(rounds),
        clk_(ports.at("clk")),
        rst_(ports.at("rst")),
        streams_(find_streams(ports)) {
    loading_ = case_->load();
    state_ = State::kReset;
    start_reset();
  }

  bool finished() const { return state_ == State::kFinished; }
  int failures() const { return failures_; }
  const Port& clk() const { return clk_; }

  /// First half of a cycle: sources offer beats while sinks are not ready. The model then shows outputs that do not
  /// depend on ready.
  void offer() {
    rst_.set(state_ == State::kReset ? 1 : 0);
    for (Stream& s : streams_) {
      if (s.input) {
        const bool may = state_ != State::kReset || rng_.chance(0.3);
        if (!s.offered) s.offered = may && s.next < s.beats.size() && rng_.chance(pattern().offer);
        s.set(s.valid, s.offered);
        if (s.offered) {
          s.write(s.beats[s.next]);
        } else {
          Beat noise(s.width);
          for (unsigned at = 0; at < s.width; at += 32)
            noise.set(at, 32, static_cast<std::uint64_t>(rng_.between(0, 0xffffffff)));
          s.write(noise);
        }
      } else {
        s.set(s.ready, false);
      }
    }
  }

  /// Second half of a cycle: each sink decides whether it is ready.
  void take() {
    for (Stream& s : streams_) {
      if (s.input) continue;
      s.saw_valid = s.get(s.valid);
      if (s.saw_valid) s.held = s.read();
      const bool willing =
          pattern().ready_after_valid ? s.saw_valid && rng_.chance(0.7) : rng_.chance(pattern().take);
      s.set(s.ready, willing);
    }
  }

  /// Takes the results of a cycle. Called after all combinational logic has settled, before the clock rises.
  void sample() {
    ++cycle_;
    if (state_ == State::kReset) {
      for (Stream& s : streams_) s.offered = false;
      if (--remaining_ == 0) start_phase();
      return;
    }
    bool moved = false, complete = true;
    for (Stream& s : streams_) {
      const bool valid = s.get(s.valid), ready = s.get(s.ready);
      if (s.input) {
        if (s.offered && ready) {
          if (first_in_ == 0) first_in_ = cycle_;
          s.offered = false;
          ++s.next;
          moved = true;
        }
      } else {
        if (valid != s.saw_valid || (valid && s.read() != s.held))
          fail(s, "valid or data depends on ready", nullptr, nullptr);
        if (valid && first_out_ == 0) first_out_ = cycle_;
        if (valid && ready) {
          check(s);
          ++s.next;
          moved = true;
        }
      }
      complete = complete && s.next >= s.beats.size();
    }
    quiet_ = moved ? 0 : quiet_ + 1;
    if (state_ == State::kInterrupted) {
      if (--remaining_ == 0) start_reset();
    } else if (complete && quiet_ > kQuietCycles) {
      end_phase();
    } else if (quiet_ > kDeadlockCycles) {
      for (const Stream& s : streams_) {
        std::printf("    %s: %zu of %zu beats\n", s.name.c_str(), s.next, s.beats.size());
      }
      fail(streams_.front(), "deadlock: nothing moves", nullptr, nullptr);
      end_phase();
    }
  }

 private:
  enum class State { kReset, kInterrupted, kRunning, kFinished };

  const Pattern& pattern() const { return kPatterns[phase_]; }

  void start_reset() {
    state_ = State::kReset;
    remaining_ = static_cast<std::uint64_t>(rng_.between(1, 3));
    if (cycle_ == 0) remaining_ = 3;
  }

  void fill() {
    for (Stream& s : streams_) {
      s.beats.clear();
      s.frame_end.clear();
      s.next = 0;
      s.offered = false;
    }
    for (auto& [name, beats] : loading_) stream(name).beats = beats;
    loading_.clear();
    for (int f = 0; f < case_->frames(); ++f) {
      Frame frame = case_->frame(rng_);
      for (auto* side : {&frame.inputs, &frame.outputs}) {
        for (auto& [name, beats] : *side) {
          Stream& s = stream(name);
          s.beats.insert(s.beats.end(), beats.begin(), beats.end());
          s.frame_end.push_back(s.beats.size());
        }
      }
    }
    first_in_ = first_out_ = quiet_ = 0;
    last_beats_.clear();
  }

  void start_phase() {
    const bool loads = !loading_.empty();
    fill();
    state_ = State::kRunning;
    timed_ = !loads && pattern().offer == 1.0 && pattern().take == 1.0 && !pattern().ready_after_valid;
    if (pattern().reset_first && !interrupted_) {
      std::size_t beats = 0;
      for (const Stream& s : streams_) beats = std::max(beats, s.beats.size());
      remaining_ = static_cast<std::uint64_t>(rng_.between(1, static_cast<std::int64_t>(2 * beats + 10)));
      state_ = State::kInterrupted;
      interrupted_ = true;
    }
  }

  void end_phase() {
    if (timed_ && state_ == State::kRunning) check_timing();
    frames_ += case_->frames();
    interrupted_ = false;
    if (++phase_ == std::size(kPatterns)) {
      phase_ = 0;
      if (--rounds_ <= 0) {
        state_ = State::kFinished;
        std::printf("  %-12s %s: %d frames, %" PRIu64 " beats compared, %" PRIu64 " cycles%s\n",
                    parameters_.row().c_str(), failures_ == 0 ? "ok" : "FAILED", frames_, compared_, cycle_,
                    summary_.c_str());
        return;
      }
    }
    start_reset();
  }

  void check(Stream& s) {
    if (s.next >= s.beats.size()) return fail(s, "a beat too many", nullptr, nullptr);
    ++compared_;
    if (s.held != s.beats[s.next]) fail(s, "wrong beat", &s.beats[s.next], &s.held);
    if (std::find(s.frame_end.begin(), s.frame_end.end(), s.next + 1) != s.frame_end.end())
      last_beats_.push_back(cycle_);
  }

  void check_timing() {
    const auto want = case_->timing();
    if (!want || last_beats_.size() < 2) return;
    const auto latency = static_cast<std::int64_t>(first_out_ - first_in_);
    const std::uint64_t outputs = static_cast<std::uint64_t>(
        std::count_if(streams_.begin(), streams_.end(), [](const Stream& s) { return !s.input; }));
    const std::uint64_t interval = last_beats_.back() - last_beats_[last_beats_.size() - 1 - outputs];
    char text[100];
    std::snprintf(text, sizeof text, ", latency %" PRId64 ", interval %" PRIu64, latency, interval);
    summary_ = text;
    if (latency != want->latency_cycles || interval != want->interval_cycles) {
      std::printf("  %s: %s: stated latency %" PRId64 ", interval %" PRIu64 "; measured%s\n",
                  parameters_.row().c_str(), pattern().name, want->latency_cycles, want->interval_cycles,
                  text);
      ++failures_;
    }
  }

  void fail(const Stream& s, const char* what, const Beat* want, const Beat* got) {
    if (++failures_ > 5) return;
    std::printf("  %s: %s: stream %s beat %zu, cycle %" PRIu64 ": %s", parameters_.row().c_str(),
                pattern().name, s.name.c_str(), s.next, cycle_, what);
    if (want != nullptr) std::printf(": expected %s, got %s", want->hex().c_str(), got->hex().c_str());
    std::printf("\n");
  }

  Stream& stream(const std::string& name) {
    for (Stream& s : streams_) {
      if (s.name == name) return s;
    }
    throw std::logic_error("row " + parameters_.row() + ": the model has no stream " + name);
  }

  const Parameters& parameters_;
  std::unique_ptr<Case> case_;
  Rng rng_;
  int rounds_;
  Port clk_, rst_;
  std::vector<Stream> streams_;
  std::map<std::string, Beats> loading_;

  State state_;
  std::size_t phase_ = 0;
  bool interrupted_ = false, timed_ = false;
  std::uint64_t remaining_ = 0, cycle_ = 0, quiet_ = 0, first_in_ = 0, first_out_ = 0, compared_ = 0;
  std::vector<std::uint64_t> last_beats_;
  std::string summary_;
  int failures_ = 0, frames_ = 0;
};

}  // namespace

int run_stream_bench(const MakeCase& make, std::uint64_t seed, int rounds) {
  const auto& parameters = model_rows();
  std::vector<std::unique_ptr<Case>> cases;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Rng rng(seed * 1000 + i);
    cases.push_back(make(parameters[i], rng));
  }
  const auto model = make_model();
  std::vector<std::unique_ptr<Row>> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    rows.push_back(
        std::make_unique<Row>(parameters[i], std::move(cases[i]), model->ports(i), seed * 1000 + i, rounds));
  }
  const auto each = [&rows](auto&& action) {
    bool any = false;
    for (auto& row : rows) {
      if (row->finished()) continue;
      action(*row);
      any = true;
    }
    return any;
  };
  while (each([](Row& row) { row.offer(); })) {
    model->eval();
    each([](Row& row) { row.take(); });
    model->eval();
    std::vector<const Port*> clocks;
    each([&clocks](Row& row) {
      clocks.push_back(&row.clk());
      row.sample();
    });
    for (const Port* clk : clocks) clk->set(1);
    model->eval();
    for (const Port* clk : clocks) clk->set(0);
  }
  model->final();
  int failures = 0;
  for (const auto& row : rows) failures += row->failures();
  return failures;
}

}  // namespace millrace::kernels::tb
