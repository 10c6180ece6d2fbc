#include "compiler/generators/timing_units.hpp"

#include <algorithm>
#include <bit>
#include <deque>

#include "compiler/generators/plugin.hpp"
#include "compiler/generators/timing.hpp"
#include "compiler/generators/timing_windows.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators {
namespace {

/// `s_ready = en`, what is taken comes out `delay` enabled clocks later (delay 1: only m_valid is a
/// register).
class Pipeline {
 public:
  Pipeline(Wire& in, Wire& out, unsigned delay) : in_(in), out_(out), stages_(delay - 1) {}
  void accept() { in_.ready = enabled(); }
  void tick() {
    if (enabled()) shift(in_.valid);
  }

 protected:
  bool enabled() const { return !out_.valid || out_.ready; }
  void shift(bool token) {
    flags_ = flags_ << 1 | (token ? 1U : 0U);
    out_.valid = (flags_ >> stages_ & 1U) != 0;
  }
  Wire &in_, &out_;

 private:
  unsigned stages_;
  std::uint64_t flags_ = 0;
};

class Skid {
 public:
  Skid(Wire& in, Wire& out) : in_(in), out_(out) {}
  void accept() { in_.ready = !spare_; }
  void tick() {
    if (!out_.valid || out_.ready) {
      out_.valid = spare_ || in_.valid;
      spare_ = false;
    } else if (in_.valid) {
      spare_ = true;
    }
  }

 private:
  Wire &in_, &out_;
  bool spare_ = false;
};

class Fifo {
 public:
  Fifo(Wire& in, Wire& out, std::uint64_t depth) : in_(in), out_(out), depth_(depth) {}
  void accept() { in_.ready = count_ != depth_; }
  void tick() {
    high_water_ = std::max(high_water_, count_ + (out_.valid ? 1 : 0));
    const bool enabled = !out_.valid || out_.ready, read = enabled && count_ != 0;
    const bool write = in_.moves();
    if (enabled) out_.valid = count_ != 0;
    count_ += (write ? 1U : 0U);
    count_ -= (read ? 1U : 0U);
  }
  std::uint64_t high_water() const { return high_water_; }

 private:
  Wire &in_, &out_;
  std::uint64_t depth_, count_ = 0, high_water_ = 0;
};

class AdapterUp : public Pipeline {
 public:
  AdapterUp(Wire& in, Wire& out, std::uint64_t n) : Pipeline(in, out, 1), n_(n) {}
  void tick() {
    if (!enabled()) return;
    const bool whole = in_.valid && ++have_ == n_;
    if (whole) have_ = 0;
    shift(whole);
  }

 private:
  std::uint64_t n_, have_ = 0;
};

class AdapterDown {
 public:
  AdapterDown(Wire& in, Wire& out, std::uint64_t n) : in_(in), out_(out), n_(n) {}
  void accept() { in_.ready = !out_.valid || (out_.ready && left_ == 0); }
  void tick() {
    if (in_.moves()) {
      out_.valid = true;
      left_ = n_ - 1;
    } else if (out_.ready) {
      out_.valid = out_.valid && left_ != 0;
      if (left_ != 0) --left_;
    }
  }

 private:
  Wire &in_, &out_;
  std::uint64_t n_, left_ = 0;
};

class AdapterAny {
 public:
  AdapterAny(Wire& in, Wire& out, std::uint64_t s, std::uint64_t m) : in_(in), out_(out), s_(s), m_(m) {}
  void accept() { in_.ready = stay() < m_; }
  void tick() {
    count_ = stay() + (in_.moves() ? s_ : 0);
    out_.valid = count_ >= m_;
  }

