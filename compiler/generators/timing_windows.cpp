#include "compiler/generators/timing_windows.hpp"

#include <algorithm>

namespace millrace::compiler::generators {
namespace {

/// What both windows read from their parameters.
struct Geometry {
  explicit Geometry(const Instance& i) {
    const auto p = [&](const char* name, std::int64_t otherwise) { return parameter(i, name, otherwise); };
    h = p("H", 8), w = p("W", 8), kh = p("KH", 3), kw = p("KW", 3), sh = p("SH", 1), sw = p("SW", 1);
    dh = p("DH", 1), dw = p("DW", 1), pt = p("PT", 0), pl = p("PL", 0), pb = p("PB", 0), pr = p("PR", 0);
    rh = (kh - 1) * dh + 1, rc = (kw - 1) * dw + 1;
    oh = (h + pt + pb - rh) / sh + 1, ow = (w + pl + pr - rc) / sw + 1;
  }
  std::int64_t h, w, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr, rh, rc, oh, ow;
};

/// mr_swu.
class FoldedWindow {
 public:
  FoldedWindow(const Instance& i, Wire& in, Wire& out)
      : in_(in), out_(out), g_(i), cf_(parameter(i, "CF", 1)), rows_(parameter(i, "ROWS", 4)) {
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
  Geometry g_;
  std::int64_t cf_, rows_;
  std::int64_t wc_ = 0, columns_in_ = 0, rows_in_ = 0, held_ = 0, passed_ = 0;
  std::int64_t c_ = 0, kx_ = 0, ky_ = 0, ox_ = 0, oy_ = 0, iy_, iy0_, ix_, ix0_;
  bool first_ = true, valid1_ = false, valid2_ = false;
};

/// mr_swu_par: a scan over the padded image.
class ParallelWindow {
 public:
  ParallelWindow(const Instance& i, Wire& in, Wire& out)
      : in_(in), out_(out), g_(i), px_(parameter(i, "PX", 1)) {
    const std::int64_t m = px_ > g_.sw ? px_ / g_.sw : 1;
    beats_ = g_.ow / m;
    step_ = g_.sw > px_ ? g_.sw / px_ : 1;
    newest_ = ((m - 1) * g_.sw + g_.rc - 1 - g_.pl) / px_;
    blocks_ = g_.w / px_;
    const std::int64_t left = (g_.pl + px_ - 1) / px_;
    before_ = std::max({left, (beats_ - 1) * step_ + newest_ + 1 - blocks_, std::int64_t{0}});
    above_ = std::max(g_.pt, g_.pb);
    below_ = g_.rh - 1 - g_.pt < g_.h;
    start_rows();
    start_beats();
  }
  void accept() { in_.ready = enabled() && real(); }
  void tick() {
    if (!enabled()) return;
    const bool step = in_.valid || !real();
    const std::int64_t r = t_ >= above_ ? t_ - above_ : t_ + g_.h,
                       n = u_ >= before_ ? u_ - before_ : u_ + blocks_;
    const bool row_hit = below_ && r == next_r_, block_hit = n == next_n_;
    const bool hit = block_hit && (u_ >= before_ ? row_hit : row_hit_before_);
    out_.valid = valid1_ && emit1_;
    valid1_ = step;
    emit1_ = hit;
    below_ |= t_ >= above_;
    if (!step) return;
    if (block_hit) {
      if (beats_left_ == 0) {
        start_beats();
      } else {
        next_n_ += step_;
        --beats_left_;
      }
    }
    if (++u_ < before_ + blocks_) return;
    u_ = 0;
    row_hit_before_ = row_hit;
    if (row_hit) {
      if (rows_left_ == 0) {
        start_rows();
      } else {
        next_r_ += g_.sh;
        --rows_left_;
      }
    }
    if (++t_ == above_ + g_.h) t_ = 0;
  }

 private:
  bool enabled() const { return !out_.valid || out_.ready; }
  bool real() const { return t_ >= above_ && u_ >= before_; }
  void start_rows() {
    next_r_ = g_.rh - 1 - g_.pt;
    rows_left_ = g_.oh - 1;
  }
  void start_beats() {
    next_n_ = newest_;
    beats_left_ = beats_ - 1;
  }

  Wire &in_, &out_;
  Geometry g_;
  std::int64_t px_, beats_, step_, newest_, blocks_, before_, above_;
  std::int64_t t_ = 0, u_ = 0, next_r_ = 0, next_n_ = 0, rows_left_ = 0, beats_left_ = 0;
  bool row_hit_before_ = false, valid1_ = false, emit1_ = false;
  bool below_ = true;  // rows of padding are below an image; see mr_swu_par
};

}  // namespace

std::unique_ptr<TimingUnit> make_folded_window(const Instance& instance, Wire& in, Wire& out) {
  return std::make_unique<Played<FoldedWindow>>(instance, in, out);
}

std::unique_ptr<TimingUnit> make_parallel_window(const Instance& instance, Wire& in, Wire& out) {
  return std::make_unique<Played<ParallelWindow>>(instance, in, out);
}

}  // namespace millrace::compiler::generators
