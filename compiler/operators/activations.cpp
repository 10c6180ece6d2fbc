// The table entries of operators that compute a function of each element, and of Softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

using graph::Trend;

Trend rising(float, float, float, float) {
  return Trend::kRising;
}
Trend falling(float, float, float, float) {
  return Trend::kFalling;
}
/// The trend of a function that rises over positive inputs. If some inputs are negative, its trend is not proved.
Trend rising_if_positive(float x_low, float, float, float) {
  return x_low >= 0 ? Trend::kRising : Trend::kUnproved;
}
Trend unproved(float, float, float, float) {
  return Trend::kUnproved;
}
/// The trend of a function that rises if its first constant is positive.
Trend rising_if_alpha_is_positive(float, float, float alpha, float) {
  return alpha > 0 && std::isfinite(alpha) ? Trend::kRising : Trend::kUnproved;
}

float softplus(float x) {
  return x > 0 ? x + std::log(std::exp(-x) + 1.0F) : std::log(std::exp(x) + 1.0F);
}

/// A float32 function that an ONNX operator computes for each element. New functions must be added to kActivations.
struct Activation {
  graph::Function function;
  // The operator's attributes that become constants of the function, and their default values.
  const char* low_attribute = nullptr;
  const char* high_attribute = nullptr;
  float low = 0, high = 0;
  Fusion fusion = Fusion::kAlways;
  const char* domain = kOnnx;
};

/// A row for a function without constants.
constexpr Activation plain(const char* name, const char* onnx, float (*evaluate)(float, float, float),
                           Trend (*trend)(float, float, float, float), const char* domain = kOnnx) {
  return {.function = {name, onnx, 0, evaluate, trend},
          .fusion = trend == rising ? Fusion::kAlways : Fusion::kNever,
          .domain = domain};
}

