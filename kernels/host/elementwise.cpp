// Functions of one element, and of two or more elements with broadcasting.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/rules.hpp"

namespace millrace::kernels::host {
namespace {

Shape first_shape(const FloatOperator& op, std::string& why) {
  if (!is_float(op, 0)) why = "needs a float32 operand";
  return why.empty() ? op.operands[0].shape : Shape{};
}

/// Writes f(x, operator) for each element x of the first operand.
template <class F>
void map(const Call& c, F f) {
  const auto count = static_cast<std::size_t>(elements(c.shape(0)));
  for (std::size_t i = 0; i < count; ++i) c.result[i] = f(c.inputs[0].floats[i]);
}

template <float (*F)(float)>
constexpr Rule unary(const char* type) {
  return {type, first_shape, [](const Call& c) { map(c, F); }};
}

/// Applies a function with the constants alpha and beta to each element. The constants are attributes of the operator;
/// the arguments `alpha` and `beta` are their default values.
template <class F>
void map_with_constants(const Call& c, float alpha, float beta, F f) {
  alpha = c.op.real("alpha", alpha);
  beta = c.op.real("beta", beta);
  map(c, [&](float x) { return f(x, alpha, beta); });
}

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

float sign(float x) {
  return static_cast<float>(x > 0) - static_cast<float>(x < 0);
}

float softplus(float x) {
  return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x)));
}

float gelu(float x, bool tanh) {
  constexpr float kRoot2OverPi = 0.7978845608F, kRootHalf = 0.7071067812F;
  if (tanh) return 0.5F * x * (1.0F + std::tanh(kRoot2OverPi * (x + 0.044715F * x * x * x)));
  return 0.5F * x * (1.0F + std::erf(x * kRootHalf));
}

constexpr float kSeluAlpha = 1.67326319217681884765625F, kSeluGamma = 1.05070102214813232421875F;

/// Clip's bounds are operands 2 and 3, or attributes in older operator sets.
Shape clip_shape(const FloatOperator& op, std::string& why) {
  for (std::size_t i = 1; i < op.operands.size(); ++i)
    if (is_float(op, i) && elements(op.operands[i].shape) != 1) why = "needs scalar bounds";
  if (op.operands.size() > 3) why = "has too many operands";
  return first_shape(op, why);
}

void clip(const Call& c) {
  using Limits = std::numeric_limits<float>;
  const float low = c.has(1) ? *c.inputs[1].floats : c.op.real("min", Limits::lowest());
  const float high = c.has(2) ? *c.inputs[2].floats : c.op.real("max", Limits::max());
  map(c, [&](float x) { return std::min(std::max(x, low), high); });
}

Shape broadcast_shape(const FloatOperator& op, std::string& why) {
  Shape shape;
  for (std::size_t i = 0; i < op.operands.size() && why.empty(); ++i) {
    const auto both = broadcast(shape, op.operands[i].shape);
    if (!is_float(op, i) || !both)
      why = "needs float32 operands that broadcast to one shape";
    else
      shape = *both;
  }
  return shape;
}

Shape binary_shape(const FloatOperator& op, std::string& why) {
  if (op.operands.size() != 2) why = "needs two operands";
  return broadcast_shape(op, why);
}

Shape prelu_shape(const FloatOperator& op, std::string& why) {
  Shape shape = binary_shape(op, why);
  if (why.empty() && shape != op.operands[0].shape) why = "has a slope that enlarges its input";
  return shape;
}

/// Combines all operands element by element, from left to right, with f(result so far, element of the next operand).
template <class F>
void combine(const Call& c, F f) {
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    const View& in = c.inputs[k];
    Shape strides(c.op.shape.size(), 0);
    const Shape own = strides_of(in.shape);
    const std::size_t missing = strides.size() - own.size();
    for (std::size_t axis = 0; axis < own.size(); ++axis)
      if (in.shape[axis] != 1) strides[missing + axis] = own[axis];
    for_each_offset(c.op.shape, strides, [&](std::size_t i, std::size_t from) {
      c.result[i] = k == 0 ? in.floats[from] : f(c.result[i], in.floats[from]);
    });
  }
}

