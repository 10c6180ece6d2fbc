// Benches of pooling, depthwise convolution and element-wise modules. kernels/reference computes the expected results.
#include <algorithm>

#include "kernels/tb/integers.hpp"

namespace millrace::kernels::tb {
namespace {

Requantise identity(ElementType type) {
  Requantise r;
  r.multiplier = {1};
  r.offset = {0};
  r.shift = {0};
  r.lowest = static_cast<std::int32_t>(type.lowest());
  r.highest = static_cast<std::int32_t>(type.highest());
  return r;
}

/// Tests the pooling of a tensor [h, w, c] by `window`. The two pooling modules differ only in timing.
class Pool : public Case {
 public:
  Pool(const Parameters& p, Window window, std::uint32_t h, std::uint32_t w, Timing timing)
      : lanes_(positive(p, "SIMD")),
        pixels_(p.has("PX") ? positive(p, "PX") : 1),
        channels_(positive(p, "CF") * lanes_),
        sum_(p["OP"] == 1),
        input_{element_type(p["AKIND"], p["ABITS"]), {h, w, channels_}},
        output_{element_type(p["AKIND"], p["OBITS"]),
                {windowed_height(window, h), windowed_width(window, w), channels_}},
        window_(window),
        timing_(timing) {}

  Frame frame(Rng& rng) override {
    const Values in =
        random_values(input_.type, std::size_t{input_.shape[0]} * input_.shape[1] * channels_, rng);
    Operation operation = MaxPool{window_};
    if (sum_) operation = SumPool{window_, {ElementType::Kind::kSigned, 24}, identity(output_.type)};
    const Values out = run_reference(std::move(operation), {input_}, {in}, output_);
    return {{{"s", to_beats(in, input_.type, lanes_ * pixels_)}},
            {{"m", to_beats(out, output_.type, lanes_)}}};
  }
  std::optional<Timing> timing() const override { return timing_; }

 private:
  unsigned lanes_, pixels_, channels_;
  bool sum_;
  Operand input_, output_;
  Window window_;
  Timing timing_;
};

std::unique_ptr<Case> make_pool(const Parameters& p, Rng&) {
  Window window;
  window.kernel_h = window.stride_h = positive(p, "KH");
  window.kernel_w = window.stride_w = positive(p, "KW");
  const int h = p["H"], w = p["W"], cf = p["CF"], px = p["PX"];
  const Timing timing{((p["KH"] - 1) * w + p["KW"] - px) / px * cf + 1,
                      static_cast<std::uint64_t>(h * w / px * cf)};
  return std::make_unique<Pool>(p, window, positive(p, "H"), positive(p, "W"), timing);
}

std::unique_ptr<Case> make_reduce(const Parameters& p, Rng&) {
  Window window;
  window.kernel_w = positive(p, "TAPS");
  const int taps = p["TAPS"], cf = p["CF"];
  const Timing timing{(taps - 1) * cf + 1, static_cast<std::uint64_t>(taps * cf)};
  return std::make_unique<Pool>(p, window, 1, positive(p, "TAPS"), timing);
}

class Depthwise : public Case {
 public:
  Depthwise(const Parameters& p, Rng& rng)
      : channels_(positive(p, "CHANNELS")),
        pe_(positive(p, "PE")),
        taps_(positive(p, "TAPS")),
        input_{element_type(p["AKIND"], p["ABITS"]), {1, taps_, channels_}},
        output_{element_type(1, p["ACCBITS"]), {1, 1, channels_}} {
    layer_.window.kernel_w = taps_;
    layer_.out_channels = layer_.groups = channels_;
    layer_.weight_type = element_type(p["WKIND"], p["WBITS"]);
    layer_.accumulator = output_.type;
    for (unsigned i = 0; i < channels_ * taps_; ++i) {
      layer_.weights.edit().push_back(static_cast<std::int16_t>(random_value(layer_.weight_type, rng)));
    }
    Values by_tap;  // [tap][channel]
    for (unsigned tap = 0; tap < taps_; ++tap) {
      for (unsigned c = 0; c < channels_; ++c) by_tap.push_back(layer_.weights[c * taps_ + tap]);
    }
    lines_ = to_beats(by_tap, layer_.weight_type, pe_);
    if (p["BIAS"] != 0) {
      Values bias;
      for (unsigned i = 0; i < channels_; ++i) bias.push_back(rng.between(-50, 50));
      layer_.bias.assign(bias.begin(), bias.end());
      const Beats lines = to_beats(bias, output_.type, pe_);
      if (p["LOADED"] == 0)
        write_hex(p.text("BFILE"), lines);
      else
        lines_.insert(lines_.end(), lines.begin(), lines.end());
    }
    if (p["LOADED"] == 0) {
      write_hex(p.text("WFILE"), lines_);
      lines_.clear();
    }
  }