constexpr Activation kActivations[] = {
    {.function = {"leaky_relu", "LeakyRelu", 1,
                  [](float x, float alpha, float) { return x < 0 ? x * alpha : x; },
                  [](float x_low, float x_high, float alpha, float) {
                    if (x_low >= 0 || alpha >= 0)
                      return std::isfinite(alpha) ? Trend::kRising : Trend::kUnproved;
                    return x_high <= 0 ? graph::trend_of_factor(alpha) : Trend::kUnproved;
                  }},
     .low_attribute = "alpha",
     .low = 0.01F},
    {.function = {
         "hard_sigmoid", "HardSigmoid", 2,
         [](float x, float alpha, float beta) { return std::max(0.0F, std::min(1.0F, alpha * x + beta)); },
         [](float, float, float alpha, float beta) {
           return std::isfinite(beta) ? graph::trend_of_factor(alpha) : Trend::kUnproved;
         }},
     .low_attribute = "alpha",
     .high_attribute = "beta",
     .low = 0.2F,
     .high = 0.5F},
    {.function = {"elu", "Elu", 1,
                  [](float x, float alpha, float) { return x < 0 ? alpha * (std::exp(x) - 1.0F) : x; },
                  rising_if_alpha_is_positive},
     .low_attribute = "alpha",
     .low = 1.0F},
    {.function = {"celu", "Celu", 1,
                  [](float x, float alpha, float) {
                    return x < 0 ? alpha * (std::exp(x / alpha) - 1.0F) : x;
                  },
                  rising_if_alpha_is_positive},
     .low_attribute = "alpha",
     .low = 1.0F},
    {.function = {
         "selu", "Selu", 2,
         [](float x, float alpha, float gamma) { return gamma * (x < 0 ? alpha * (std::exp(x) - 1.0F) : x); },
         [](float, float, float alpha, float gamma) {
           const bool rises = alpha > 0 && gamma > 0 && std::isfinite(alpha) && std::isfinite(gamma);
           return rises ? Trend::kRising : Trend::kUnproved;
         }},
     .low_attribute = "alpha",
     .high_attribute = "gamma",
     .low = 1.67326319217681884765625F,
     .high = 1.05070102214813232421875F},
    {.function = {
         "thresholded_relu", "ThresholdedRelu", 1,
         [](float x, float alpha, float) { return x > alpha ? x : 0.0F; },
         [](float, float, float alpha, float) { return alpha >= 0 ? Trend::kRising : Trend::kUnproved; }},
     .low_attribute = "alpha",
     .low = 1.0F},
    {.function = {"shrink", "Shrink", 2,
                  [](float x, float bias,
                     float lambda) { return x < -lambda  ? x + bias
                                            : x > lambda ? x - bias
                                                         : 0.0F; },
                  unproved},
     .low_attribute = "bias",
     .high_attribute = "lambd",
     .low = 0.0F,
     .high = 0.5F,
     .fusion = Fusion::kNever},
    {.function = {"swish", "Swish", 1,
                  [](float x, float alpha, float) { return x * (1.0F / (1.0F + std::exp(-alpha * x))); },
                  [](float x_low, float, float alpha, float) {
                    return x_low >= 0 && alpha >= 0 ? Trend::kRising : Trend::kUnproved;
                  }},
     .low_attribute = "alpha",
     .low = 1.0F,
     .fusion = Fusion::kNever},
    plain(
        "sigmoid", "Sigmoid", [](float x, float, float) { return 1.0F / (1.0F + std::exp(-x)); }, rising),
    plain(
        "tanh", "Tanh", [](float x, float, float) { return std::tanh(x); }, rising),
    plain(
        "softplus", "Softplus", [](float x, float, float) { return softplus(x); }, rising),
    plain(
        "softsign", "Softsign", [](float x, float, float) { return x / (1.0F + std::abs(x)); }, rising),
    plain(
        "erf", "Erf", [](float x, float, float) { return std::erf(x); }, rising),
    plain(
        "exp", "Exp", [](float x, float, float) { return std::exp(x); }, rising),
    plain(
        "floor", "Floor", [](float x, float, float) { return std::floor(x); }, rising),
    plain(
        "ceil", "Ceil", [](float x, float, float) { return std::ceil(x); }, rising),
    plain(
        "round", "Round", [](float x, float, float) { return std::nearbyint(x); }, rising),
    plain(
        "sign", "Sign", [](float x, float, float) { return x > 0   ? 1.0F
                                                           : x < 0 ? -1.0F
                                                                   : x; }, rising),
    plain(
        "atan", "Atan", [](float x, float, float) { return std::atan(x); }, rising),
    plain(
        "sinh", "Sinh", [](float x, float, float) { return std::sinh(x); }, rising),
    plain(
        "asinh", "Asinh", [](float x, float, float) { return std::asinh(x); }, rising),
    plain(
        "neg", "Neg", [](float x, float, float) { return -x; }, falling),
    plain(
        "hard_swish", "HardSwish",
        [](float x, float, float) { return x * std::max(0.0F, std::min(1.0F, x / 6.0F + 0.5F)); },
        rising_if_positive),
    plain(
        "mish", "Mish", [](float x, float, float) { return x * std::tanh(softplus(x)); }, rising_if_positive),
    plain(
        "sqrt", "Sqrt", [](float x, float, float) { return std::sqrt(x); }, rising_if_positive),
    plain(
        "log", "Log", [](float x, float, float) { return std::log(x); }, rising_if_positive),
    plain(
        "cosh", "Cosh", [](float x, float, float) { return std::cosh(x); }, rising_if_positive),
    plain(
        "abs", "Abs", [](float x, float, float) { return std::abs(x); },
        [](float x_low, float x_high, float, float) {
          return x_low >= 0 ? Trend::kRising : x_high <= 0 ? Trend::kFalling : Trend::kUnproved;
        }),
    plain(
        "reciprocal", "Reciprocal", [](float x, float, float) { return 1.0F / x; },
        [](float x_low, float x_high, float, float) {
          return x_low > 0 || x_high < 0 ? Trend::kFalling : Trend::kUnproved;
        }),
    plain(
        "sin", "Sin", [](float x, float, float) { return std::sin(x); }, unproved),
    plain(
        "cos", "Cos", [](float x, float, float) { return std::cos(x); }, unproved),
    plain(
        "tan", "Tan", [](float x, float, float) { return std::tan(x); }, unproved),
    plain(
        "asin", "Asin", [](float x, float, float) { return std::asin(x); }, unproved),
    plain(
        "acos", "Acos", [](float x, float, float) { return std::acos(x); }, unproved),
    plain(
        "acosh", "Acosh", [](float x, float, float) { return std::acosh(x); }, unproved),
    plain(
        "atanh", "Atanh", [](float x, float, float) { return std::atanh(x); }, unproved),
    plain(
        "gelu", "Gelu",
        [](float x, float, float) { return 0.5F * x * (1.0F + std::erf(x * 0.70710678118654752440F)); },
        rising_if_positive),
    // Roundings of QONNX for which ONNX has no operators. They are values of QONNX's attribute rounding_mode, not
    // operators of QONNX.
    plain(
        "round_to_zero", "RoundToZero", [](float x, float, float) { return std::trunc(x); }, rising, kQonnx),
    plain(
        "round_from_zero", "RoundFromZero",
        [](float x, float, float) { return std::copysign(std::ceil(std::abs(x)), x); }, rising, kQonnx),
    plain(
        "round_half_up", "RoundHalfUp", [](float x, float, float) { return std::round(x); }, rising, kQonnx),
    plain(
        "round_half_down", "RoundHalfDown",
        [](float x, float, float) { return std::copysign(std::ceil(std::abs(x) - 0.5F), x); }, rising,
        kQonnx)};

