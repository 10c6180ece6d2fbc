// Benches of the modules that pass beats on: those in kernels/rtl/stream, and mr_reorder.
#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {
namespace {

Beats random_beats(Rng& rng, std::size_t count, unsigned width) {
  Beats beats(count, Beat(width));
  for (Beat& beat : beats) {
    for (unsigned at = 0; at < width; at += 32)
      beat.set(at, 32, static_cast<std::uint64_t>(rng.between(0, 0xffffffff)));
  }
  return beats;
}

/// Tests the modules skid and fifo, which pass every word of a stream on unchanged.
class Passing : public Case {
 public:
  Passing(const Parameters& p, std::int64_t latency) : width_(positive(p, "WIDTH")), latency_(latency) {}
  Frame frame(Rng& rng) override {
    const Beats beats = random_beats(rng, kBeats, width_);
    return {{{"s", beats}}, {{"m", beats}}};
  }
  std::optional<Timing> timing() const override { return Timing{latency_, kBeats}; }

 private:
  static constexpr std::size_t kBeats = 700;
  unsigned width_;
  std::int64_t latency_;
};

class WidthAdapter : public Case {
 public:
  explicit WidthAdapter(const Parameters& p)
      : lane_(positive(p, "LANE")), in_(positive(p, "S_LANES")), out_(positive(p, "M_LANES")) {}
  Frame frame(Rng& rng) override {
    const std::size_t lanes = in_ * out_ * 12;
    std::vector<std::int64_t> values(lanes);
    for (auto& value : values) value = rng.between(0, (std::int64_t{1} << lane_) - 1);
    return {{{"s", to_beats(values, in_, lane_)}}, {{"m", to_beats(values, out_, lane_)}}};
  }
  std::optional<Timing> timing() const override {
    if (in_ == out_) return Timing{0, in_ * 12};
    const std::uint64_t interval = std::max(in_, out_) * 12;
    return Timing{(out_ + in_ - 1) / in_, interval};
  }

 private:
  unsigned lane_, in_, out_;
};

class Fork : public Case {
 public:
  explicit Fork(const Parameters& p) : width_(positive(p, "WIDTH")), n_(positive(p, "N")) {}
  Frame frame(Rng& rng) override {
    Frame frame;
    const Beats beats = random_beats(rng, kBeats, width_);
    frame.inputs["s"] = beats;
    for (unsigned i = 0; i < n_; ++i) frame.outputs[n_ == 1 ? "m" : "m" + std::to_string(i)] = beats;
    return frame;
  }
  std::optional<Timing> timing() const override { return Timing{0, kBeats}; }

 private:
  static constexpr std::size_t kBeats = 200;
  unsigned width_, n_;
};

class Join : public Case {
 public:
  explicit Join(const Parameters& p) : width_(positive(p, "WIDTH")), n_(positive(p, "N")) {}
  Frame frame(Rng& rng) override {
    Frame frame;
    Beats joined(kBeats, Beat(n_ * width_));
    for (unsigned i = 0; i < n_; ++i) {
      Beats beats = random_beats(rng, kBeats, width_);
      for (std::size_t b = 0; b < kBeats; ++b) joined[b].place(i * width_, beats[b]);
      frame.inputs[n_ == 1 ? "s" : "s" + std::to_string(i)] = std::move(beats);
    }
    frame.outputs["m"] = std::move(joined);
    return frame;
  }
  std::optional<Timing> timing() const override { return Timing{0, kBeats}; }

 private:
  static constexpr std::size_t kBeats = 200;
  unsigned width_, n_;
};

/// Tests a split, which is a join with inputs and outputs exchanged.
class Split : public Case {
 public:
  explicit Split(const Parameters& p) : join_(p) {}
  Frame frame(Rng& rng) override {
    Frame frame, joined = join_.frame(rng);
    frame.inputs["s"] = std::move(joined.outputs.at("m"));
    for (auto& [name, beats] : joined.inputs) frame.outputs["m" + name.substr(1)] = std::move(beats);
    return frame;
  }
  std::optional<Timing> timing() const override { return join_.timing(); }

