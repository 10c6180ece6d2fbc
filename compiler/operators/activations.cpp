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

constexpr Activation rounding(const char* name, const char* onnx, float (*evaluate)(float, float, float),
                              const char* domain = kOnnx) {
  return {.function = {name, onnx, 0, evaluate, rising}, .domain = domain};
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
    {.function = {"sigmoid", "Sigmoid", 0, [](float x, float, float) { return 1.0F / (1.0F + std::exp(-x)); },
                  rising}},
    {.function = {"tanh", "Tanh", 0, [](float x, float, float) { return std::tanh(x); }, rising}},
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
    {.function = {
         "hard_swish", "HardSwish", 0,
         [](float x, float, float) { return x * std::max(0.0F, std::min(1.0F, x / 6.0F + 0.5F)); },
         [](float x_low, float, float, float) { return x_low >= 0 ? Trend::kRising : Trend::kUnproved; }},
     .fusion = Fusion::kNever},
    rounding("round", "Round", [](float x, float, float) { return std::nearbyint(x); }),
    rounding("floor", "Floor", [](float x, float, float) { return std::floor(x); }),
    rounding("ceil", "Ceil", [](float x, float, float) { return std::ceil(x); }),
    // ONNX has no operators for the other roundings of QONNX. They have no rows of their own there either.
    rounding(
        "round_to_zero", "RoundToZero", [](float x, float, float) { return std::trunc(x); }, kQonnx),
    rounding(
        "round_from_zero", "RoundFromZero",
        [](float x, float, float) { return std::copysign(std::ceil(std::abs(x)), x); }, kQonnx),
    rounding(
        "round_half_up", "RoundHalfUp", [](float x, float, float) { return std::round(x); }, kQonnx),
    rounding(
        "round_half_down", "RoundHalfDown",
        [](float x, float, float) { return std::copysign(std::ceil(std::abs(x) - 0.5F), x); }, kQonnx)};

Step step_of(const OnnxOperator& op) {
  const auto row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                [&](const Activation& a) { return op.type == a.function.onnx; });
  const auto constant = [&op](const char* attribute, float otherwise) {
    return attribute == nullptr ? 0 : op.real(attribute, otherwise);
  };
  return Step::apply(row->function, constant(row->low_attribute, row->low),
                     constant(row->high_attribute, row->high));
}

Outcome give_step(Site& site, Step step) {
  return site.give(Elementwise{{{std::move(step)}}, -1}, {site.node.inputs[0]});
}

/// Computes a function of one element if the element is known.
std::optional<Constant> fold_step(const Step& step, const Value& input) {
  const Chain chain{{step}};
  Constant c;
  for (const float f : input.constant->floats)
    c.floats.push_back(chain.evaluate(graph::Number{true, 0, f}, 0).real);
  return c;
}

std::optional<Constant> fold_activation(const OnnxOperator& op, const Inputs& in, const Value&) {
  return in[0]->type.is_float() ? fold_step(step_of(op), *in[0]) : std::nullopt;
}

std::optional<Constant> fold_relu(const OnnxOperator&, const Inputs& in, const Value&) {
  return in[0]->type.is_float() ? fold_step(Step::relu(), *in[0]) : std::nullopt;
}

Outcome lower_activation(Site& site) {
  return give_step(site, step_of(site.op));
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

/// Lowers Softmax along the channels of a vector or of a [1, C, H, W] value.
Outcome lower_softmax(Site& site) {
  const Shape& x = site.in(0).shape;
  const bool joins_axes = site.op.opset < 13;  // older versions flatten all axes from the given axis on
  const auto axis = axis_in(site.op.integer("axis", joins_axes ? 1 : -1), x.size());
  if (!axis) return "its axis is outside its input";
  std::int64_t extent = x[*axis];
  if (joins_axes)
    for (std::size_t i = *axis + 1; i < x.size(); ++i) extent *= x[i];
  const bool whole = extent == elements(x) && (x.size() != 4 || extent == x[1]);
  if (!whole && !(x.size() == 4 && *axis == 1 && !joins_axes))
    return "softmax of " + to_string(x) + " along axis " + std::to_string(*axis) + " is not supported";
  return site.give(graph::Softmax{}, {site.node.inputs[0]});
}

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
       .fusion = Fusion::kAlways},
      {.type = "Softmax", .infer = same_floats, .lower_elementwise = lower_softmax}};
  for (const Activation& a : kActivations)
    rows.push_back({.type = a.function.onnx,
                    .domain = a.domain,
                    .infer = same_floats,
                    .fold = fold_activation,
                    .lower_elementwise = lower_activation,
                    .computes = true,
                    .fusion = a.fusion});
  return rows;
}

}  // namespace

std::span<const Operator> activations() {
  static const std::vector<Operator> kRows = make_rows();
  return kRows;
}

}  // namespace millrace::compiler::operators