/// Gelu with the attribute approximate = "tanh".
constexpr graph::Function kGeluTanh = {
    "gelu_tanh", "Gelu", 0,
    [](float x, float, float) {
      return 0.5F * x * (1.0F + std::tanh(0.79788456080286535588F * (x + 0.044715F * x * x * x)));
    },
    rising_if_positive};

}  // namespace

std::optional<Step> activation_step(const OnnxOperator& op) {
  const auto row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                [&](const Activation& a) { return op.type == a.function.onnx; });
  if (row == std::end(kActivations)) return std::nullopt;
  if (op.type == "Gelu" && op.text("approximate", "none") == "tanh") return Step::apply(kGeluTanh);
  const auto constant = [&op](const char* attribute, float otherwise) {
    return attribute == nullptr ? 0 : op.real(attribute, otherwise);
  };
  return Step::apply(row->function, constant(row->low_attribute, row->low),
                     constant(row->high_attribute, row->high));
}

void add_constants(const Step& step, kernels::FloatOperator& op) {
  for (const Activation& a : kActivations) {
    if (op.type != a.function.onnx) continue;
    if (a.low_attribute != nullptr) op.attributes.push_back({a.low_attribute, {}, {step.low}, {}});
    if (a.high_attribute != nullptr) op.attributes.push_back({a.high_attribute, {}, {step.high}, {}});
  }
  if (step.function == &kGeluTanh) op.attributes.push_back({"approximate", {}, {}, "tanh"});
}

