#include <algorithm>

#include "compiler/generators/folded.hpp"
#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators {
namespace {

/// A scan over the padded image, in blocks of PX pixels.
struct ParallelScan : WindowGeometry {
  explicit ParallelScan(const Values& v)
      : WindowGeometry(v),
        px(v["PX"]),
        at_once(px > sw ? px / sw : 1),
        windows(ow / at_once),
        step(sw > px ? sw / px : 1),
        newest(((at_once - 1) * sw + reach_w - 1 - pl) / px),
        blocks(w / px),
        left(ceil_div(pl, px)),
        before(std::max({left, (windows - 1) * step + newest + 1 - blocks, std::int64_t{0}})),
        above(std::max(pt, pb)) {}
  std::int64_t px, at_once;   // pixels of a beat in, windows of a beat out
  std::int64_t windows;       // beats out of a row
  std::int64_t step, newest;  // blocks from one beat out to the next; the first one's last block
  std::int64_t blocks;        // of a row, beside those of padding:
  std::int64_t left, before;  // before its first window; before its first pixel
  std::int64_t above;         // rows of padding
};

/// A scan over the padded image.
class ParallelWindow {
 public:
  ParallelWindow(Wire& in, Wire& out, const Values& v)
      : in_(in), out_(out), s_(v), below_(s_.reach_h - 1 - s_.pt < s_.h) {
    start_rows();
    start_beats();
  }
  void accept() { in_.ready = enabled() && real(); }
  void tick() {
    if (!enabled()) return;
    const bool step = in_.valid || !real();
    const std::int64_t r = t_ >= s_.above ? t_ - s_.above : t_ + s_.h,
                       n = u_ >= s_.before ? u_ - s_.before : u_ + s_.blocks;
    const bool row_hit = below_ && r == next_r_, block_hit = n == next_n_;
    const bool hit = block_hit && (u_ >= s_.before ? row_hit : row_hit_before_);
    out_.valid = valid1_ && emit1_;
    valid1_ = step;
    emit1_ = hit;
    below_ |= t_ >= s_.above;
    if (!step) return;
    if (block_hit) {
      if (beats_left_ == 0) {
        start_beats();
      } else {
        next_n_ += s_.step;
        --beats_left_;
      }
    }
    if (++u_ < s_.before + s_.blocks) return;
    u_ = 0;
    row_hit_before_ = row_hit;
    if (row_hit) {
      if (rows_left_ == 0) {
        start_rows();
      } else {
        next_r_ += s_.sh;
        --rows_left_;
      }
    }
    if (++t_ == s_.above + s_.h) t_ = 0;
  }

 private:
  bool enabled() const { return !out_.valid || out_.ready; }
  bool real() const { return t_ >= s_.above && u_ >= s_.before; }
  void start_rows() {
    next_r_ = s_.reach_h - 1 - s_.pt;
    rows_left_ = s_.oh - 1;
  }
  void start_beats() {
    next_n_ = s_.newest;
    beats_left_ = s_.windows - 1;
  }

  Wire &in_, &out_;
  ParallelScan s_;
  std::int64_t t_ = 0, u_ = 0, next_r_ = 0, next_n_ = 0, rows_left_ = 0, beats_left_ = 0;
  bool row_hit_before_ = false, valid1_ = false, emit1_ = false;
  bool below_;  // rows of padding are below an image; see the module
};

void cost(const Values& v, Features& f) {
  const ParallelScan s(v);
  const std::int64_t block = s.px * v["C"] * v["ABITS"], older = s.newest + s.left;
  const std::int64_t scan = clog2(s.above + s.h) + clog2(s.before + s.blocks);
  const std::int64_t position = clog2(2 * s.h + s.pt + s.pb + s.sh + 1) +
                                clog2(2 * s.blocks + s.before + s.newest + s.step + 1) + clog2(s.oh + 1) +
                                clog2(s.windows + 1);
  const std::int64_t lines = (s.reach_h - 1) * block;
  f.add_lut("one", 1);
  f.add_lut("scan", scan);
  f.add_lut("position", position);
  f.add_lut("padded", s.before + s.above > 0 ? block : 0);
  f.add_lut("above", s.before > 0 ? lines : 0);
  f.add_lut("lines", lines);
  f.add_ff("one", 1);
  f.add_ff("control", scan + position + (lines > 0 ? clog2(s.blocks) : 0));
  f.add_ff("block", block);
  f.add_ff("window", s.kh * (older + 1) * block);
  if (lines > 0) add_memory(f, lines, s.blocks, wants_block(lines, s.blocks));
}

std::uint64_t interval(const Values& v, std::uint64_t beats_in, std::uint64_t beats_out) {
  const ParallelScan s(v);
  return std::max({static_cast<std::uint64_t>((s.h + s.above) * (s.blocks + s.before)), beats_in, beats_out});
}

Beats frame(const Values& v, std::int64_t) {
  const ParallelScan s(v);
  return {{s.h * s.blocks}, {s.oh * s.ow / s.at_once}};
}

}  // namespace

WindowGaps window_gaps(const Netlist& netlist, const Unit& window, std::int64_t cycles_a_beat) {
  if (window.instance.module != "mr_swu_par") return {};
  const Values v = Values::of(*find_module("mr_swu_par"), window.instance.parameters).value();
  const ParallelScan s(v);
  const auto cycles = static_cast<std::int64_t>(unit_cycles(netlist, window).interval);
  const std::int64_t line = cycles / (s.h + s.above), across = (s.windows - 1) * s.step;
  WindowGaps gaps;
  gaps.rows = s.oh - 1;
  gaps.row = (s.sh * line - across) * cycles_a_beat;
  gaps.frame = (cycles - gaps.rows * s.sh * line - across) * cycles_a_beat;
  return gaps;
}

namespace modules {

Module mr_swu_par() {
  return {.name = "mr_swu_par",
          .any_value = {"PT", "PL", "PB", "PR", "PAD_VALUE"},
          .divides = {{"W", "PX"}},
          .cost = cost,
          .play = [](const PlayedInstance& p,
                     const Values& v) { return played<ParallelWindow>(p.in(), p.out(), v); },
          .latency = always<2>,
          .interval = interval,
          .frame = frame};
}

}  // namespace modules
}  // namespace millrace::compiler::generators
