// This file is compiled with -ffp-contract=off, because a fused multiply-add would round once where the ONNX model
// rounds twice.
#include "compiler/graph/chain.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <sstream>

namespace millrace::compiler::graph {
namespace {

std::int64_t quantise_one(float x, float scale, std::int64_t zero_point, std::int64_t lowest,
                          std::int64_t highest) {
  const float scaled = x / scale;
  if (std::isnan(scaled)) return zero_point;
  const double rounded = static_cast<double>(std::nearbyint(scaled)) + static_cast<double>(zero_point);
  if (rounded <= static_cast<double>(lowest)) return lowest;
  if (rounded >= static_cast<double>(highest)) return highest;
  return static_cast<std::int64_t>(rounded);
}

/// Returns how many of the ascending `thresholds` are at most `x`.
std::int64_t thresholds_reached(const std::vector<float>& thresholds, float x) {
  if (std::isnan(x)) return 0;
  return std::upper_bound(thresholds.begin(), thresholds.end(), x) - thresholds.begin();
}

struct Description {
  const char* name;  // the name that printed graphs use
  const char* onnx;  // the ONNX operator that the step comes from
  bool takes_float, makes_float;
  bool floats, integers;  // whether the step reads `floats` and `integers`
};

const Description& describe(Step::Kind kind) {
  static constexpr Description kDescriptions[] = {// In the order of Step::Kind.
                                                  {"add_integer", "Add", false, false, false, true},
                                                  {"clamp", "Clip", false, false, false, false},
                                                  {"to_float", "Cast", false, true, false, false},
                                                  {"dequantise", "DequantizeLinear", false, true, true, true},
                                                  {"multiply", "Mul", true, true, true, false},
                                                  {"add", "Add", true, true, true, false},
                                                  {"divide", "Div", true, true, true, false},
                                                  {"relu", "Relu", true, true, false, false},
                                                  {"prelu", "PRelu", true, true, true, false},
                                                  {"minimum", "Min", true, true, true, false},
                                                  {"maximum", "Max", true, true, true, false},
                                                  {"clip", "Clip", true, true, false, false},
                                                  {"function", "", true, true, false, false},
                                                  {"quantise", "QuantizeLinear", true, false, true, true},
                                                  {"thresholds", "MultiThreshold", true, false, false, false},
                                                  {"table", "Mul", false, false, false, false}};
  return kDescriptions[static_cast<std::size_t>(kind)];
}

Number apply(const Step& s, Number x, std::size_t channel) {
  using K = Step::Kind;
  const auto real = [](float value) { return Number{true, 0, value}; };
  const auto integer = [](std::int64_t value) { return Number{false, value, 0}; };
  switch (s.kind) {
    case K::kAddInteger:
      return integer(x.integer + pick(s.integers, channel));
    case K::kClampInteger:
      return integer(std::min(std::max(x.integer, s.lowest), s.highest));
    case K::kToFloat:
      return real(static_cast<float>(x.integer));
    case K::kDequantise:
      return real(static_cast<float>(x.integer - pick(s.integers, channel)) * pick(s.floats, channel));
    case K::kMultiply:
      return real(x.real * pick(s.floats, channel));
    case K::kAdd:
      return real(x.real + pick(s.floats, channel));
    case K::kDivide:
      return real(x.real / pick(s.floats, channel));
    case K::kRelu:
      return real(x.real > 0 ? x.real : 0);
    case K::kPRelu:
      return real(x.real < 0 ? x.real * pick(s.floats, channel) : x.real);
    case K::kMinimum:
      return real(std::min(x.real, pick(s.floats, channel)));
    case K::kMaximum:
      return real(std::max(x.real, pick(s.floats, channel)));
    case K::kClip:
      return real(std::min(std::max(x.real, s.low), s.high));
    case K::kFunction:
      return real(s.function->evaluate(x.real, s.low, s.high));
    case K::kQuantise:
      return integer(
          quantise_one(x.real, pick(s.floats, channel), pick(s.integers, channel), s.lowest, s.highest));
    case K::kThresholds:
      return integer(s.lowest + s.stride * thresholds_reached(pick(s.thresholds, channel), x.real));
    case K::kTable: {
      const auto last = static_cast<std::int64_t>(s.table.size()) - 1;
      return integer(
          s.table[static_cast<std::size_t>(std::clamp<std::int64_t>(x.integer - s.lowest, 0, last))]);
    }
  }
  return x;
}

/// Returns a step's trend over inputs from `low` to `high`. A monotone operation is still monotone after rounding.
Trend trend_of(const Step& s, float low, float high, std::size_t channel) {
  using K = Step::Kind;
  switch (s.kind) {
    case K::kDequantise:
    case K::kMultiply:
      return trend_of_factor(pick(s.floats, channel));
    case K::kDivide:
    case K::kQuantise:
      return pick(s.floats, channel) == 0 ? Trend::kUnproved : trend_of_factor(pick(s.floats, channel));
    case K::kAdd:
      return std::isfinite(pick(s.floats, channel)) ? Trend::kRising : Trend::kUnproved;
    case K::kMinimum:
    case K::kMaximum:
      return std::isnan(pick(s.floats, channel)) ? Trend::kUnproved : Trend::kRising;
    case K::kPRelu: {
      const float slope = pick(s.floats, channel);
      if (low >= 0 || slope >= 0) return std::isfinite(slope) ? Trend::kRising : Trend::kUnproved;
      return high <= 0 ? trend_of_factor(slope) : Trend::kUnproved;
    }
    case K::kTable:
      return Trend::kUnproved;  // a table has few inputs, so callers compare all results instead
    case K::kClip:
      return std::isnan(s.low) || std::isnan(s.high) ? Trend::kUnproved : Trend::kRising;
    case K::kFunction:
      return s.function->trend(low, high, s.low, s.high);
    default:
      return Trend::kRising;
  }
}

/// Returns the index of the quantiser with which the accumulator dequantisation `steps[first]` can be merged. Returns 0
/// if there is none.
std::size_t quantiser_of(const std::vector<Step>& steps, std::size_t first) {
  if (steps[first].kind != Step::Kind::kDequantise || !steps[first].accumulator || steps[first].written)
    return 0;
  std::size_t i = first + 1;
  while (i < steps.size() && (steps[i].kind == Step::Kind::kRelu || steps[i].kind == Step::Kind::kClip)) ++i;
  const bool found = i < steps.size() && steps[i].kind == Step::Kind::kQuantise &&
                     steps[i].floats.size() == 1 && steps[i].integers.size() == 1 && !steps[i].written;
  return found ? i : 0;
}

}  // namespace

Trend trend_of_factor(float factor) {
  if (!std::isfinite(factor)) return Trend::kUnproved;
  return factor < 0 ? Trend::kFalling : Trend::kRising;
}

Number Chain::evaluate(Number x, std::size_t channel) const {
  for (const Step& s : steps) x = apply(s, x, channel);
  return x;
}

std::int64_t Chain::evaluate(std::int64_t x, std::size_t channel) const {
  const Number result = evaluate(Number{false, x, 0}, channel);
  assert(!result.is_float);
  return result.integer;
}

ChainTrend Chain::trend(std::int64_t lowest, std::int64_t highest, std::size_t channel) const {
  // The results at both ends of the input's range bound all results between them, as long as the chain (of
  // element-wise functions) only rises or only falls.
  Number from{false, lowest, 0}, to{false, highest, 0};
  bool falling = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto [low, high] = std::minmax(from.real, to.real);
    const Trend trend = trend_of(steps[i], low, high, channel);
    from = apply(steps[i], from, channel);
    to = apply(steps[i], to, channel);
    const bool finite = std::isfinite(from.real) && std::isfinite(to.real);
    if (trend == Trend::kUnproved || !finite) return {Trend::kUnproved, i};
    falling = falling != (trend == Trend::kFalling);
  }
  return {falling ? Trend::kFalling : Trend::kRising, 0};
}

