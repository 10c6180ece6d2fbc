// Describes modules that cut windows out of a tensor, and modules that pool windows.
#include <algorithm>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators {
namespace {

/// The geometry of the windows that mr_swu and mr_swu_par cut out of a tensor.
struct WindowGeometry {
  explicit WindowGeometry(const Values& v)
      : h(v["H"]),
        w(v["W"]),
        kh(v["KH"]),
        kw(v["KW"]),
        sh(v["SH"]),
        sw(v["SW"]),
        dh(v["DH"]),
        dw(v["DW"]),
        pt(v["PT"]),
        pl(v["PL"]),
        pb(v["PB"]),
        pr(v["PR"]) {}
  std::int64_t h, w, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr;
  std::int64_t reach_h = (kh - 1) * dh + 1, reach_w = (kw - 1) * dw + 1;  // pixels that a kernel spans
  /// Windows per column and per row.
  std::int64_t oh = (h + pt + pb - reach_h) / sh + 1, ow = (w + pl + pr - reach_w) / sw + 1;
};

class FoldedWindow {
 public:
  FoldedWindow(Wire& in, Wire& out, const Values& v)
      : in_(in), out_(out), g_(v), cf_(v["CF"]), rows_(v["ROWS"]) {
    iy_ = iy0_ = -g_.pt;
    ix_ = ix0_ = -g_.pl;
  }
  void operator()() {
    in_.ready = held_ < rows_;
    const bool en = out_.free(), step = en && present();
    const bool row_end = c_ == cf_ - 1 && kx_ == g_.kw - 1 && ky_ == g_.kh - 1 && ox_ == g_.ow - 1;
    const bool frame_end = row_end && oy_ == g_.oh - 1;
    const bool row_in = write();
    const std::int64_t given_back = en ? passed_ : 0;
    rows_in_ += (row_in ? 1 : 0) - (step && frame_end ? g_.h : 0);
    held_ += (row_in ? 1 : 0) - given_back;
    if (!en) return;
    passed_ = step && row_end ? passed() : 0;
    out_.valid = valid2_;
    valid2_ = valid1_;
    valid1_ = step;
    if (step) advance(frame_end);
  }

 private:
  bool present() const {
    const bool in_image = iy_ >= 0 && iy_ < g_.h && ix_ >= 0 && ix_ < g_.w;
    if (in_image) return iy_ < rows_in_ || (iy_ == rows_in_ && ix_ < columns_in_);
    return !first_ || rows_in_ > 0 || (rows_in_ == 0 && columns_in_ != 0);
  }
  /// Returns how many rows of the tensor are no longer needed after this row of windows was read.
  std::int64_t passed() const {
    const auto above = [&](std::int64_t y) { return std::clamp<std::int64_t>(y, 0, g_.h); };
    return (oy_ == g_.oh - 1 ? g_.h : above(iy0_ + g_.sh)) - above(iy0_);
  }
  /// Stores the input beat of this clock, if there is one. Returns whether the beat ends a row of the tensor.
  bool write() {
    if (!in_.moves() || ++wc_ < cf_) return false;
    wc_ = 0;
    if (++columns_in_ < g_.w) return false;
    columns_in_ = 0;
    return true;
  }
  void advance(bool frame_end) {
    first_ = frame_end;
    if (++c_ < cf_) return;
    c_ = 0;
    ix_ += g_.dw;
    if (++kx_ < g_.kw) return;
    kx_ = 0;
    ix_ = ix0_;
    iy_ += g_.dh;
    if (++ky_ < g_.kh) return;
    ky_ = 0;
    iy_ = iy0_;
    ix_ = ix0_ += g_.sw;
    if (++ox_ < g_.ow) return;
    ox_ = 0;
    ix_ = ix0_ = -g_.pl;
    iy_ = iy0_ += g_.sh;
    if (++oy_ < g_.oh) return;
    oy_ = 0;
    iy_ = iy0_ = -g_.pt;
  }

  Wire &in_, &out_;
  WindowGeometry g_;
  std::int64_t cf_, rows_;
  std::int64_t wc_ = 0, columns_in_ = 0, rows_in_ = 0, held_ = 0, passed_ = 0;
  std::int64_t c_ = 0, kx_ = 0, ky_ = 0, ox_ = 0, oy_ = 0, iy_, iy0_, ix_, ix0_;
  bool first_ = true, valid1_ = false, valid2_ = false;
};

/// The scan of mr_swu_par over the padded frame, in blocks of PX pixels.
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
  std::int64_t px, at_once;   // pixels per input beat, windows per output beat
  std::int64_t windows;       // output beats per row
  std::int64_t step, newest;  // blocks between two output beats; last block of the first output beat
  std::int64_t blocks;        // blocks of a row, without padding
  std::int64_t left, before;  // blocks of padding before a row's first window; before its first pixel
  std::int64_t above;         // rows of padding
};

