// Benches of the modules that make sliding windows.
#include <algorithm>
#include <array>

#include "kernels/tb/integers.hpp"

namespace millrace::kernels::tb {
namespace {

class SlidingWindow : public Case {
 public:
  explicit SlidingWindow(const Parameters& p)
      : h_(p["H"]),
        w_(p["W"]),
        cf_(p["CF"]),
        kh_(p["KH"]),
        kw_(p["KW"]),
        sh_(p["SH"]),
        sw_(p["SW"]),
        dh_(p["DH"]),
        dw_(p["DW"]),
        pt_(p["PT"]),
        pl_(p["PL"]),
        rows_(p["ROWS"]),
        oh_((h_ + pt_ + p["PB"] - (kh_ - 1) * dh_ - 1) / sh_ + 1),
        ow_((w_ + pl_ + p["PR"] - (kw_ - 1) * dw_ - 1) / sw_ + 1),
        lanes_(static_cast<unsigned>(p["SIMD"])),
        bits_(static_cast<unsigned>(p["ABITS"])),
        pad_(lanes_ * bits_) {
    for (unsigned i = 0; i < lanes_; ++i)
      pad_.set(i * bits_, bits_, static_cast<std::uint64_t>(p["PAD_VALUE"]));
  }

  Frame frame(Rng& rng) override {
    Values values(static_cast<std::size_t>(h_ * w_ * cf_) * lanes_);
    for (auto& value : values) value = rng.between(0, (std::int64_t{1} << bits_) - 1);
    const Beats in = to_beats(values, lanes_, bits_);
    Beats out;
    for_each_tap([&](int y, int x, int c) {
      const bool in_image = y >= 0 && y < h_ && x >= 0 && x < w_;
      out.push_back(in_image ? in[static_cast<std::size_t>((y * w_ + x) * cf_ + c)] : pad_);
    });
    return {{{"s", in}}, {{"m", out}}};
  }

  /// Simulates the rule in the module's header: a tap is read once its pixel has arrived, and a pixel is written while
  /// its row has room.
  std::optional<Timing> timing() const override {
    // Each tap of a window is described by four numbers: its row and column (-1: padding), whether it is the first tap
    // of a frame, and how many rows are no longer needed after the tap.
    std::vector<std::array<int, 4>> taps;
    for_each_tap([&](int y, int x, int) {
      const bool in_image = y >= 0 && y < h_ && x >= 0 && x < w_;
      taps.push_back({in_image ? y : -1, x, taps.empty() ? 1 : 0, 0});
    });
    const std::size_t a_row = taps.size() / static_cast<std::size_t>(oh_);
    for (int oy = 0; oy < oh_; ++oy) {
      const auto clip = [&](int y) { return y < 0 ? 0 : y > h_ ? h_ : y; };
      taps[a_row * static_cast<std::size_t>(oy + 1) - 1][3] =
          (oy + 1 == oh_ ? h_ : clip((oy + 1) * sh_ - pt_)) - clip(oy * sh_ - pt_);
    }
    std::int64_t written = 0, passed = 0, pending = 0, last_end = 0, interval = 0, latency = -1;
    const std::int64_t row_words = w_ * cf_;
    std::size_t tap = 0;
    for (std::int64_t cycle = 0, frame = 0; frame < frames(); ++cycle) {
      const auto& t = taps[tap];
      const std::int64_t pixels = written / cf_;
      const std::int64_t needed = frame * h_ * w_ + (t[0] >= 0 ? t[0] * w_ + t[1] : 0);
      const bool step = t[0] < 0 && t[2] == 0 ? true : pixels > needed;
      const bool write = written / row_words - passed < rows_ && written < frames() * h_ * row_words;
      passed += pending;
      pending = 0;
      if (step) {
        if (latency < 0) latency = cycle + 3;
        pending = t[3];
        if (++tap == taps.size()) {
          tap = 0;
          ++frame;
          interval = cycle - last_end;
          last_end = cycle;
        }
      }
      if (write) ++written;
    }
    return Timing{latency, static_cast<std::uint64_t>(interval)};
  }

