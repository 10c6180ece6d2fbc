// Benches of the modules that multiply, add and compare. kernels/reference computes the expected results.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/reference/reference.hpp"
#include "kernels/tb/integers.hpp"

namespace millrace::kernels::tb {
namespace {

std::int64_t ceil_log2(unsigned n) {
  return std::bit_width(n - 1);
}

class MatrixVector : public Case {
 public:
  MatrixVector(const Parameters& p, Rng& rng)
      : mh_(positive(p, "MH")),
        mw_(positive(p, "MW")),
        pe_(positive(p, "PE")),
        simd_(positive(p, "SIMD")),
        input_{element_type(p["AKIND"], p["ABITS"]), {1, 1, mw_}},
        output_{element_type(1, p["ACCBITS"]), {1, 1, mh_}} {
    layer_.out_channels = mh_;
    layer_.weight_type = element_type(p["WKIND"], p["WBITS"]);
    layer_.accumulator = output_.type;
    const bool paired = p["MUL"] == 2;
    for (unsigned i = 0; i < mh_ * mw_; ++i) {
      std::int64_t w = random_value(layer_.weight_type, rng);
      if (paired) w = std::max(w, layer_.weight_type.lowest() + 1);
      layer_.weights.edit().push_back(static_cast<std::int16_t>(w));
    }
    lines_ = weight_lines(paired);
    if (p["BIAS"] != 0) {
      Values bias;
      for (unsigned i = 0; i < mh_; ++i) bias.push_back(rng.between(-20, 20));
      layer_.bias.assign(bias.begin(), bias.end());
      const Beats lines = to_beats(bias, pe_, output_.type.bits);
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
    const Values x = random_values(input_.type, mw_, rng);
    const Values y = run_reference(layer_, {input_}, {x}, output_);
    return {{{"s", to_beats(x, input_.type, simd_)}}, {{"m", to_beats(y, output_.type, pe_)}}};
  }
  std::map<std::string, Beats> load() override {
    if (lines_.empty()) return {};
    return {{"l", lines_}};
  }
  std::optional<Timing> timing() const override {
    const std::int64_t sf = mw_ / simd_, nf = mh_ / pe_;
    return Timing{sf + 2 + ceil_log2(simd_) + (nf > 1 ? 1 : 0), static_cast<std::uint64_t>(sf * nf)};
  }
  int frames() const override { return 12; }

 private:
  Beats weight_lines(bool paired) const {
    const unsigned bits = layer_.weight_type.bits;
    Beats lines;
    for (unsigned nf = 0; nf < mh_ / pe_; ++nf) {
      for (unsigned sf = 0; sf < mw_ / simd_; ++sf) {
        Beat line(pe_ * simd_ * bits);
        for (unsigned p = 0; p < pe_; ++p) {
          for (unsigned s = 0; s < simd_; ++s) {
            const auto weight = [&](unsigned lane) {
              return layer_.weights[(nf * pe_ + lane) * mw_ + sf * simd_ + s];
            };
            std::int64_t w = field(layer_.weight_type, weight(p));
            if (paired && p % 2 == 1 && weight(p - 1) < 0) --w;
            line.set((p * simd_ + s) * bits, bits, static_cast<std::uint64_t>(w));
          }
        }
        lines.push_back(std::move(line));
      }
    }
    return lines;
  }

  unsigned mh_, mw_, pe_, simd_;
  Operand input_, output_;
  Convolution layer_;
  Beats lines_;
};

/// Tests a matrix-vector unit whose weights come as a stream and differ in every frame.
class StreamedMatrixVector : public Case {
 public:
  StreamedMatrixVector(const Parameters& p, Rng&)
      : mh_(positive(p, "MH")),
        mw_(positive(p, "MW")),
        pe_(positive(p, "PE")),
        simd_(positive(p, "SIMD")),
        input_{element_type(p["AKIND"], p["ABITS"]), {1, 1, mw_}},
        output_{element_type(1, p["ACCBITS"]), {1, 1, mh_}},
        weight_(element_type(p["WKIND"], p["WBITS"])) {}

  Frame frame(Rng& rng) override {
    Convolution layer;
    layer.out_channels = mh_;
    layer.weight_type = weight_;
    layer.accumulator = output_.type;
    for (unsigned i = 0; i < mh_ * mw_; ++i)
      layer.weights.edit().push_back(static_cast<std::int16_t>(random_value(weight_, rng)));
    Values lines;
    for (unsigned nf = 0; nf < mh_ / pe_; ++nf)
      for (unsigned sf = 0; sf < mw_ / simd_; ++sf)
        for (unsigned p = 0; p < pe_; ++p)
          for (unsigned s = 0; s < simd_; ++s)
            lines.push_back(field(weight_, layer.weights[(nf * pe_ + p) * mw_ + sf * simd_ + s]));
    const Values x = random_values(input_.type, mw_, rng);
    const Values y = run_reference(layer, {input_}, {x}, output_);
    return {{{"s0", to_beats(x, input_.type, simd_)}, {"s1", to_beats(lines, pe_ * simd_, weight_.bits)}},
            {{"m", to_beats(y, output_.type, pe_)}}};
  }
  std::optional<Timing> timing() const override {
    const std::int64_t sf = mw_ / simd_, nf = mh_ / pe_;
    return Timing{sf + 2 + ceil_log2(simd_) + (nf > 1 ? 1 : 0), static_cast<std::uint64_t>(sf * nf)};
  }
  int frames() const override { return 12; }