 private:
  std::uint64_t stay() const { return out_.moves() ? count_ - m_ : count_; }
  Wire &in_, &out_;
  std::uint64_t s_, m_, count_ = 0;
};

/// mr_fork and mr_split.
class Fork {
 public:
  Fork(Wire& in, std::vector<Wire*> out) : in_(in), out_(std::move(out)), served_(out_.size(), false) {}
  void offer() {
    for (std::size_t i = 0; i < out_.size(); ++i) out_[i]->valid = in_.valid && !served_[i];
  }
  void accept() {
    in_.ready = true;
    for (std::size_t i = 0; i < out_.size(); ++i) in_.ready = in_.ready && (served_[i] || out_[i]->ready);
  }
  void tick() {
    for (std::size_t i = 0; i < out_.size(); ++i)
      served_[i] = !in_.moves() && (served_[i] || (in_.valid && out_[i]->ready));
  }

 private:
  Wire& in_;
  std::vector<Wire*> out_;
  std::vector<bool> served_;
};

class Join {
 public:
  Join(std::vector<Wire*> in, Wire& out) : in_(std::move(in)), out_(out) {}
  void offer() {
    out_.valid = std::all_of(in_.begin(), in_.end(), [](const Wire* w) { return w->valid; });
  }
  void accept() {
    for (Wire* w : in_) w->ready = out_.moves();
  }
  void tick() {}

 private:
  std::vector<Wire*> in_;
  Wire& out_;
};

/// Bare wires, and adapters between equal widths.
class Through {
 public:
  Through(Wire& in, Wire& out) : in_(in), out_(out) {}
  void offer() { out_.valid = in_.valid; }
  void accept() { in_.ready = out_.ready; }
  void tick() {}

 private:
  Wire &in_, &out_;
};

class Add {
 public:
  Add(Wire& a, Wire& b, Wire& out) : a_(a), b_(b), out_(out) {}
  void accept() {
    const bool en = !out_.valid || out_.ready;
    a_.ready = en && b_.valid;
    b_.ready = en && a_.valid;
  }
  void tick() {
    if (out_.valid && !out_.ready) return;
    flags_ = flags_ << 1 | (a_.valid && b_.valid ? 1U : 0U);
    out_.valid = (flags_ >> 2 & 1U) != 0;
  }

 private:
  Wire &a_, &b_, &out_;
  unsigned flags_ = 0;
};

class Concat {
 public:
  Concat(Wire& a, Wire& b, Wire& out, std::uint64_t first, std::uint64_t second)
      : a_(a), b_(b), out_(out), first_(first), all_(first + second) {}
  void accept() {
    const bool en = !out_.valid || out_.ready;
    a_.ready = en && at_ < first_;
    b_.ready = en && at_ >= first_;
  }
  void tick() {
    if (out_.valid && !out_.ready) return;
    out_.valid = (at_ < first_ ? a_ : b_).valid;
    if (out_.valid && ++at_ == all_) at_ = 0;
  }

 private:
  Wire &a_, &b_, &out_;
  std::uint64_t first_, all_, at_ = 0;
};

/// The weights of a matrix unit, a line a step: from a table, always there, or from a reader.
class Lines {
 public:
  Lines() = default;
  Lines(const ReaderTiming& reader, std::uint64_t lines)
      : lines_(lines),
        wait_after_line_(reader.line_cycles - 1),
        wait_after_pass_(reader.pass_cycles - lines * reader.line_cycles) {}
  bool there() const { return wait_ == 0; }
  void tick(bool taken) {
    if (wait_ != 0) --wait_;
    if (!taken || lines_ == 0) return;
    wait_ = wait_after_line_;
    if (++at_ < lines_) return;
    at_ = 0;
    wait_ += wait_after_pass_;
  }