  Frame frame(Rng& rng) override {
    const Values x = random_values(input_.type, std::size_t{taps_} * channels_, rng);
    const Values y = run_reference(layer_, {input_}, {x}, output_);
    return {{{"s", to_beats(x, input_.type, pe_)}}, {{"m", to_beats(y, output_.type, pe_)}}};
  }
  std::map<std::string, Beats> load() override {
    if (lines_.empty()) return {};
    return {{"l", lines_}};
  }
  std::optional<Timing> timing() const override {
    const unsigned folds = channels_ / pe_;
    return Timing{std::int64_t{taps_ - 1} * folds + 3, std::uint64_t{taps_} * folds};
  }
  int frames() const override { return 12; }

 private:
  unsigned channels_, pe_, taps_;
  Operand input_, output_;
  Convolution layer_;
  Beats lines_;
};

class Sum : public Case {
 public:
  explicit Sum(const Parameters& p)
      : lanes_(positive(p, "SIMD")),
        a_{element_type(p["AKIND"], p["ABITS"]), {1, kBeats, lanes_}},
        b_{element_type(p["BKIND"], p["BBITS"]), {1, kBeats, lanes_}},
        output_{element_type(p["LOWEST"] < 0 ? 1 : 0, p["OBITS"]), {1, kBeats, lanes_}} {
    add_.multiplier_a = p["A_FACTOR"];
    add_.multiplier_b = p["B_FACTOR"];
    add_.offset = std::stoll(p.text("OFFSET"));
    add_.shift = static_cast<std::uint8_t>(p["SHIFT"]);
    add_.lowest = p["LOWEST"];
    add_.highest = p["HIGHEST"];
  }
  Frame frame(Rng& rng) override {
    const Values a = random_values(a_.type, std::size_t{kBeats} * lanes_, rng),
                 b = random_values(b_.type, a.size(), rng);
    const Values out = run_reference(add_, {a_, b_}, {a, b}, output_);
    return {{{"s0", to_beats(a, a_.type, lanes_)}, {"s1", to_beats(b, b_.type, lanes_)}},
            {{"m", to_beats(out, output_.type, lanes_)}}};
  }
  std::optional<Timing> timing() const override { return Timing{3, kBeats}; }

 private:
  static constexpr std::uint32_t kBeats = 60;
  unsigned lanes_;
  Operand a_, b_, output_;
  Add add_;
};

/// Tests a module that only multiplies. The bench computes the products itself, because no block of a program only
/// multiplies.
class Product : public Case {
 public:
  explicit Product(const Parameters& p)
      : lanes_(positive(p, "SIMD")),
        a_(element_type(p["AKIND"], p["ABITS"])),
        b_(element_type(p["BKIND"], p["BBITS"])),
        bits_(positive(p, "ABITS") + positive(p, "BBITS") + (p["AKIND"] == 1 ? 0 : 1) +
              (p["BKIND"] == 1 ? 0 : 1)) {}
  Frame frame(Rng& rng) override {
    const Values a = random_values(a_, std::size_t{kBeats} * lanes_, rng),
                 b = random_values(b_, a.size(), rng);
    Values out(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] * b[i];
    return {{{"s0", to_beats(a, a_, lanes_)}, {"s1", to_beats(b, b_, lanes_)}},
            {{"m", to_beats(out, lanes_, bits_)}}};
  }
  std::optional<Timing> timing() const override { return Timing{2, kBeats}; }

 private:
  static constexpr std::uint32_t kBeats = 60;
  unsigned lanes_;
  ElementType a_, b_;
  unsigned bits_;
};

/// Tests a module that finds the position of the largest element. No block of a program does so, so the standard
/// library computes the expected position.
class Argmax : public Case {
 public:
  explicit Argmax(const Parameters& p)
      : beats_(positive(p, "BEATS")),
        lanes_(positive(p, "SIMD")),
        bits_(positive(p, "IBITS")),
        type_(element_type(p["AKIND"], p["ABITS"])) {}
  Frame frame(Rng& rng) override {
    const Values in = random_values(type_, std::size_t{beats_} * lanes_, rng);
    const Values out = {std::max_element(in.begin(), in.end()) - in.begin()};
    return {{{"s", to_beats(in, type_, lanes_)}}, {{"m", to_beats(out, 1, bits_)}}};
  }
  std::optional<Timing> timing() const override { return Timing{beats_ + 1, beats_}; }
  int frames() const override { return 40; }

