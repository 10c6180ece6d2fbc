// Compiled with -ffp-contract=off: one rounding a step.
#include "compiler/graph/chain.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <sstream>

namespace millrace::compiler::graph {
namespace {

template <class T>
T pick(const std::vector<T>& values, std::size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

std::int64_t quantise_one(float x, float scale, std::int64_t zero_point, std::int64_t lowest,
                          std::int64_t highest) {
  const float scaled = x / scale;
  if (std::isnan(scaled)) return zero_point;
  const double rounded = static_cast<double>(std::nearbyint(scaled)) + static_cast<double>(zero_point);
  if (rounded <= static_cast<double>(lowest)) return lowest;
  if (rounded >= static_cast<double>(highest)) return highest;
  return static_cast<std::int64_t>(rounded);
}

bool takes_float(Step::Kind kind) {
  using K = Step::Kind;
  return kind != K::kAddInteger && kind != K::kClampInteger && kind != K::kToFloat && kind != K::kDequantise;
}

bool makes_float(Step::Kind kind) {
  using K = Step::Kind;
  return kind != K::kAddInteger && kind != K::kClampInteger && kind != K::kQuantise;
}

bool needs_floats(Step::Kind kind) {
  using K = Step::Kind;
  return kind == K::kDequantise || kind == K::kMultiply || kind == K::kAdd || kind == K::kDivide ||
         kind == K::kQuantise;
}

bool needs_integers(Step::Kind kind) {
  using K = Step::Kind;
  return kind == K::kAddInteger || kind == K::kDequantise || kind == K::kQuantise;
}

float evaluate_real(const Step& s, float x, std::size_t channel) {
  using K = Step::Kind;
  switch (s.kind) {
    case K::kMultiply:
      return x * pick(s.floats, channel);
    case K::kAdd:
      return x + pick(s.floats, channel);
    case K::kDivide:
      return x / pick(s.floats, channel);
    case K::kRelu:
      return x > 0 ? x : 0;
    case K::kClip:
      return std::min(std::max(x, s.low), s.high);
    case K::kLeakyRelu:
      return x < 0 ? x * s.low : x;
    case K::kSigmoid:
      return 1.0F / (1.0F + std::exp(-x));
    case K::kTanh:
      return std::tanh(x);
    case K::kHardSigmoid:
      return std::max(0.0F, std::min(1.0F, s.low * x + s.high));
    case K::kHardSwish:
      return x * std::max(0.0F, std::min(1.0F, x / 6.0F + 0.5F));
    default:
      break;
  }
  assert(false);
  return x;
}

Number apply(const Step& s, Number x, std::size_t channel) {
  using K = Step::Kind;
  switch (s.kind) {
    case K::kAddInteger:
      return {false, x.integer + pick(s.integers, channel), 0};
    case K::kClampInteger:
      return {false, std::min(std::max(x.integer, s.lowest), s.highest), 0};
    case K::kToFloat:
      return {true, 0, static_cast<float>(x.integer)};
    case K::kDequantise:
      return {true, 0, static_cast<float>(x.integer - pick(s.integers, channel)) * pick(s.floats, channel)};
    case K::kQuantise:
      return {false,
              quantise_one(x.real, pick(s.floats, channel), pick(s.integers, channel), s.lowest, s.highest),
              0};
    default:
      return {true, 0, evaluate_real(s, x.real, channel)};
  }
}

Course::Kind sign_of(float factor) {
  if (!std::isfinite(factor)) return Course::Kind::kUnproved;
  return factor < 0 ? Course::Kind::kFalling : Course::Kind::kRising;
}

/// One step's own course over inputs in low..high. A rounded monotone operation is monotone; a product of two
/// moving factors is only where both have one sign and move together. exp and tanh are taken to be monotone
/// as the C library rounds them.
Course::Kind course_of(const Step& s, float low, float high, std::size_t channel) {
  using K = Step::Kind;
  using C = Course::Kind;
  switch (s.kind) {
    case K::kDequantise:
    case K::kMultiply:
      return sign_of(pick(s.floats, channel));
    case K::kDivide:
    case K::kQuantise:
      return pick(s.floats, channel) == 0 ? C::kUnproved : sign_of(pick(s.floats, channel));
    case K::kAdd:
      return std::isfinite(pick(s.floats, channel)) ? C::kRising : C::kUnproved;
    case K::kClip:
      return std::isnan(s.low) || std::isnan(s.high) ? C::kUnproved : C::kRising;
    case K::kLeakyRelu:
      if (low >= 0 || s.low >= 0) return std::isfinite(s.low) ? C::kRising : C::kUnproved;
      return high <= 0 ? sign_of(s.low) : C::kUnproved;
    case K::kHardSigmoid:
      return std::isfinite(s.high) ? sign_of(s.low) : C::kUnproved;
    case K::kHardSwish:
      return low >= 0 ? C::kRising : C::kUnproved;
    default:
      return C::kRising;
  }
}

/// Where `steps[first]` is an accumulator's dequantisation that a quantiser ends, the quantiser's index; else
/// 0.
std::size_t quantiser_of(const std::vector<Step>& steps, std::size_t first) {
  if (steps[first].kind != Step::Kind::kDequantise || !steps[first].accumulator) return 0;
  std::size_t i = first + 1;
  while (i < steps.size() && (steps[i].kind == Step::Kind::kRelu || steps[i].kind == Step::Kind::kClip)) ++i;
  const bool found = i < steps.size() && steps[i].kind == Step::Kind::kQuantise &&
                     steps[i].floats.size() == 1 && steps[i].integers.size() == 1;
  return found ? i : 0;
}

}  // namespace

Step Step::add_integer(std::vector<std::int64_t> addend) {
  Step s;
  s.kind = Kind::kAddInteger;
  s.integers = std::move(addend);
  return s;
}

Step Step::clamp_integer(std::int64_t lowest, std::int64_t highest) {
  Step s;
  s.kind = Kind::kClampInteger;
  s.lowest = lowest;
  s.highest = highest;
  return s;
}

Step Step::to_float() {
  return {};
}

Step Step::dequantise(std::vector<float> scale, std::int64_t zero_point) {
  Step s;
  s.kind = Kind::kDequantise;
  s.floats = std::move(scale);
  s.integers = {zero_point};
  return s;
}

Step Step::multiply(std::vector<float> factor) {
  Step s;
  s.kind = Kind::kMultiply;
  s.floats = std::move(factor);
  return s;
}

Step Step::add(std::vector<float> addend) {
  Step s;
  s.kind = Kind::kAdd;
  s.floats = std::move(addend);
  return s;
}

Step Step::divide(std::vector<float> divisor) {
  Step s;
  s.kind = Kind::kDivide;
  s.floats = std::move(divisor);
  return s;
}

Step Step::relu() {
  Step s;
  s.kind = Kind::kRelu;
  return s;
}

Step Step::clip(float low, float high) {
  Step s;
  s.kind = Kind::kClip;
  s.low = low;
  s.high = high;
  return s;
}

Step Step::quantise(std::vector<float> scale, std::int64_t zero_point, std::int64_t lowest,
                    std::int64_t highest) {
  Step s;
  s.kind = Kind::kQuantise;
  s.floats = std::move(scale);
  s.integers = {zero_point};
  s.lowest = lowest;
  s.highest = highest;
  return s;
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

Course Chain::course(std::int64_t lowest, std::int64_t highest, std::size_t channel) const {
  // Monotone so far, the ends bound everything between.
  Number from{false, lowest, 0}, to{false, highest, 0};
  bool falling = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto [low, high] = std::minmax(from.real, to.real);
    const Course::Kind kind = course_of(steps[i], low, high, channel);
    from = apply(steps[i], from, channel);
    to = apply(steps[i], to, channel);
    const bool finite = std::isfinite(from.real) && std::isfinite(to.real);
    if (kind == Course::Kind::kUnproved || !finite) return {Course::Kind::kUnproved, i};
    falling = falling != (kind == Course::Kind::kFalling);
  }
  return {falling ? Course::Kind::kFalling : Course::Kind::kRising, 0};
}

bool Chain::is_increasing() const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t c = 0; c < channels(); ++c) {
    bool falling = false;
    for (const Step& s : steps) {
      const bool flattens =
          (s.kind == Step::Kind::kMultiply || s.kind == Step::Kind::kDequantise) && pick(s.floats, c) == 0;
      const Course::Kind kind = course_of(s, -kInfinity, kInfinity, c);
      // Infinity times zero is no number.
      if (kind == Course::Kind::kUnproved || flattens) return false;
      falling = falling != (kind == Course::Kind::kFalling);
    }
    if (falling) return false;
  }
  return true;
}