 private:
  std::uint64_t lines_ = 0, wait_after_line_ = 0, wait_after_pass_ = 0, at_ = 0, wait_ = 0;
};

/// mr_mvu, or mr_mvu_streamed, where each vector is used once.
class MatrixOnce : public Pipeline {
 public:
  MatrixOnce(Wire& in, Wire& out, unsigned delay, std::uint64_t sf, Lines lines)
      : Pipeline(in, out, delay), lines_(lines), sf_(sf) {}
  void accept() { in_.ready = enabled() && lines_.there(); }
  void tick() {
    const bool en = enabled(), step = in_.moves(), whole = step && ++at_ == sf_;
    lines_.tick(step);
    if (whole) at_ = 0;
    if (en) shift(whole);
  }

 private:
  Lines lines_;
  std::uint64_t sf_, at_ = 0;
};

/// The same where it is kept for NF passes.
class MatrixBuffered : public Pipeline {
 public:
  MatrixBuffered(Wire& in, Wire& out, unsigned delay, std::int64_t sf, std::int64_t nf, std::int64_t room,
                 Lines lines)
      : Pipeline(in, out, delay), lines_(lines), sf_(sf), nf_(nf), room_(room) {}
  void accept() { in_.ready = held_ != room_; }
  void tick() {
    const bool write = in_.moves(), en = enabled();
    const bool step = en && ahead_ != 0 && lines_.there(), sf_end = at_ == sf_ - 1, nf_end = pass_ == nf_ - 1;
    lines_.tick(step);
    if (en) shift(step && sf_end);
    held_ += (write ? 1 : 0) - (step && nf_end ? 1 : 0);
    ahead_ += (write ? 1 : 0) - (step ? 1 : 0) + (step && sf_end && !nf_end ? sf_ : 0);
    if (!step) return;
    at_ = sf_end ? 0 : at_ + 1;
    if (sf_end) pass_ = nf_end ? 0 : pass_ + 1;
  }

 private:
  Lines lines_;
  std::int64_t sf_, nf_, room_, at_ = 0, pass_ = 0, held_ = 0, ahead_ = 0;
};

/// mr_vvu and mr_reduce: the last of TAPS rounds over the folds comes out.
class LastRound : public Pipeline {
 public:
  LastRound(Wire& in, Wire& out, unsigned delay, std::uint64_t taps, std::uint64_t folds)
      : Pipeline(in, out, delay), before_((taps - 1) * folds), all_(taps * folds) {}
  void tick() {
    if (!enabled()) return;
    shift(in_.valid && at_ >= before_);
    if (in_.valid && ++at_ == all_) at_ = 0;
  }

 private:
  std::uint64_t before_, all_, at_ = 0;
};

class Pool : public Pipeline {
 public:
  Pool(Wire& in, Wire& out, const Instance& i)
      : Pipeline(in, out, 1),
        px_(parameter(i, "PX", 1)),
        h_(parameter(i, "H", 4)),
        w_(parameter(i, "W", 4) / px_),
        cf_(parameter(i, "CF", 1)),
        kh_(parameter(i, "KH", 2)),
        kw_(parameter(i, "KW", 2) / px_) {}
  void tick() {
    if (!enabled()) return;
    const bool used = x_ < w_ / kw_ * kw_ && y_ < h_ / kh_ * kh_;
    shift(in_.valid && used && x_ % kw_ == kw_ - 1 && y_ % kh_ == kh_ - 1);
    if (!in_.valid || ++c_ < cf_) return;
    c_ = 0;
    if (++x_ < w_) return;
    x_ = 0;
    if (++y_ == h_) y_ = 0;
  }

