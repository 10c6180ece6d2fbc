// Makes the block that computes a function of two operands of at most 8 bits, such as a sum or a product. Checks the
// block's results for all pairs of operand values.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "compiler/operators/rules.hpp"
#include "compiler/passes/blocks.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Combine;
using graph::Step;
using graph::Type;
using kernels::ElementType;

struct Pairs {
  ElementType a, b;
  std::vector<std::int16_t> table;
  std::int64_t lowest = 0, highest = 0;  // range of all results
};

/// Returns a function that computes the result for a pair of operands in float32, exactly as the ONNX model says.
PairFunction as_written(const Combine& c, ElementType b) {
  std::vector<float> right;
  for (std::int64_t y = b.lowest(); y <= b.highest(); ++y)
    right.push_back(c.b.evaluate(graph::Number{false, y, 0}, 0).real);
  return [&c, right = std::move(right), first = b.lowest()](std::int64_t x, std::int64_t y) {
    const float left = c.a.evaluate(graph::Number{false, x, 0}, 0).real;
    const float r = right[static_cast<std::size_t>(y - first)];
    return c.tail.evaluate(graph::Number{true, 0, graph::combined(c.kind, left, r)}, 0).integer;
  };
}

/// Returns a function that computes the result for a pair of operands as ONNX Runtime 1.30 does on x86 processors with
/// AVX2 and FMA (mlas, qladd_avx2.cpp and qlmul.cpp): ONNX Runtime adds the zero point before it
/// rounds. Its kernels for other processors may round a tie the other way. The function also applies the steps that
/// follow the quantiser to the rounded integers.
PairFunction by_kernel(const Combine& c) {
  const Step &a = c.a.steps[0], &b = c.b.steps[0], &quantise = c.tail.steps[0];
  // ONNX Runtime converts signed tensors to unsigned ones by adding 128.
  const std::int64_t shift = c.arithmetic == Combine::Arithmetic::kQLinearUnsigned ? 128 : 0;
  const float scale = quantise.floats[0], factor_a = a.floats[0] / scale, factor_b = b.floats[0] / scale;
  const float fixed = operators::qlinear_add_of_zeros(a, b, quantise, shift);
  const float product = a.floats[0] * b.floats[0] / scale;
  const auto zero = [shift](const Step& s) { return static_cast<float>(s.integers[0] + shift); };
  const float zero_a = zero(a), zero_b = zero(b), zero_result = zero(quantise);
  const bool adds = c.kind == Combine::Kind::kAdd;
  const graph::Chain rest{{c.tail.steps.begin() + 1, c.tail.steps.end()}};
  return [=, low = quantise.lowest, high = quantise.highest](std::int64_t p, std::int64_t q) {
    const auto x = static_cast<float>(p + shift), y = static_cast<float>(q + shift);
    const float result = adds ? std::fma(x, factor_a, std::fma(y, factor_b, fixed))
                              : (x - zero_a) * (y - zero_b) * product + zero_result;
    // Extreme scales can give an infinite result or NaN, which no integer represents. kFar is outside every clamp.
    constexpr float kFar = 1e9F;
    const float finite = std::isnan(result) ? 0.0F : std::clamp(result, -kFar, kFar);
    const std::int64_t rounded = static_cast<std::int64_t>(std::nearbyint(finite)) - shift;
    return rest.evaluate(std::clamp(rounded, low, high), 0);
  };
}

}  // namespace

PairFunction pair_function(const Combine& c, ElementType b) {
  return c.arithmetic == Combine::Arithmetic::kAsWritten ? as_written(c, b) : by_kernel(c);
}