 private:
  unsigned mh_, mw_, pe_, simd_;
  Operand input_, output_;
  ElementType weight_;
};

/// Tests a step function on random accumulators and on the accumulators around each step.
class StepFunction : public Case {
 public:
  StepFunction(const Parameters& p, ElementType acc)
      : channels_(positive(p, "CHANNELS")),
        pe_(positive(p, "PE")),
        out_bits_(positive(p, "OBITS")),
        acc_(acc) {}

  Frame frame(Rng& rng) override {
    Values in, out;
    for (unsigned i = 0; i < kVectors * channels_; ++i) {
      const std::size_t c = i % channels_;
      in.push_back(rng.chance(0.3) ? random_value(acc_, rng) : interesting(c, rng));
      out.push_back(reference::requantise(function_, in.back(), c));
    }
    return {{{"s", to_beats(in, pe_, acc_.bits)}}, {{"m", to_beats(out, pe_, out_bits_)}}};
  }
  std::map<std::string, Beats> load() override {
    if (lines_.empty()) return {};
    return {{"l", lines_}};
  }
  std::optional<Timing> timing() const override { return Timing{latency_, kVectors * channels_ / pe_}; }

 protected:
  static constexpr unsigned kVectors = 10;
  virtual std::int64_t interesting(std::size_t channel, Rng& rng) const = 0;
  std::int64_t clipped(std::int64_t acc) const { return std::clamp(acc, acc_.lowest(), acc_.highest()); }

  unsigned channels_, pe_, out_bits_;
  ElementType acc_;
  Requantise function_;
  Beats lines_;
  std::int64_t latency_ = 0;
};

class MultiplyShift : public StepFunction {
 public:
  MultiplyShift(const Parameters& p, Rng& rng) : StepFunction(p, element_type(1, p["ACCBITS"])) {
    mbits_ = p["MBITS"];
    offbits_ = p["OFFBITS"];
    sbits_ = p["SBITS"];
    const bool half_even = p["ROUND_HALF_EVEN"] != 0;
    latency_ = 2 + (mbits_ > 0 ? 1 : 0) + (offbits_ > 0 ? 1 : 0) + (half_even ? 1 : 0);
    if (half_even) function_.form = Requantise::Form::kMultiplyShiftHalfEven;
    function_.lowest = p["LOWEST"];
    function_.highest = p["HIGHEST"];
    function_.zero_point = p["ZERO_POINT"];
    const unsigned entries = p["UNIFORM"] != 0 ? 1 : channels_;
    for (unsigned c = 0; c < entries; ++c) add_channel(p["SHIFT"], rng);
    lines_ = table_lines(entries);
    if (p["LOADED"] == 0) {
      write_hex(p.text("QFILE"), lines_);
      lines_.clear();
    }
  }

 private:
  void add_channel(int fixed_shift, Rng& rng) {
    const bool ties = function_.form == Requantise::Form::kMultiplyShiftHalfEven;
    std::int64_t multiplier = 1, offset = 0;
    if (mbits_ > 0) {
      multiplier = rng.between(std::int64_t{1} << (mbits_ - 3), (std::int64_t{1} << (mbits_ - 1)) - 1);
      // Random multipliers hardly ever give a value halfway between two integers, so half of the multipliers are powers
      // of two.
      if (ties && rng.chance(0.5)) multiplier = std::int64_t{1} << rng.between(0, mbits_ - 2);
    }
    int shift = fixed_shift;
    const int most = std::min((1 << sbits_) - 1, 62);
    // Choose a shift that maps the accumulator's range to about twice the output's range, or sometimes a random shift.
    if (shift < 0) {
      shift = std::clamp(static_cast<int>(acc_.bits) + std::max(mbits_ - 3, 0) - static_cast<int>(out_bits_),
                         0, most);
      if (mbits_ == 0 && rng.chance(0.6)) shift = static_cast<int>(rng.between(0, most));
    }
    if (offbits_ > 0) {
      const std::int64_t one = std::int64_t{1} << shift;
      offset = (ties ? 0 : one / 2) + rng.between(-3, 3) * one;
      if (ties && rng.chance(0.3)) offset += rng.between(-one, one);
      const std::int64_t limit = std::int64_t{1} << (offbits_ - 1);
      offset = std::clamp(offset, -limit, limit - 1);
    }
    function_.multiplier.push_back(static_cast<std::int32_t>(multiplier));
    function_.offset.push_back(offset);
    function_.shift.push_back(static_cast<std::uint8_t>(shift));
  }