 private:
  std::int64_t px_, h_, w_, cf_, kh_, kw_, c_ = 0, x_ = 0, y_ = 0;
};

/// A plugin's module as it promised to be: beats are taken no faster than a frame in INTERVAL, the first
/// output beat belongs to the LEADth of the input and the last to the last, each LATENCY later; a frame is
/// kept inside.
class Promised {
 public:
  Promised(Wire& in, Wire& out, const Instance& i, std::uint64_t beats_in, std::uint64_t beats_out)
      : in_(in),
        out_(out),
        interval_(static_cast<std::uint64_t>(parameter(i, "INTERVAL", 1))),
        latency_(static_cast<std::uint64_t>(parameter(i, "LATENCY", 1))),
        lead_(static_cast<std::uint64_t>(parameter(i, "LEAD", 1))),
        beats_in_(beats_in),
        beats_out_(beats_out) {}
  void accept() { in_.ready = now_ >= due_ && pending_.size() <= beats_out_ + latency_; }
  void tick() {
    if (out_.moves()) pending_.pop_front();
    if (in_.moves()) {
      if (taken_ == 0) start_ = now_;
      ++taken_;
      due_ = start_ + taken_ * interval_ / beats_in_;
      for (; given_ < beats_out_ && needed(given_) <= taken_; ++given_) pending_.push_back(now_ + latency_);
      if (taken_ == beats_in_) taken_ = given_ = 0;
    }
    out_.valid = !pending_.empty() && pending_.front() <= now_ + 1;
    ++now_;
  }

 private:
  /// Input beats that output beat k needs.
  std::uint64_t needed(std::uint64_t k) const {
    if (beats_out_ == 1) return beats_in_;
    const std::uint64_t steps = beats_out_ - 1;
    return lead_ + ((beats_in_ - lead_) * k + steps - 1) / steps;
  }

  Wire &in_, &out_;
  std::uint64_t interval_, latency_, lead_, beats_in_, beats_out_;
  std::uint64_t now_ = 0, start_ = 0, due_ = 0, taken_ = 0, given_ = 0;
  std::deque<std::uint64_t> pending_;  // when output beats are there
};

std::unique_ptr<TimingUnit> make_adapter(const Instance& i, Wire& in, Wire& out) {
  const auto s = static_cast<std::uint64_t>(parameter(i, "S_LANES", 1)),
             m = static_cast<std::uint64_t>(parameter(i, "M_LANES", 3));
  if (s == m) return std::make_unique<Played<Through>>(in, out);
  if (m % s == 0) return std::make_unique<Played<AdapterUp>>(in, out, m / s);
  if (s % m == 0) return std::make_unique<Played<AdapterDown>>(in, out, s / m);
  return std::make_unique<Played<AdapterAny>>(in, out, s, m);
}

Lines lines_of(const Netlist& netlist, const Instance& unit) {
  for (const WeightReader& reader : netlist.readers)
    if (reader.unit == unit.name)
      return Lines(reader_timing(reader.instance),
                   static_cast<std::uint64_t>(parameter(reader.instance, "LINES", 1)));
  return Lines();
}

std::unique_ptr<TimingUnit> make_matrix(const Netlist& netlist, const Instance& i, Wire& in, Wire& out) {
  const std::int64_t nf = parameter(i, "MH", 4) / parameter(i, "PE", 2), simd = parameter(i, "SIMD", 2);
  const std::int64_t sf = parameter(i, "MW", 8) / simd;
  const auto delay = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(simd - 1))) + 3;
  const Lines lines = lines_of(netlist, i);
  if (nf == 1)
    return std::make_unique<Played<MatrixOnce>>(in, out, delay, static_cast<std::uint64_t>(sf), lines);
  return std::make_unique<Played<MatrixBuffered>>(in, out, delay, sf, nf, parameter(i, "IBUF", 8), lines);
}

}  // namespace

ReaderTiming reader_timing(const Instance& reader) {
  const auto p = [&](const char* name, std::int64_t otherwise) {
    return static_cast<std::uint64_t>(parameter(reader, name, otherwise));
  };
  const std::uint64_t word = p("DATA_BYTES", 64), lines = p("LINES", 16), bytes = (p("WIDTH", 64) + 7) / 8;
  const bool shared = std::bit_ceil(bytes) < word;
  const std::uint64_t line_words = shared ? 1 : (bytes + word - 1) / word;
  const std::uint64_t a_word = shared ? word / std::bit_ceil(bytes) : 1;
  const std::uint64_t words = shared ? (lines + a_word - 1) / a_word : lines * line_words;
  // A burst is asked for every other cycle at most; one that 4 KiB divides counts as one here.
  const std::uint64_t bursts = (words + p("BURST", 16) - 1) / p("BURST", 16);
  return {line_words, std::max(words * a_word, 2 * bursts),
          5 + (shared           ? 1
               : line_words > 1 ? line_words
                                : 0)};
}