// MultiThreshold is not an ONNX operator. It has two operands: the data, and ascending thresholds of shape [channels or
// 1, steps]. The data's channels lie along the attribute `axis`. Each element is replaced by the number of thresholds
// that it reaches.

Shape multi_threshold_shape(const FloatOperator& op, std::string& why) {
  const Shape shape = first_shape(op, why);
  if (!why.empty()) return shape;
  if (op.operands.size() != 2 || op.operands[1].kind != FloatOperand::Kind::kFloats ||
      op.operands[1].shape.size() != 2) {
    why = "needs constant thresholds, channels x steps";
    return shape;
  }
  const std::int64_t axis = axis_in(op.integer("axis", 1), shape.size());
  const std::int64_t channels = op.operands[1].shape[0];
  if (channels != 1 && (axis < 0 || shape[static_cast<std::size_t>(axis)] != channels))
    why = "needs one list of thresholds for all channels, or one list for each channel";
  return shape;
}

void multi_threshold(const Call& c) {
  const Shape& shape = c.shape(0);
  const auto steps = static_cast<std::size_t>(c.shape(1)[1]);
  const std::int64_t axis = axis_in(c.op.integer("axis", 1), shape.size());
  Shape strides(shape.size(), 0);
  if (c.shape(1)[0] != 1) strides[static_cast<std::size_t>(axis)] = c.shape(1)[1];
  for_each_offset(shape, strides, [&](std::size_t i, std::size_t first) {
    const float* begin = c.inputs[1].floats + first;
    const float x = c.inputs[0].floats[i];
    c.result[i] = std::isnan(x) ? 0 : static_cast<float>(std::upper_bound(begin, begin + steps, x) - begin);
  });
}

template <float (*F)(float, float)>
constexpr Rule binary(const char* type) {
  return {type, binary_shape, [](const Call& c) { combine(c, F); }};
}