/// Simulates mr_swu_par.
class ParallelWindow {
 public:
  ParallelWindow(Wire& in, Wire& out, const Values& v)
      : in_(in), out_(out), s_(v), below_(s_.reach_h - 1 - s_.pt < s_.h) {
    start_rows();
    start_beats();
  }
  void operator()() {
    in_.ready = out_.free() && real();
    if (!out_.free()) return;
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
  bool below_;  // whether the scanned rows of padding are below a frame, as in mr_swu_par.sv
};

/// Adds the cost of the lanes of a pooling module, which process `values` elements per beat.
void add_pool_lanes(Features& f, const Values& v, std::int64_t depth, std::int64_t counters,
                    std::int64_t values, const Cost& memory) {
  const std::int64_t bits = v["SIMD"] * v["OBITS"];
  f.exact += memory;
  f.add_both("one", 1);
  f.add_both("counter", counters);
  f.add_lut("memory", (ceil_div(depth, 64) - 1) * bits);
  f.add_lut(v["OP"] == 1 ? "sum" : "largest", values * bits);
  f.add_ff("data", bits);
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

Module mr_swu() {
  Module m{.name = "mr_swu", .any_value = {"PT", "PL", "PB", "PR", "PAD_VALUE"}, .latency = always<3>};
  m.cost = [](const Values& v, Features& f) {
    const WindowGeometry g(v);
    const std::int64_t cf = v["CF"], ph = g.h + g.pt + g.pb, pw = g.w + g.pl + g.pr;
    const std::int64_t words = v["ROWS"] * g.w * cf, lanes = v["SIMD"] * v["ABITS"];
    const std::int64_t address = clog2(words);
    const std::int64_t row = clog2(ph + g.sh + v["ROWS"] + 1) + 2, column = clog2(pw + g.sw + 1) + 2;
    const std::int64_t offset = clog2((pw + g.sw + g.dw) * cf + 1) + 2;
    const std::int64_t counters = clog2(cf) * 2 + clog2(g.kh) + clog2(g.kw) + clog2(g.oh) + clog2(g.ow);
    const bool padded = g.pt + g.pb + g.pl + g.pr > 0;
    f.add_lut("one", 1);
    f.add_lut("address", address);
    f.add_lut("row", row);
    f.add_lut("column", column);
    f.add_lut("offset", offset);
    f.add_lut("counter", counters);
    f.add_lut("padding", padded ? row + column : 0);
    f.add_lut("padded", padded ? lanes : 0);
    f.add_ff("one", 1);
    f.add_ff("control", 4 * address + 5 * row + 3 * column + 2 * offset + counters);
    f.add_ff("data", lanes);
    add_memory(f, lanes, words, wants_block(lanes, words));
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    return {FoldedWindow(p.in(), p.out(), v)};
  };
  m.frame = [](const Values& v, std::int64_t) {
    const WindowGeometry g(v);
    return Beats{{g.h * g.w * v["CF"]}, {g.oh * g.ow * g.kh * g.kw * v["CF"]}};
  };
  return m;
}

Module mr_swu_par() {
  Module m{.name = "mr_swu_par", .divides = {{"W", "PX"}}, .latency = always<2>};
  m.any_value = {"PT", "PL", "PB", "PR", "PAD_VALUE"};
  m.cost = [](const Values& v, Features& f) {
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
  };
  m.play = [](const PlayedInstance& p, const Values& v) -> TimingUnit {
    return {ParallelWindow(p.in(), p.out(), v)};
  };
  m.interval = [](const Values& v, std::uint64_t in, std::uint64_t out) {
    const ParallelScan s(v);
    return std::max({static_cast<std::uint64_t>((s.h + s.above) * (s.blocks + s.before)), in, out});
  };
  m.frame = [](const Values& v, std::int64_t) {
    const ParallelScan s(v);
    return Beats{{s.h * s.blocks}, {s.oh * s.ow / s.at_once}};
  };
  return m;
}

Module mr_pool() {
  Module m{.name = "mr_pool", .any_value = {"OP", "AKIND"}, .divides = {{"KW", "PX"}}};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t depth = std::max<std::int64_t>(v["W"] / v["KW"] * v["CF"], 1);
    const std::int64_t counters = clog2(v["CF"]) + clog2(v["W"] / v["PX"]) + clog2(v["H"]) +
                                  clog2(v["KW"] / v["PX"]) + clog2(v["KH"]) + clog2(depth);
    add_pool_lanes(f, v, depth, counters, v["PX"], read_modify_write(v["SIMD"] * v["OBITS"], depth));
  };
  m.play = [](const PlayedInstance& p, const Values& v) {
    return pipeline(p, 1,
                    [h = v["H"], w = v["W"] / v["PX"], cf = v["CF"], kh = v["KH"], kw = v["KW"] / v["PX"],
                     c = std::int64_t{0}, x = std::int64_t{0}, y = std::int64_t{0}](bool valid) mutable {
                      const bool used = x < w / kw * kw && y < h / kh * kh;
                      const bool whole = valid && used && x % kw == kw - 1 && y % kh == kh - 1;
                      if (!valid || ++c < cf) return whole;
                      c = 0;
                      if (++x < w) return whole;
                      x = 0;
                      if (++y == h) y = 0;
                      return whole;
                    });
  };
  m.frame = [](const Values& v, std::int64_t) {
    return Beats{{v["H"] * v["W"] / v["PX"] * v["CF"]}, {v["H"] / v["KH"] * (v["W"] / v["KW"]) * v["CF"]}};
  };
  return m;
}

Module mr_reduce() {
  Module m{.name = "mr_reduce", .any_value = {"OP", "AKIND"}};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t depth = std::max<std::int64_t>(v["CF"], 2);
    add_pool_lanes(f, v, depth, clog2(v["CF"]) + clog2(v["TAPS"]), 1,
                   simple_dual_port(v["SIMD"] * v["OBITS"], depth, MemoryStyle::kDistributed));
  };
  m.play = [](const PlayedInstance& p, const Values& v) { return play_last_round(p, 1, v["TAPS"], v["CF"]); };
  m.frame = [](const Values& v, std::int64_t) { return Beats{{v["TAPS"] * v["CF"]}, {v["CF"]}}; };
  return m;
}

}  // namespace modules
}  // namespace millrace::compiler::generators