bool Chain::is_increasing() const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t c = 0; c < channels(); ++c) {
    bool falling = false;
    for (const Step& s : steps) {
      // A factor of zero turns an infinite input into NaN, so such a step proves nothing.
      const bool by_zero = (s.kind == Step::Kind::kMultiply || s.kind == Step::Kind::kDequantise ||
                            s.kind == Step::Kind::kPRelu) &&
                           pick(s.floats, c) == 0;
      const Trend trend = trend_of(s, -kInfinity, kInfinity, c);
      if (trend == Trend::kUnproved || by_zero) return false;
      falling = falling != (trend == Trend::kFalling);
    }
    if (falling) return false;
  }
  return true;
}

std::size_t Chain::channels() const {
  std::size_t n = 1;
  for (const Step& s : steps) n = std::max({n, s.floats.size(), s.integers.size(), s.thresholds.size()});
  return n;
}

std::string Chain::check(bool from_float) const {
  const std::size_t n = channels();
  bool is_float = from_float;
  for (const Step& s : steps) {
    const Description& d = describe(s.kind);
    const auto fits = [n](std::size_t size) { return size == 1 || size == n; };
    if (d.takes_float != is_float)
      return "step '" + to_string(s) + "' takes " + (is_float ? "an integer" : "a float");
    if (d.floats && !fits(s.floats.size())) return "step '" + to_string(s) + "' lacks float constants";
    if (s.kind == Step::Kind::kTable && s.table.empty()) return "step 'table' has no entries";
    if (d.integers && !fits(s.integers.size())) return "step '" + to_string(s) + "' lacks integer constants";
    if (s.kind == Step::Kind::kThresholds && !fits(s.thresholds.size()))
      return "step '" + to_string(s) + "' lacks thresholds";
    is_float = d.makes_float;
  }
  return {};
}