constexpr Rule kElementwiseRules[] = {
    unary<[](float x) { return std::max(x, 0.0F); }>("Relu"),
    unary<sigmoid>("Sigmoid"),
    unary<[](float x) { return std::tanh(x); }>("Tanh"),
    unary<[](float x) { return std::exp(x); }>("Exp"),
    unary<[](float x) { return std::log(x); }>("Log"),
    unary<[](float x) { return std::sqrt(x); }>("Sqrt"),
    unary<[](float x) { return 1.0F / x; }>("Reciprocal"),
    unary<[](float x) { return std::abs(x); }>("Abs"),
    unary<[](float x) { return -x; }>("Neg"),
    unary<[](float x) { return std::floor(x); }>("Floor"),
    unary<[](float x) { return std::ceil(x); }>("Ceil"),
    unary<[](float x) { return std::nearbyint(x); }>("Round"),
    unary<[](float x) { return std::erf(x); }>("Erf"),
    unary<[](float x) { return std::sin(x); }>("Sin"),
    unary<[](float x) { return std::cos(x); }>("Cos"),
    unary<[](float x) { return std::tan(x); }>("Tan"),
    unary<[](float x) { return std::asin(x); }>("Asin"),
    unary<[](float x) { return std::acos(x); }>("Acos"),
    unary<[](float x) { return std::atan(x); }>("Atan"),
    unary<[](float x) { return std::sinh(x); }>("Sinh"),
    unary<[](float x) { return std::cosh(x); }>("Cosh"),
    unary<[](float x) { return std::asinh(x); }>("Asinh"),
    unary<[](float x) { return std::acosh(x); }>("Acosh"),
    unary<[](float x) { return std::atanh(x); }>("Atanh"),
    unary<sign>("Sign"),
    unary<softplus>("Softplus"),
    unary<[](float x) { return x / (1.0F + std::abs(x)); }>("Softsign"),
    unary<[](float x) { return x * std::tanh(softplus(x)); }>("Mish"),
    unary<[](float x) { return x * std::max(0.0F, std::min(1.0F, x / 6.0F + 0.5F)); }>("HardSwish"),
    unary<[](float x) { return x; }>("Identity"),
    unary<[](float x) { return x; }>("Dropout"),
    {"LeakyRelu", first_shape,
     [](const Call& c) {
       map_with_constants(c, 0.01F, 0, [](float x, float alpha, float) { return x < 0 ? x * alpha : x; });
     }},
    {"Elu", first_shape,
     [](const Call& c) {
       map_with_constants(c, 1.0F, 0,
                          [](float x, float alpha, float) { return x < 0 ? alpha * (std::exp(x) - 1) : x; });
     }},
    {"Celu", first_shape,
     [](const Call& c) {
       map_with_constants(c, 1.0F, 0, [](float x, float alpha, float) {
         return std::max(0.0F, x) + std::min(0.0F, alpha * (std::exp(x / alpha) - 1));
       });
     }},
    {"ThresholdedRelu", first_shape,
     [](const Call& c) {
       map_with_constants(c, 1.0F, 0, [](float x, float alpha, float) { return x > alpha ? x : 0.0F; });
     }},
    {"Swish", first_shape,
     [](const Call& c) {
       map_with_constants(c, 1.0F, 0, [](float x, float alpha, float) { return x * sigmoid(alpha * x); });
     }},
    {"Shrink", first_shape,
     [](const Call& c) {
       const float bias = c.op.real("bias", 0.0F), lambda = c.op.real("lambd", 0.5F);
       map(c, [&](float x) { return x < -lambda ? x + bias : x > lambda ? x - bias : 0.0F; });
     }},
    {"HardSigmoid", first_shape,
     [](const Call& c) {
       map_with_constants(c, 0.2F, 0.5F, [](float x, float alpha, float beta) {
         return std::max(0.0F, std::min(1.0F, alpha * x + beta));
       });
     }},
    {"Selu", first_shape,
     [](const Call& c) {
       const float alpha = c.op.real("alpha", kSeluAlpha), gamma = c.op.real("gamma", kSeluGamma);
       map(c, [&](float x) { return gamma * (x > 0 ? x : alpha * (std::exp(x) - 1)); });
     }},
    {"Gelu", first_shape,
     [](const Call& c) {
       const bool tanh = c.op.text("approximate", "none") == "tanh";
       map(c, [&](float x) { return gelu(x, tanh); });
     }},
    {"Clip", clip_shape, clip},
    {"MultiThreshold", multi_threshold_shape, multi_threshold},
    binary<[](float a, float b) { return a + b; }>("Add"),
    binary<[](float a, float b) { return a - b; }>("Sub"),
    binary<[](float a, float b) { return a * b; }>("Mul"),
    binary<[](float a, float b) { return a / b; }>("Div"),
    binary<[](float a, float b) { return std::pow(a, b); }>("Pow"),
    {"PRelu", prelu_shape,
     [](const Call& c) { combine(c, [](float x, float slope) { return x < 0 ? x * slope : x; }); }},
    {"Min", broadcast_shape,
     [](const Call& c) { combine(c, [](float a, float b) { return std::min(a, b); }); }},
    {"Max", broadcast_shape,
     [](const Call& c) { combine(c, [](float a, float b) { return std::max(a, b); }); }},
    {"Sum", broadcast_shape, [](const Call& c) { combine(c, [](float a, float b) { return a + b; }); }},
    {"Mean", broadcast_shape,
     [](const Call& c) {
       combine(c, [](float a, float b) { return a + b; });
       const auto count = static_cast<float>(c.inputs.size());
       const std::int64_t results = elements(c.op.shape);
       for (std::int64_t i = 0; i < results; ++i) c.result[i] /= count;
     }},
};

}  // namespace

std::span<const Rule> elementwise() {
  return kElementwiseRules;
}

}  // namespace millrace::kernels::host