std::size_t Chain::channels() const {
  std::size_t n = 1;
  for (const Step& s : steps) n = std::max({n, s.floats.size(), s.integers.size()});
  return n;
}

std::string Chain::check(bool from_float) const {
  const std::size_t n = channels();
  bool is_float = from_float;
  for (const Step& s : steps) {
    if (takes_float(s.kind) != is_float)
      return "step '" + to_string(s) + "' takes " + (is_float ? "an integer" : "a float");
    const auto fits = [n](std::size_t size) { return size == 1 || size == n; };
    if (needs_floats(s.kind) && !fits(s.floats.size()))
      return "step '" + to_string(s) + "' lacks float constants";
    if (needs_integers(s.kind) && !fits(s.integers.size()))
      return "step '" + to_string(s) + "' lacks integer constants";
    is_float = makes_float(s.kind);
  }
  return {};
}

bool Chain::gives_float(bool from_float) const {
  return steps.empty() ? from_float : makes_float(steps.back().kind);
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

const char* operator_name(Step::Kind kind) {
  using K = Step::Kind;
  switch (kind) {
    case K::kAddInteger:
    case K::kAdd:
      return "Add";
    case K::kClampInteger:
    case K::kClip:
      return "Clip";
    case K::kToFloat:
      return "Cast";
    case K::kDequantise:
      return "DequantizeLinear";
    case K::kMultiply:
      return "Mul";
    case K::kDivide:
      return "Div";
    case K::kRelu:
      return "Relu";
    case K::kLeakyRelu:
      return "LeakyRelu";
    case K::kSigmoid:
      return "Sigmoid";
    case K::kTanh:
      return "Tanh";
    case K::kHardSigmoid:
      return "HardSigmoid";
    case K::kHardSwish:
      return "HardSwish";
    case K::kQuantise:
      return "QuantizeLinear";
  }
  return "";
}

std::string to_string(const Step& s) {
  using K = Step::Kind;
  std::ostringstream out;
  const auto list = [&out](const auto& values) {
    if (values.size() == 1)
      out << +values[0];
    else
      out << '[' << values.size() << ']';
  };
  switch (s.kind) {
    case K::kAddInteger:
      out << "add_integer ";
      list(s.integers);
      break;
    case K::kClampInteger:
      out << "clamp " << s.lowest << ' ' << s.highest;
      break;
    case K::kToFloat:
      out << "to_float";
      break;
    case K::kDequantise:
      out << "dequantise ";
      list(s.floats);
      out << ' ';
      list(s.integers);
      break;
    case K::kMultiply:
      out << "multiply ";
      list(s.floats);
      break;
    case K::kAdd:
      out << "add ";
      list(s.floats);
      break;
    case K::kDivide:
      out << "divide ";
      list(s.floats);
      break;
    case K::kRelu:
      out << "relu";
      break;
    case K::kClip:
      out << "clip " << s.low << ' ' << s.high;
      break;
    case K::kLeakyRelu:
      out << "leaky_relu " << s.low;
      break;
    case K::kSigmoid:
      out << "sigmoid";
      break;
    case K::kTanh:
      out << "tanh";
      break;
    case K::kHardSigmoid:
      out << "hard_sigmoid " << s.low << ' ' << s.high;
      break;
    case K::kHardSwish:
      out << "hard_swish";
      break;
    case K::kQuantise:
      out << "quantise ";
      list(s.floats);
      out << ' ';
      list(s.integers);
      break;
  }
  return out.str();
}

std::string to_string(const Chain& chain) {
  std::string text;
  for (const Step& s : chain.steps) text += (text.empty() ? "" : ", ") + to_string(s);
  return text;
}

}  // namespace millrace::compiler::graph
