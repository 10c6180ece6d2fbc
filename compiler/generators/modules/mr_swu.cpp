#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

class FoldedWindow {
 public:
  FoldedWindow(Wire& in, Wire& out, const Values& v)
      : in_(in), out_(out), g_(v), cf_(v["CF"]), rows_(v["ROWS"]) {
    iy_ = iy0_ = -g_.pt;
    ix_ = ix0_ = -g_.pl;
  }
  void accept() { in_.ready = held_ < rows_; }
  void tick() {
    const bool en = !out_.valid || out_.ready, step = en && present();
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
  /// Rows not needed once this row of windows is read.
  std::int64_t passed() const {
    const auto above = [&](std::int64_t y) { return std::clamp<std::int64_t>(y, 0, g_.h); };
    return (oy_ == g_.oh - 1 ? g_.h : above(iy0_ + g_.sh)) - above(iy0_);
  }
  /// Takes the input beat; whether it ends a row.
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

void cost(const Values& v, Features& f) {
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
}

Beats frame(const Values& v, std::int64_t) {
  const WindowGeometry g(v);
  return {{g.h * g.w * v["CF"]}, {g.oh * g.ow * g.kh * g.kw * v["CF"]}};
}

}  // namespace

Module mr_swu() {
  return {.name = "mr_swu",
          .any_value = {"PT", "PL", "PB", "PR", "PAD_VALUE"},
          .cost = cost,
          .play = [](const PlayedInstance& p,
                     const Values& v) { return played<FoldedWindow>(p.in(), p.out(), v); },
          .latency = always<3>,
          .frame = frame};
}

}  // namespace millrace::compiler::generators::modules