 private:
  Join join_;
};

struct Border {
  explicit Border(const Parameters& p)
      : h(p["H"]),
        w(p["W"]),
        cf(p["CF"]),
        top(p["TOP"]),
        left(p["LEFT"]),
        bottom(p["BOTTOM"]),
        right(p["RIGHT"]) {}
  int h, w, cf, top, left, bottom, right;
};

class Pad : public Case {
 public:
  explicit Pad(const Parameters& p)
      : b_(p), lanes_(positive(p, "SIMD")), bits_(positive(p, "ABITS")), value_(p["VALUE"]) {}
  Frame frame(Rng& rng) override {
    const Beats in = random_beats(rng, static_cast<std::size_t>(b_.h * b_.w * b_.cf), lanes_ * bits_);
    Beat border(lanes_ * bits_);
    for (unsigned i = 0; i < lanes_; ++i) border.set(i * bits_, bits_, static_cast<std::uint64_t>(value_));
    Beats out;
    for (int y = -b_.top; y < b_.h + b_.bottom; ++y) {
      for (int x = -b_.left; x < b_.w + b_.right; ++x) {
        for (int c = 0; c < b_.cf; ++c) {
          const bool within = y >= 0 && y < b_.h && x >= 0 && x < b_.w;
          out.push_back(within ? in[static_cast<std::size_t>((y * b_.w + x) * b_.cf + c)] : border);
        }
      }
    }
    return {{{"s", in}}, {{"m", out}}};
  }
  std::optional<Timing> timing() const override {
    const int row = b_.left + b_.w + b_.right;
    const auto interval = static_cast<std::uint64_t>((b_.top + b_.h + b_.bottom) * row * b_.cf);
    return Timing{1 - (b_.top * row + b_.left) * b_.cf, interval};  // the border comes before the first pixel
  }

 private:
  Border b_;
  unsigned lanes_, bits_;
  int value_;
};

class Crop : public Case {
 public:
  explicit Crop(const Parameters& p) : b_(p), width_(positive(p, "WIDTH")) {}
  Frame frame(Rng& rng) override {
    const Beats in = random_beats(rng, static_cast<std::size_t>(b_.h * b_.w * b_.cf), width_);
    Beats out;
    for (int y = b_.top; y < b_.h - b_.bottom; ++y) {
      for (int x = b_.left; x < b_.w - b_.right; ++x) {
        for (int c = 0; c < b_.cf; ++c)
          out.push_back(in[static_cast<std::size_t>((y * b_.w + x) * b_.cf + c)]);
      }
    }
    return {{{"s", in}}, {{"m", out}}};
  }
  std::optional<Timing> timing() const override {
    return Timing{(b_.top * b_.w + b_.left) * b_.cf + 1, static_cast<std::uint64_t>(b_.h * b_.w * b_.cf)};
  }

 private:
  Border b_;
  unsigned width_;
};

/// Tests mr_reorder. The expected order comes from the loops as the module's header writes them.
class Reorder : public Case {
 public:
  explicit Reorder(const Parameters& p) : width_(positive(p, "WIDTH")), words_(positive(p, "WORDS")) {
    sources_ = {p["OFFSET"]};
    for (const char* k : {"0", "1", "2", "3", "4", "5"}) {
      const int extent = p[std::string("E") + k], stride = p[std::string("S") + k];
      std::vector<int> next;
      for (const int source : sources_)
        for (int i = 0; i < extent; ++i) next.push_back(source + i * stride);
      sources_ = std::move(next);
    }
  }
  Frame frame(Rng& rng) override {
    const Beats in = random_beats(rng, words_, width_);
    Beats out;
    for (const int source : sources_) out.push_back(in.at(static_cast<std::size_t>(source)));
    return {{{"s", in}}, {{"m", out}}};
  }
  std::optional<Timing> timing() const override {
    const auto whole = static_cast<std::int64_t>(words_) + 1;
    return Timing{sources_.size() == 1 ? whole : sources_.front() + 2,
                  std::max<std::uint64_t>(words_, sources_.size())};
  }

 private:
  unsigned width_;
  std::size_t words_;
  std::vector<int> sources_;  // which beat of the input each beat of the output is
};

}  // namespace

void add_stream_cases(Cases& cases) {
  cases["mr_skid"] = [](const Parameters& p, Rng&) { return std::make_unique<Passing>(p, 1); };
  cases["mr_fifo"] = [](const Parameters& p, Rng&) { return std::make_unique<Passing>(p, 2); };
  cases["mr_width_adapter"] = [](const Parameters& p, Rng&) { return std::make_unique<WidthAdapter>(p); };
  cases["mr_fork"] = [](const Parameters& p, Rng&) { return std::make_unique<Fork>(p); };
  cases["mr_split"] = [](const Parameters& p, Rng&) { return std::make_unique<Split>(p); };
  cases["mr_join"] = [](const Parameters& p, Rng&) { return std::make_unique<Join>(p); };
  cases["mr_pad"] = [](const Parameters& p, Rng&) { return std::make_unique<Pad>(p); };
  cases["mr_reorder"] = [](const Parameters& p, Rng&) { return std::make_unique<Reorder>(p); };
  cases["mr_crop"] = [](const Parameters& p, Rng&) { return std::make_unique<Crop>(p); };
}

}  // namespace millrace::kernels::tb