namespace {

Outcome give_step(Site& site, Step step) {
  return site.give(Elementwise{{{std::move(step)}}, -1}, {site.node.inputs[0]});
}

/// Folds a function of single elements: applies it to each element of a constant.
std::optional<Constant> fold_step(const Step& step, const Value& input) {
  const Chain chain{{step}};
  Constant c;
  for (const float f : input.constant->floats)
    c.floats.push_back(chain.evaluate(graph::Number{true, 0, f}, 0).real);
  return c;
}

std::optional<Constant> fold_activation(const OnnxOperator& op, const Inputs& in, const Value&) {
  return in[0]->type.is_float() ? fold_step(*activation_step(op), *in[0]) : std::nullopt;
}

std::optional<Constant> fold_relu(const OnnxOperator&, const Inputs& in, const Value&) {
  return in[0]->type.is_float() ? fold_step(Step::relu(), *in[0]) : std::nullopt;
}

Outcome lower_activation(Site& site) {
  return give_step(site, *activation_step(site.op));
}

Outcome lower_relu(Site& site) {
  const Type type = site.in(0).type;
  return give_step(site, type.is_float() ? Step::relu() : Step::clamp_integer(0, type.highest()));
}

std::string infer_clip(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  for (std::size_t i = 1; i < 3; ++i)
    if (c.has(i) && (c.in(i).type != c.type || elements(c.shape_of(i)) != 1))
      return "has a bound of another type or shape";
  return {};
}

/// Returns a bound of Clip: an input or, in older operator sets, an attribute.
std::optional<float> clip_bound(const Site& site, std::size_t input, const char* attribute, float otherwise) {
  if (!site.has(input)) return site.op.real(attribute, otherwise);
  const auto known = known_floats(site.graph, site.uses, site.node.inputs[input]);
  if (!known || known->size() != 1) return std::nullopt;
  return known->front();
}

Outcome lower_clip(Site& site) {
  constexpr const char* kNotConstant = "its bounds must be constants";
  if (const Type type = site.in(0).type; !type.is_float()) {
    const Constant *low = site.constant(1), *high = site.constant(2);
    if ((site.has(1) && low == nullptr) || (site.has(2) && high == nullptr)) return kNotConstant;
    return give_step(site, Step::clamp_integer(low == nullptr ? type.lowest() : low->integers[0],
                                               high == nullptr ? type.highest() : high->integers[0]));
  }
  const auto low = clip_bound(site, 1, "min", std::numeric_limits<float>::lowest());
  const auto high = clip_bound(site, 2, "max", std::numeric_limits<float>::max());
  if (!low || !high) return kNotConstant;
  if (!(*low <= *high)) return "its lower bound is above its upper bound";
  return give_step(site, Step::clip(*low, *high));
}

std::string infer_prelu(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (c.in(1).type != c.type || broadcast(c.shape_of(1), c.shape) != c.shape)
    return "has slopes of another type, or slopes whose shape does not broadcast to the input";
  return {};
}

/// Lowers PRelu. Its slopes must be one number, or one number for each index of an axis.
Outcome lower_prelu(Site& site) {
  Value slope = site.in(1);
  if (slope.constant == nullptr) {
    const auto known = known_floats(site.graph, site.uses, site.node.inputs[1]);
    if (!known) return "its slopes are not constant";
    slope.constant = std::make_shared<const Constant>(Constant{*known, {}});
  }
  const auto along = along_axis(slope, site.in(0).shape);
  if (!along) return "its slopes of " + to_string(slope.shape) + " do not run along one axis of its input";
  Chain chain{{Step::prelu(along->floats)}};
  const std::int64_t axis = chain.channels() > 1 ? along->axis : -1;
  return site.give(Elementwise{std::move(chain), axis}, {site.node.inputs[0]});
}

/// Softmax is supported along the channels of a vector or of [1, C, H, W].
Outcome lower_softmax(Site& site) {
  const Shape& x = site.in(0).shape;
  const bool joins_axes = site.op.opset < 13;  // older versions flatten all axes from the given axis on
  const auto axis = axis_in(site.op.integer("axis", joins_axes ? 1 : -1), x.size());
  if (!axis) return "its axis is outside its input";
  std::int64_t extent = x[*axis];
  if (joins_axes)
    for (std::size_t i = *axis + 1; i < x.size(); ++i) extent *= x[i];
  const bool whole = extent == elements(x) && (x.size() != 4 || extent == x[1]);
  if (!whole && !(x.size() == 4 && *axis == 1 && !joins_axes)) return "no hardware computes it";
  return site.give(graph::Softmax{}, {site.node.inputs[0]});
}

constexpr char kFunctionLimits[] =
    "in hardware, the function becomes a lookup table for inputs of at most 8 bits, "
    "or a part of the requantisation of a sum";

std::vector<Operator> make_rows() {
  std::vector<Operator> rows = {
      {.type = "Relu",
       .infer = same,
       .fold = fold_relu,
       .lower_elementwise = lower_relu,
       .computes = true,
       .fusion = Fusion::kAlways},
      {.type = "Clip",
       .infer = infer_clip,
       .lower_elementwise = lower_clip,
       .computes = true,
       .fusion = Fusion::kAlways,
       .limits = "the bounds are constants"},
      {.type = "PRelu",
       .infer = infer_prelu,
       .lower_elementwise = lower_prelu,
       .computes = true,
       .fusion = Fusion::kWithConstant,
       .limits = "the slopes are constants: one for the whole tensor, or one for each index of an axis"},
      {.type = "Softmax",
       .infer = same_floats,
       .lower_elementwise = lower_softmax,
       .hosted = true,
       .limits = "any axis; the host computes Softmax along the channels as an operation of its own, "
                 "and Softmax along other axes as a float32 operator"}};
  for (const Activation& a : kActivations)
    rows.push_back({.type = a.function.onnx,
                    .domain = a.domain,
                    .infer = same_floats,
                    .fold = fold_activation,
                    .lower_elementwise = lower_activation,
                    .computes = true,
                    .fusion = a.fusion,
                    .limits = kFunctionLimits});
  return rows;
}

}  // namespace

std::span<const Operator> activations() {
  static const std::vector<Operator> kRows = make_rows();
  return kRows;
}

}  // namespace millrace::compiler::operators