bool Chain::gives_float(bool from_float) const {
  return steps.empty() ? from_float : describe(steps.back().kind).makes_float;
}

Chain Chain::contracted() const {
  Chain result;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t end = quantiser_of(steps, i);
    if (end == 0) {
      result.steps.push_back(steps[i]);
      continue;
    }
    const Step& q = steps[end];
    std::vector<float> factor = steps[i].floats;
    for (float& f : factor) f = f / q.floats[0];
    if (steps[i].integers != std::vector<std::int64_t>{0}) {
      std::vector<std::int64_t> minus = steps[i].integers;
      for (std::int64_t& m : minus) m = -m;
      result.steps.push_back(Step::add_integer(std::move(minus)));
    }
    result.steps.push_back(Step::to_float());
    result.steps.push_back(Step::multiply(std::move(factor)));
    result.steps.push_back(Step::quantise({1.0F}, q.integers[0], q.lowest, q.highest));
    for (std::size_t k = i + 1; k < end; ++k) {
      const auto bound = [&q](float x) {
        return quantise_one(x, q.floats[0], q.integers[0], q.lowest, q.highest);
      };
      const bool relu = steps[k].kind == Step::Kind::kRelu;
      result.steps.push_back(
          Step::clamp_integer(bound(relu ? 0 : steps[k].low), relu ? q.highest : bound(steps[k].high)));
    }
    i = end;
  }
  return result;
}

Chain Chain::then(const Chain& next) const {
  Chain result = *this;
  result.steps.insert(result.steps.end(), next.steps.begin(), next.steps.end());
  return result;
}

const char* operator_name(const Step& step) {
  return step.function != nullptr ? step.function->onnx : describe(step.kind).onnx;
}

std::string to_string(const Step& s) {
  std::ostringstream out;
  const auto list = [&out](const auto& values) {
    if (values.size() == 1)
      out << ' ' << +values[0];
    else
      out << " [" << values.size() << ']';
  };
  out << (s.function != nullptr ? s.function->name : describe(s.kind).name);
  if (describe(s.kind).floats) list(s.floats);
  if (describe(s.kind).integers) list(s.integers);
  if (s.kind == Step::Kind::kThresholds)
    out << ' ' << s.lowest << " + " << s.stride << " [" << s.thresholds.size() << "]";
  if (s.kind == Step::Kind::kClampInteger) out << ' ' << s.lowest << ' ' << s.highest;
  const int constants = s.function != nullptr ? s.function->constants : s.kind == Step::Kind::kClip ? 2 : 0;
  if (constants > 0) out << ' ' << s.low;
  if (constants > 1) out << ' ' << s.high;
  return out.str();
}

std::string to_string(const Chain& chain) {
  std::string text;
  for (const Step& s : chain.steps) text += (text.empty() ? "" : ", ") + to_string(s);
  return text;
}

}  // namespace millrace::compiler::graph
