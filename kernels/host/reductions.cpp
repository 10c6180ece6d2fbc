// Operators that combine elements along axes: reductions, softmax and normalisations.
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

/// A tensor seen as [outer][extent][inner], where `extent` is the length of the axis that an operator works along.
struct Along {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

/// Returns the axis that a Softmax works along. Before operator set 13, a Softmax works along `axis` and all later axes
/// together.
Along softmax_axes(const FloatOperator& op, std::string& why) {
  const Shape& in = op.operands[0].shape;
  const bool joins = op.opset < 13;
  const std::int64_t axis = axis_in(op.integer("axis", joins ? 1 : -1), in.size());
  if (axis < 0) why = "has an axis that its input does not have";
  Along a;
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
  const Along a = softmax_axes(c.op, why);
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

Shape layer_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0) || !is_float(op, 1)) {
    why = "needs an input and a scale";
    return {};
  }
  const Shape& in = op.operands[0].shape;
  const std::int64_t axis = axis_in(op.integer("axis", -1), in.size());
  if (axis < 0) {
    why = "has an axis that its input does not have";
    return {};
  }
  const Shape normalised(in.begin() + axis, in.end());
  for (std::size_t i = 1; i < op.operands.size(); ++i)
    if (is_float(op, i) && elements(op.operands[i].shape) != elements(normalised))
      why = "has a scale or bias that does not fit";
  return in;
}

void layer_normalise(const Call& c) {
  const Shape& in = c.shape(0);
  const auto axis = static_cast<std::size_t>(axis_in(c.op.integer("axis", -1), in.size()));
  const std::int64_t row = elements({in.begin() + static_cast<std::ptrdiff_t>(axis), in.end()});
  const float epsilon = c.op.real("epsilon", 1e-5F);
  const std::int64_t count = elements(in);
  for (std::int64_t start = 0; start < count; start += row) {
    const float* const x = c.inputs[0].floats + start;
    double sum = 0, squares = 0;  // in double, because a float32 sum of long rows loses digits
    for (std::int64_t i = 0; i < row; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(row);
    for (std::int64_t i = 0; i < row; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const auto factor = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(row) + epsilon));
    for (std::int64_t i = 0; i < row; ++i) {
      const float normal = (x[i] - static_cast<float>(mean)) * factor;
      c.result[start + i] = normal * c.inputs[1].floats[i] + (c.has(2) ? c.inputs[2].floats[i] : 0.0F);
    }
  }
}

/// Checks the operands. BatchNormalization has five (input, scale, bias, mean and variance); InstanceNormalization has
/// three (input, scale and bias).
template <std::size_t Operands>
Shape channel_shape(const FloatOperator& op, std::string& why) {
  if (op.operands.size() != Operands || !is_float(op, 0) || op.operands[0].shape.size() < 2) {
    why = "needs " + std::to_string(Operands) + " operands";
    return {};
  }
  for (std::size_t i = 1; i < Operands; ++i)
    if (!is_float(op, i) || op.operands[i].shape != Shape{op.operands[0].shape[1]})
      why = "needs one scale, bias, mean and variance per channel";
  return op.operands[0].shape;
}

/// Calls each(index of the plane's first element, channel, number of elements) for each plane of a tensor [N, C, ...].
template <class Each>
void for_each_plane(const Shape& in, Each each) {
  const std::int64_t plane = elements(in) / (in[0] * in[1]);
  for (std::int64_t p = 0; p < in[0] * in[1]; ++p) each(p * plane, p % in[1], plane);
}

void batch_normalise(const Call& c) {
  const float epsilon = c.op.real("epsilon", 1e-5F);
  for_each_plane(c.shape(0), [&](std::int64_t start, std::int64_t channel, std::int64_t plane) {
    const float factor = c.inputs[1].floats[channel] / std::sqrt(c.inputs[4].floats[channel] + epsilon);
    for (std::int64_t i = start; i < start + plane; ++i)
      c.result[i] =
          (c.inputs[0].floats[i] - c.inputs[3].floats[channel]) * factor + c.inputs[2].floats[channel];
  });
}

void instance_normalise(const Call& c) {
  const float epsilon = c.op.real("epsilon", 1e-5F);
  for_each_plane(c.shape(0), [&](std::int64_t start, std::int64_t channel, std::int64_t plane) {
    const float* const x = c.inputs[0].floats + start;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < plane; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(plane);
    for (std::int64_t i = 0; i < plane; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const auto factor = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(plane) + epsilon));
    for (std::int64_t i = 0; i < plane; ++i)
      c.result[start + i] = (x[i] - static_cast<float>(mean)) * factor * c.inputs[1].floats[channel] +
                            c.inputs[2].floats[channel];
  });
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr Rule kRules[] = {
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
    {"Softmax", softmax_shape, [](const Call& c) { softmax(c, false); }},
    {"LogSoftmax", softmax_shape, [](const Call& c) { softmax(c, true); }},
    {"LayerNormalization", layer_shape, layer_normalise},
    {"BatchNormalization", channel_shape<5>, batch_normalise},
    {"InstanceNormalization", channel_shape<3>, instance_normalise},
};

}  // namespace

std::span<const Rule> reductions() {
  return kRules;
}

}  // namespace millrace::kernels::host