  Beats table_lines(unsigned entries) const {
    const auto m = static_cast<unsigned>(mbits_), o = static_cast<unsigned>(offbits_),
               s = static_cast<unsigned>(sbits_);
    Beats lines;
    for (unsigned nf = 0; nf < (entries == 1 ? 1 : channels_ / pe_); ++nf) {
      Beat line(pe_ * (m + o + s));
      for (unsigned i = 0; i < pe_; ++i) {
        const std::size_t c = entries == 1 ? 0 : nf * pe_ + i;
        const unsigned low = i * (m + o + s);
        if (m > 0) line.set(low, m, static_cast<std::uint64_t>(function_.multiplier[c]));
        if (o > 0) line.set(low + m, o, static_cast<std::uint64_t>(function_.offset[c]));
        line.set(low + m + o, s, function_.shift[c]);
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  /// Returns an accumulator at most 1 away from a critical one: an accumulator whose unrounded result is close to an
  /// integer, or to a value halfway between two integers.
  std::int64_t interesting(std::size_t channel, Rng& rng) const override {
    const std::size_t c = function_.multiplier.size() == 1 ? 0 : channel;
    const std::int64_t level =
        rng.between(function_.lowest - 1, function_.highest + 1) - function_.zero_point;
    if (function_.shift[c] > 52) return clipped(rng.between(-1, 1));
    const std::int64_t half = rng.chance(0.5) ? (std::int64_t{1} << function_.shift[c]) / 2 : 0;
    const std::int64_t at = (level * (std::int64_t{1} << function_.shift[c]) + half - function_.offset[c]) /
                            function_.multiplier[c];
    return clipped(at + rng.between(-1, 1));
  }

  int mbits_ = 0, offbits_ = 0, sbits_ = 0;
};

class Thresholds : public StepFunction {
 public:
  Thresholds(const Parameters& p, Rng& rng) : StepFunction(p, element_type(1, p["ACCBITS"])) {
    latency_ = out_bits_ + 1;
    const std::int64_t steps = (1 << out_bits_) - 1;
    function_.form = Requantise::Form::kThresholds;
    function_.lowest = p["LOWEST"];
    function_.highest = static_cast<std::int32_t>(p["LOWEST"] + steps);
    const unsigned entries = p["UNIFORM"] != 0 ? 1 : channels_;
    for (unsigned c = 0; c < entries; ++c) {
      Values t;
      for (std::int64_t i = 0; i < steps; ++i) t.push_back(random_value(acc_, rng));
      if (rng.chance(0.3)) t.back() = acc_.highest() + 1;  // no accumulator reaches this step
      std::sort(t.begin(), t.end());
      function_.thresholds.insert(function_.thresholds.end(), t.begin(), t.end());
    }
    const unsigned bits = acc_.bits + 1u, groups = entries == 1 ? 1 : channels_ / pe_;
    for (unsigned lane = 0; lane < pe_; ++lane) {
      for (unsigned level = 0; level < out_bits_; ++level) {
        Beats nodes;
        for (unsigned nf = 0; nf < groups; ++nf) {
          for (unsigned k = 0; k < (1u << level); ++k) {
            const std::int64_t index = (2 * k + 1) * (1 << (out_bits_ - 1 - level)) - 1;
            const std::int64_t channel = entries == 1 ? 0 : nf * pe_ + lane;
            Beat node(bits);
            node.set(0, bits,
                     static_cast<std::uint64_t>(
                         function_.thresholds[static_cast<std::size_t>(channel * steps + index)]));
            nodes.push_back(std::move(node));
          }
        }
        const std::string lane_digits = std::to_string(1000 + lane).substr(1);
        if (p["LOADED"] == 0) {
          write_hex(p.text("TFILE") + "." + std::to_string(level) + "." + lane_digits, nodes);
        } else {
          lines_.insert(lines_.end(), nodes.begin(), nodes.end());
        }
      }
    }
  }

 private:
  std::int64_t interesting(std::size_t channel, Rng& rng) const override {
    const std::int64_t steps = function_.highest - function_.lowest;
    const std::int64_t c = static_cast<std::int64_t>(function_.thresholds.size()) == steps
                               ? 0
                               : static_cast<std::int64_t>(channel);
    return clipped(function_.thresholds[static_cast<std::size_t>(c * steps + rng.between(0, steps - 1))] +
                   rng.between(-1, 1));
  }
};

template <typename T>
std::unique_ptr<Case> make(const Parameters& p, Rng& rng) {
  return std::make_unique<T>(p, rng);
}

}  // namespace

void add_arithmetic_cases(Cases& cases) {
  cases["mr_mvu"] = make<MatrixVector>;
  cases["mr_mvu_streamed"] = make<StreamedMatrixVector>;
  cases["mr_requant"] = make<MultiplyShift>;
  cases["mr_threshold"] = make<Thresholds>;
}

}  // namespace millrace::kernels::tb