std::unique_ptr<TimingUnit> make_timing_unit(const Netlist& netlist, const Unit& unit,
                                             std::vector<Wire>& wires, bool unlimited_fifos) {
  const Instance& i = unit.instance;
  const auto at = [&](const std::vector<StreamIndex>& streams) {
    std::vector<Wire*> found;
    for (const auto s : streams) found.push_back(&wires[s]);
    return found;
  };
  const auto count = [&](const char* name, std::int64_t otherwise) {
    return static_cast<std::uint64_t>(parameter(i, name, otherwise));
  };
  Wire &in = wires[unit.inputs.front()], &out = wires[unit.outputs.front()];
  if (unit.wiring != Wiring::kNone) return std::make_unique<Played<Through>>(in, out);
  if (i.module == "mr_fifo")
    return std::make_unique<Played<Fifo>>(in, out, unlimited_fifos ? ~std::uint64_t{0} : count("DEPTH", 16));
  if (i.module == "mr_skid") return std::make_unique<Played<Skid>>(in, out);
  if (i.module == "mr_width_adapter") return make_adapter(i, in, out);
  if (i.module == "mr_fork" || i.module == "mr_split")
    return std::make_unique<Played<Fork>>(in, at(unit.outputs));
  if (i.module == "mr_join") return std::make_unique<Played<Join>>(at(unit.inputs), out);
  if (is_matrix_unit(i)) return make_matrix(netlist, i, in, out);
  if (i.module == kPluginModule)
    return std::make_unique<Played<Promised>>(in, out, i, netlist.streams[unit.inputs.front()].beats,
                                              netlist.streams[unit.outputs.front()].beats);
  if (i.module == kUnrolledModule)
    return std::make_unique<Played<Pipeline>>(in, out, static_cast<unsigned>(count("LATENCY", 1)));
  if (i.module == "mr_vvu")
    return std::make_unique<Played<LastRound>>(in, out, 3U, count("TAPS", 9),
                                               count("CHANNELS", 4) / count("PE", 2));
  if (i.module == "mr_reduce")
    return std::make_unique<Played<LastRound>>(in, out, 1U, count("TAPS", 9), count("CF", 1));
  if (i.module == "mr_pool") return std::make_unique<Played<Pool>>(in, out, i);
  if (i.module == "mr_requant") {
    const unsigned extra = (count("MBITS", 17) != 0 ? 1U : 0U) + (count("OFFBITS", 40) != 0 ? 1U : 0U) +
                           (count("ROUND_HALF_EVEN", 0) != 0 ? 1U : 0U);
    return std::make_unique<Played<Pipeline>>(in, out, 2 + extra);
  }
  if (i.module == "mr_threshold")
    return std::make_unique<Played<Pipeline>>(in, out, static_cast<unsigned>(count("OBITS", 4)) + 1);
  if (i.module == "mr_lut") return std::make_unique<Played<Pipeline>>(in, out, 2U);
  if (i.module == "mr_add") return std::make_unique<Played<Add>>(in, wires[unit.inputs[1]], out);
  if (i.module == "mr_concat")
    return std::make_unique<Played<Concat>>(in, wires[unit.inputs[1]], out, count("CF0", 1), count("CF1", 1));
  if (i.module == "mr_swu") return make_folded_window(i, in, out);
  if (i.module == "mr_swu_par") return make_parallel_window(i, in, out);
  return nullptr;
}

}  // namespace millrace::compiler::generators