namespace {

Pairs all_pairs(const Combine& c, ElementType a, ElementType b) {
  Pairs p{a, b, {}, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  const PairFunction result = pair_function(c, b);
  for (std::int64_t x = a.lowest(); x <= a.highest(); ++x)
    for (std::int64_t y = b.lowest(); y <= b.highest(); ++y) {
      const std::int64_t q = result(x, y);
      p.lowest = std::min(p.lowest, q);
      p.highest = std::max(p.highest, q);
      p.table.push_back(static_cast<std::int16_t>(q));
    }
  return p;
}

/// Returns an offset with which clamp((x * ma + y * mb + offset) >> shift) is the table's result for every pair (x, y).
/// Returns nothing if there is no such offset.
std::optional<std::int64_t> offset_of(const Pairs& p, std::int64_t ma, std::int64_t mb, int shift) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min() / 4, most = -least;
  std::size_t i = 0;
  for (std::int64_t x = p.a.lowest(); x <= p.a.highest(); ++x)
    for (std::int64_t y = p.b.lowest(); y <= p.b.highest(); ++y) {
      const std::int64_t q = p.table[i++], sum = x * ma + y * mb;
      if (q > p.lowest) least = std::max(least, (q << shift) - sum);
      if (q < p.highest) most = std::min(most, ((q + 1) << shift) - sum - 1);
      if (least > most) return std::nullopt;
    }
  return least <= 0 && most >= 0 ? 0 : least + (most - least) / 2;
}

/// Returns the slopes of a sum: by how many steps the result changes for one step of each operand. Returns nothing if
/// the operation does more than scale, add and clamp.
std::optional<std::pair<double, double>> slopes_of(const Combine& c) {
  if (c.kind != Combine::Kind::kAdd && c.kind != Combine::Kind::kSubtract) return std::nullopt;
  const auto scale = [](const graph::Chain& chain) -> double {
    return chain.steps.size() == 1 && chain.steps[0].kind == Step::Kind::kDequantise
               ? static_cast<double>(chain.steps[0].floats[0])
               : 0;
  };
  double out = 0;
  for (const Step& s : c.tail.steps) {
    if (s.kind == Step::Kind::kQuantise && out == 0)
      out = static_cast<double>(s.floats[0]);
    else if (s.kind != Step::Kind::kRelu && s.kind != Step::Kind::kClip &&
             s.kind != Step::Kind::kClampInteger)
      return std::nullopt;
  }
  const double a = scale(c.a), b = scale(c.b);
  if (!(a > 0) || !(b > 0) || !(out > 0)) return std::nullopt;
  return std::pair(a / out, c.kind == Combine::Kind::kAdd ? b / out : -b / out);
}

}  // namespace

Result<kernels::Add> make_add(const Combine& c, ElementType a, ElementType b, Type output) {
  const auto unsupported = [](std::string why) { return Error(ErrorCode::kUnsupported, std::move(why)); };
  if (!output.is_integer())
    return unsupported("its result is not quantised: put a QuantizeLinear after the node");
  if (a.bits > 8 || b.bits > 8)
    return unsupported("its operands are " + to_string(a) + " and " + to_string(b) +
                       "; at most 8 bits are supported: quantise the operands");
  if (output.lowest() < std::numeric_limits<std::int16_t>::min() ||
      output.highest() > std::numeric_limits<std::int16_t>::max())
    return unsupported("its result is " + to_string(output));
  Pairs p = all_pairs(c, a, b);
  kernels::Add add;
  add.lowest = static_cast<std::int32_t>(p.lowest);
  add.highest = static_cast<std::int32_t>(p.highest);
  if (const auto slopes = slopes_of(c)) {
    for (int shift = 0; shift <= 24; ++shift) {
      const double ma = std::ldexp(slopes->first, shift), mb = std::ldexp(slopes->second, shift);
      if (ma > 1e9 || std::abs(mb) > 1e9) break;
      if (ma < 0.5 || std::abs(mb) < 0.5) continue;
      const std::int64_t first = std::llround(ma), second = std::llround(mb);
      const auto offset = offset_of(p, first, second, shift);
      if (!offset) continue;
      add.multiplier_a = static_cast<std::int32_t>(first);
      add.multiplier_b = static_cast<std::int32_t>(second);
      add.offset = *offset;
      add.shift = static_cast<std::uint8_t>(shift);
      return add;
    }
  }
  add.table = std::move(p.table);
  return add;
}

}  // namespace millrace::compiler::passes