 private:
  template <typename Visit>
  void for_each_tap(Visit&& visit) const {
    for (int oy = 0; oy < oh_; ++oy) {
      for (int ox = 0; ox < ow_; ++ox) {
        for (int ky = 0; ky < kh_; ++ky) {
          for (int kx = 0; kx < kw_; ++kx) {
            for (int c = 0; c < cf_; ++c) visit(oy * sh_ - pt_ + ky * dh_, ox * sw_ - pl_ + kx * dw_, c);
          }
        }
      }
    }
  }

  int h_, w_, cf_, kh_, kw_, sh_, sw_, dh_, dw_, pt_, pl_, rows_, oh_, ow_;
  unsigned lanes_, bits_;
  Beat pad_;
};

/// Tests the module that puts several whole windows into one word of the output stream.
class ParallelWindow : public Case {
 public:
  explicit ParallelWindow(const Parameters& p)
      : h_(p["H"]),
        w_(p["W"]),
        c_(p["C"]),
        px_(p["PX"]),
        kh_(p["KH"]),
        kw_(p["KW"]),
        sh_(p["SH"]),
        sw_(p["SW"]),
        dh_(p["DH"]),
        dw_(p["DW"]),
        pt_(p["PT"]),
        pl_(p["PL"]),
        pb_(p["PB"]),
        pad_(p["PAD_VALUE"]),
        oh_((h_ + pt_ + pb_ - (kh_ - 1) * dh_ - 1) / sh_ + 1),
        ow_((w_ + pl_ + p["PR"] - (kw_ - 1) * dw_ - 1) / sw_ + 1),
        m_(px_ > sw_ ? px_ / sw_ : 1),
        bits_(static_cast<unsigned>(p["ABITS"])) {}

  Frame frame(Rng& rng) override {
    Values image(static_cast<std::size_t>(h_ * w_ * c_));
    for (auto& value : image) value = rng.between(0, (std::int64_t{1} << bits_) - 1);
    Values windows;
    for (int oy = 0; oy < oh_; ++oy) {
      for (int ox = 0; ox < ow_; ++ox) {
        for (int ky = 0; ky < kh_; ++ky) {
          for (int kx = 0; kx < kw_; ++kx) {
            const int y = oy * sh_ - pt_ + ky * dh_, x = ox * sw_ - pl_ + kx * dw_;
            const bool in_image = y >= 0 && y < h_ && x >= 0 && x < w_;
            for (int c = 0; c < c_; ++c) {
              windows.push_back(in_image ? image[static_cast<std::size_t>((y * w_ + x) * c_ + c)] : pad_);
            }
          }
        }
      }
    }
    return {{{"s", to_beats(image, static_cast<unsigned>(px_ * c_), bits_)}},
            {{"m", to_beats(windows, static_cast<unsigned>(m_ * kh_ * kw_ * c_), bits_)}}};
  }
  std::optional<Timing> timing() const override {
    const int blocks = w_ / px_, step = sw_ > px_ ? sw_ / px_ : 1;
    const int first = ((m_ - 1) * sw_ + (kw_ - 1) * dw_ - pl_) / px_;
    const int right = std::max(0, (ow_ / m_ - 1) * step + first + 1 - blocks);
    const int row = std::max((pl_ + px_ - 1) / px_, right) + blocks;
    return Timing{((kh_ - 1) * dh_ - pt_) * row + first + 2,
                  static_cast<std::uint64_t>((std::max(pt_, pb_) + h_) * row)};
  }

 private:
  int h_, w_, c_, px_, kh_, kw_, sh_, sw_, dh_, dw_, pt_, pl_, pb_, pad_, oh_, ow_, m_;
  unsigned bits_;
};

}  // namespace

void add_window_cases(Cases& cases) {
  cases["mr_swu_par"] = [](const Parameters& p, Rng&) { return std::make_unique<ParallelWindow>(p); };
  cases["mr_swu"] = [](const Parameters& p, Rng&) { return std::make_unique<SlidingWindow>(p); };
}

}  // namespace millrace::kernels::tb
