// Operators that combine elements along axes: reductions and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

/// Returns which axes a Reduce operator removes. Operand 2 names the axes or, in older operator sets, an attribute. If
/// no axis is named, all axes are removed.
std::vector<bool> reduced_axes(const FloatOperator& op, std::string& why) {
  const std::size_t rank = op.operands[0].shape.size();
  const auto axes = integers_of(op, 1, "axes");
  const bool none = !axes || axes->empty();
  std::vector<bool> reduced(rank, none && op.integer("noop_with_empty_axes", 0) == 0);
  if (none) return reduced;
  for (const std::int64_t axis : *axes) {
    const std::int64_t at = axis_in(axis, rank);
    if (at < 0) why = "reduces an axis that its input does not have";
    if (at >= 0) reduced[static_cast<std::size_t>(at)] = true;
  }
  return reduced;
}

Shape reduce_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) {
    why = "needs a float32 operand";
    return {};
  }
  const auto reduced = reduced_axes(op, why);
  const bool keeps = op.integer("keepdims", 1) != 0;
  Shape shape;
  for (std::size_t i = 0; i < reduced.size(); ++i)
    if (!reduced[i])
      shape.push_back(op.operands[0].shape[i]);
    else if (keeps)
      shape.push_back(1);
  return shape;
}

/// Reduces elements: combines all elements that belong to one result with add(result so far, element), then computes
/// finish(result, number of elements).
template <class Add, class Finish>
void reduce(const Call& c, float start, Add add, Finish finish) {
  std::string why;
  const auto reduced = reduced_axes(c.op, why);
  const Shape& in = c.shape(0);
  Shape kept(in.size(), 1);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!reduced[i]) kept[i] = in[i];
  Shape strides = strides_of(kept);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (reduced[i]) strides[i] = 0;
  const std::int64_t results = elements(kept);
  std::fill(c.result, c.result + results, start);
  for_each_offset(in, strides, [&](std::size_t i, std::size_t to) {
    c.result[to] = add(c.result[to], c.inputs[0].floats[i]);
  });
  const auto count = static_cast<float>(elements(in) / results);
  for (std::int64_t i = 0; i < results; ++i) c.result[i] = finish(c.result[i], count);
}

float as_it_is(float value, float) {
  return value;
}

/// Computes log(sum of exp(x)) as m + log(sum of exp(x - m)), where m is the largest element of all, so that no exponential
/// overflows.
void reduce_log_sum_exp(const Call& c) {
  const float* const x = c.inputs[0].floats;
  const float largest = *std::max_element(x, x + elements(c.shape(0)));
  reduce(
      c, 0, [largest](float sum, float e) { return sum + std::exp(e - largest); },
      [largest](float sum, float) { return largest + std::log(sum); });
}

/// A tensor seen as [outer][extent][inner], where `extent` is the length of the axis that an operator works along.
struct SoftmaxAxes {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

/// Returns the axis that a Softmax works along. Before operator set 13, a Softmax works along `axis` and all later axes
/// together.
SoftmaxAxes softmax_axes(const FloatOperator& op, std::string& why) {
  const Shape& in = op.operands[0].shape;
  const bool joins = op.opset < 13;
  const std::int64_t axis = axis_in(op.integer("axis", joins ? 1 : -1), in.size());
  if (axis < 0) why = "names an axis that its input does not have";
  SoftmaxAxes a;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    (at < axis ? a.outer : at == axis || joins ? a.extent : a.inner) *= in[i];
  }
  return a;
}

Shape softmax_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || op.operands.size() != 1) {
    why = "needs one float32 operand";
    return {};
  }
  softmax_axes(op, why);
  return op.operands[0].shape;
}

void softmax(const Call& c, bool logarithm) {
  std::string why;
  const SoftmaxAxes a = softmax_axes(c.op, why);
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (std::int64_t k = 0; k < a.inner; ++k) {
      const float* const x = c.inputs[0].floats + o * a.extent * a.inner + k;
      float* const y = c.result + (x - c.inputs[0].floats);
      float largest = x[0], sum = 0;
      for (std::int64_t i = 1; i < a.extent; ++i) largest = std::max(largest, x[i * a.inner]);
      for (std::int64_t i = 0; i < a.extent; ++i) {
        const float e = std::exp(x[i * a.inner] - largest);
        y[i * a.inner] = logarithm ? x[i * a.inner] - largest : e;
        sum += e;
      }
      const float log_sum = std::log(sum);
      for (std::int64_t i = 0; i < a.extent; ++i)
        if (logarithm)
          y[i * a.inner] -= log_sum;
        else
          y[i * a.inner] /= sum;
    }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr Rule kReductionRules[] = {
    {"ReduceSum", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float sum, float x) { return sum + x; }, as_it_is);
     }},
    {"ReduceMean", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float sum, float x) { return sum + x; }, [](float sum, float n) { return sum / n; });
     }},
    {"ReduceMax", reduce_shape,
     [](const Call& c) {
       reduce(
           c, -kInfinity, [](float a, float x) { return std::max(a, x); }, as_it_is);
     }},
    {"ReduceMin", reduce_shape,
     [](const Call& c) {
       reduce(
           c, kInfinity, [](float a, float x) { return std::min(a, x); }, as_it_is);
     }},
    {"ReduceProd", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 1, [](float a, float x) { return a * x; }, as_it_is);
     }},
    {"ReduceL1", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float a, float x) { return a + std::abs(x); }, as_it_is);
     }},
    {"ReduceL2", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float a, float x) { return a + x * x; }, [](float a, float) { return std::sqrt(a); });
     }},
    {"ReduceSumSquare", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float a, float x) { return a + x * x; }, as_it_is);
     }},
    {"ReduceLogSum", reduce_shape,
     [](const Call& c) {
       reduce(
           c, 0, [](float a, float x) { return a + x; }, [](float a, float) { return std::log(a); });
     }},
    {"ReduceLogSumExp", reduce_shape, reduce_log_sum_exp},
    {"Softmax", softmax_shape, [](const Call& c) { softmax(c, false); }},
    {"LogSoftmax", softmax_shape, [](const Call& c) { softmax(c, true); }},
};

}  // namespace

std::span<const Rule> reductions() {
  return kReductionRules;
}

}  // namespace millrace::kernels::host