 private:
  unsigned beats_, lanes_, bits_;
  ElementType type_;
};

class Joined : public Case {
 public:
  explicit Joined(const Parameters& p)
      : type_{ElementType::Kind::kUnsigned, static_cast<std::uint8_t>(p["WIDTH"])},
        c0_(positive(p, "CF0")),
        c1_(positive(p, "CF1")) {}
  Frame frame(Rng& rng) override {
    const Values a = random_values(type_, kPixels * c0_, rng), b = random_values(type_, kPixels * c1_, rng);
    const Values out = run_reference(Concat{}, {{type_, {1, kPixels, c0_}}, {type_, {1, kPixels, c1_}}},
                                     {a, b}, {type_, {1, kPixels, c0_ + c1_}});
    return {{{"s0", to_beats(a, type_, 1)}, {"s1", to_beats(b, type_, 1)}}, {{"m", to_beats(out, type_, 1)}}};
  }
  std::optional<Timing> timing() const override { return Timing{1, std::uint64_t{kPixels} * (c0_ + c1_)}; }

 private:
  static constexpr std::uint32_t kPixels = 20;
  ElementType type_;
  unsigned c0_, c1_;
};

/// Tests a lookup table. kernels/reference applies the table to one operand, or to two operands that share a lane.
class Table : public Case {
 public:
  Table(const Parameters& p, Rng& rng)
      : lanes_(positive(p, "SIMD")),
        bits_(positive(p, "IBITS")),
        out_{ElementType::Kind::kSigned, static_cast<std::uint8_t>(p["OBITS"])} {
    pair_ = bits_ > 8;
    operand_ = element_type(p["FLIP"] != 0 ? 1 : 0, static_cast<int>(pair_ ? bits_ / 2 : bits_));
    for (unsigned i = 0; i < (1u << bits_); ++i)
      table_.push_back(static_cast<std::int16_t>(random_value(out_, rng)));
    const Values values(table_.begin(), table_.end());
    lines_ = to_beats(values, out_, 1);
    if (p["LOADED"] == 0) {
      write_hex(p.text("FILE"), lines_);
      lines_.clear();
    }
  }
  Frame frame(Rng& rng) override {
    const std::uint32_t count = kBeats * lanes_;
    const Operand shape{operand_, {1, 1, count}};
    const Values a = random_values(operand_, count, rng), b = random_values(operand_, count, rng);
    Values lanes = a, out;
    if (pair_) {
      Add add;
      add.lowest = static_cast<std::int32_t>(out_.lowest());
      add.highest = static_cast<std::int32_t>(out_.highest());
      add.table = table_;
      out = run_reference(add, {shape, shape}, {a, b}, {out_, {1, 1, count}});
      for (std::size_t i = 0; i < lanes.size(); ++i)
        lanes[i] = (a[i] << operand_.bits) | (b[i] & ((1 << operand_.bits) - 1));
    } else {
      out = run_reference(Lookup{table_}, {shape}, {a}, {out_, {1, 1, count}});
    }
    return {{{"s", to_beats(lanes, lanes_, bits_)}}, {{"m", to_beats(out, out_, lanes_)}}};
  }
  std::map<std::string, Beats> load() override {
    if (lines_.empty()) return {};
    return {{"l", lines_}};
  }
  std::optional<Timing> timing() const override { return Timing{2, kBeats}; }

 private:
  static constexpr std::uint32_t kBeats = 100;
  unsigned lanes_, bits_;
  ElementType operand_, out_;
  bool pair_ = false;
  std::vector<std::int16_t> table_;
  Beats lines_;
};

}  // namespace

void add_element_cases(Cases& cases) {
  cases["mr_pool"] = make_pool;
  cases["mr_reduce"] = make_reduce;
  cases["mr_vvu"] = [](const Parameters& p, Rng& rng) { return std::make_unique<Depthwise>(p, rng); };
  cases["mr_add"] = [](const Parameters& p, Rng&) { return std::make_unique<Sum>(p); };
  cases["mr_mul"] = [](const Parameters& p, Rng&) { return std::make_unique<Product>(p); };
  cases["mr_argmax"] = [](const Parameters& p, Rng&) { return std::make_unique<Argmax>(p); };
  cases["mr_concat"] = [](const Parameters& p, Rng&) { return std::make_unique<Joined>(p); };
  cases["mr_lut"] = [](const Parameters& p, Rng& rng) { return std::make_unique<Table>(p, rng); };
}

}  // namespace millrace::kernels::tb
