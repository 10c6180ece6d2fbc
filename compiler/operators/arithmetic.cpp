// The table entries of Add, Sum, Sub, Mul, Div, Cast and BatchNormalization.
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "compiler/operators/elements.hpp"
#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

std::string infer_binary(Inference& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (c.in(0).type != c.in(1).type) return "has operands of different types";
  const auto shape = broadcast(c.shape_of(0), c.shape_of(1));
  if (!shape)
    return "has operands of " + to_string(c.shape_of(0)) + " and " + to_string(c.shape_of(1)) +
           ", which do not broadcast";
  c.type = c.in(0).type;
  c.shape = *shape;
  return {};
}

std::optional<Constant> fold_binary(const OnnxOperator& op, const Inputs& in, const Value& output) {
  if (in.size() != 2 || in[1] == nullptr) return std::nullopt;
  const auto a = broadcast_indices(in[0]->shape, output.shape);
  const auto b = broadcast_indices(in[1]->shape, output.shape);
  const auto combine = [&](const auto& x, const auto& y, auto& result, const auto& function) {
    for (std::size_t i = 0; i < a.size(); ++i) result.push_back(function(x[a[i]], y[b[i]]));
  };
  Constant c;
  if (output.type.is_float()) {
    const std::vector<float>&x = in[0]->constant->floats, &y = in[1]->constant->floats;
    if (op.type == "Add") combine(x, y, c.floats, std::plus<float>());
    if (op.type == "Sub") combine(x, y, c.floats, std::minus<float>());
    if (op.type == "Mul") combine(x, y, c.floats, std::multiplies<float>());
    if (op.type == "Div") combine(x, y, c.floats, std::divides<float>());
    return c;
  }
  const std::vector<std::int64_t>&x = in[0]->constant->integers, &y = in[1]->constant->integers;
  const auto wrapping = [](auto function) {
    return [function](std::int64_t p, std::int64_t q) {
      return static_cast<std::int64_t>(
          function(static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(q)));
    };
  };
  if (op.type == "Add") combine(x, y, c.integers, wrapping(std::plus<std::uint64_t>()));
  if (op.type == "Sub") combine(x, y, c.integers, wrapping(std::minus<std::uint64_t>()));
  if (op.type == "Mul") combine(x, y, c.integers, wrapping(std::multiplies<std::uint64_t>()));
  if (op.type == "Div") {
    for (const std::int64_t d : y)
      if (d == 0 || d == -1) return std::nullopt;
    combine(x, y, c.integers, std::divides<std::int64_t>());
  }
  return c;
}

/// The constant operand of a node, as elements along one axis of the other operand, or one for each element of the result.
struct KnownOperand {
  std::size_t data = 0;  // input index of the other operand
  AxisConstant constant;
  bool has_each = false;  // whether `constant` has an entry for each element of the result, row-major
};

/// Whether input `i` of the node is constant, or dequantised from a constant.
bool is_known(const Site& site, const Node& n, std::size_t i) {
  if (!has_input(n, i)) return false;
  if (constant_input(site.graph, n, i) != nullptr) return true;
  const Node* dequantiser = producer_of(site.graph, site.uses, n.inputs[i]);
  return dequantiser != nullptr && is_onnx(*dequantiser, "DequantizeLinear") &&
         constant_input(site.graph, *dequantiser, 0) != nullptr;
}

/// Whether `axis` of the value `v` has the channels of a layer. A Transpose may have put the channels of its input there, or
/// a matrix product with constant weights may have computed them; functions of single elements may follow. When later
/// passes move constants along `axis` to that layer, they become constants of its channels.
bool is_channels_of_layer(const Site& site, ValueId v, std::int64_t axis) {
  static const std::set<std::string> kOneByOne = {"Add", "Sub", "Mul", "Div", "Relu", "Clip", "Cast"};
  while (axis >= 0) {
    const Node* n = producer_of(site.graph, site.uses, v);
    const OnnxOperator* op = n == nullptr ? nullptr : graph::onnx_of(*n);
    if (op == nullptr || !op->domain.empty()) return false;
    const auto at = static_cast<std::size_t>(axis);
    if (op->type == "Transpose") {
      const auto perm = op->integers("perm", {});
      return at < perm.size() && perm[at] == 1;
    }
    if (op->type == "MatMul" || op->type == "MatMulInteger")
      return at + 1 == site.graph.value(v).shape.size() && is_known(site, *n, 1);
    if (!kOneByOne.contains(op->type)) return false;
    const std::size_t data = is_known(site, *n, 0) ? 1 : 0;
    const bool is_of_two = n->inputs.size() == 2 && !is_known(site, *n, 1 - data);
    if (is_of_two || !has_input(*n, data) ||
        site.graph.value(n->inputs[data]).shape != site.graph.value(v).shape)
      return false;
    v = n->inputs[data];
  }
  return false;
}

/// Returns the constant operand, or nothing if there is none. If it is not suitable, returns nothing and sets `why`.
std::optional<KnownOperand> known_operand(const Site& site, std::string& why) {
  for (const std::size_t side : {1U, 0U}) {
    Value known = site.in(side);
    if (known.constant == nullptr) {
      if (!known.type.is_float()) continue;
      auto floats = known_floats(site.graph, site.uses, site.node.inputs[side]);
      if (!floats) continue;
      known.constant = std::make_shared<const Constant>(Constant{std::move(*floats), {}});
    }
    const Shape &data = site.in(1 - side).shape, &result = site.result().shape;
    const auto along = along_axis(known, data);
    const bool is_plane = result.size() == 4 && result[0] == 1;  // its constants run along the channels only
    if (along && data == result &&
        (!is_plane || along->axis == 1 || along->axis < 0 ||
         is_channels_of_layer(site, site.node.inputs[1 - side], along->axis)))
      return KnownOperand{1 - side, *along, false};
    if (known.type.is_float() && elements(result) <= kMostElementsWithConstants) {
      AxisConstant each;
      for (const std::size_t i : broadcast_indices(known.shape, result))
        each.floats.push_back(known.constant->floats[i]);
      return KnownOperand{1 - side, std::move(each), true};
    }
    why = "its constant operand of " + to_string(known.shape) + " does not run along one axis of " +
          to_string(data) + ", and its result of " + to_string(result) + " has more than " +
          std::to_string(kMostElementsWithConstants) + " elements";
    return std::nullopt;
  }
  return std::nullopt;
}

// The functions "x to the power of a constant" (Pow) and "a constant divided by x" (Div).
constexpr graph::Function kPower = {
    "power", "Pow", 1, [](float x, float exponent, float) { return std::pow(x, exponent); },
    [](float x_low, float, float exponent, float) {
      return x_low >= 0 && exponent >= 0 ? graph::Trend::kRising : graph::Trend::kUnproved;
    }};
constexpr graph::Function kQuotient = {"quotient", "Div", 1,
                                       [](float x, float dividend, float) { return dividend / x; },
                                       [](float x_low, float x_high, float dividend, float) {
                                         if (!(x_low > 0) && !(x_high < 0)) return graph::Trend::kUnproved;
                                         return graph::trend_of_factor(-dividend);
                                       }};

template <class T>
std::vector<T> negated(std::vector<T> values) {
  for (T& v : values) v = -v;
  return values;
}

Outcome lower_with_constant(Site& site) {
  if (site.op.qlinear) return Outcome::later();
  std::string why;
  const auto known = known_operand(site, why);
  if (!known) return why.empty() ? Outcome::later() : why;
  const std::string type = site.op.type == "Sum" ? "Add" : site.op.type;
  const bool constant_first = known->data == 1;
  const std::vector<float>& floats = known->constant.floats;
  const std::vector<std::int64_t>& integers = known->constant.integers;
  const Type data = site.in(known->data).type;
  Chain chain;
  if (!data.is_float()) {
    if (data != Type::integer(32)) return type + " of " + to_string(data) + " is not supported";
    if (type != "Add" && (type != "Sub" || constant_first))
      return type + " of integers with a constant is not supported";
    chain.steps = {Step::add_integer(type == "Add" ? integers : negated(integers))};
  } else if (type == "Min" || type == "Max") {
    chain.steps = {type == "Min" ? Step::minimum(floats) : Step::maximum(floats)};
  } else if (type == "Add") {
    chain.steps = {Step::add(floats)};
  } else if (type == "Mul") {
    chain.steps = {Step::multiply(floats)};
  } else if (type == "Sub" && !constant_first) {
    chain.steps = {Step::add(negated(floats))};
  } else if (type == "Sub") {
    chain.steps = {Step::multiply({-1.0F}), Step::add(floats)};
  } else if (!constant_first) {
    chain.steps = {Step::divide(floats)};
  } else if (floats.size() == 1) {
    chain.steps = {Step::apply(kQuotient, floats[0])};
  } else {
    return "divides a constant with several elements by data; the constant must have only one element";
  }
  const ValueId x = site.node.inputs[known->data];
  if (known->has_each) return give_each_element(site, std::move(chain), x);
  return site.give(Elementwise{chain, chain.channels() > 1 ? known->constant.axis : -1}, {x});
}

/// Computes a function of two tensors. The chains of element-wise functions before both operands become part of the
/// operation.
Outcome combine(Site& site, Combine::Kind kind) {
  Combine c;
  c.kind = kind;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* n = site.producer(i);
    const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
    if (e == nullptr || !site.graph.value(n->inputs[0]).type.is_integer() || e->chain.channels() != 1)
      return not_quantised(site, i);
    (i == 0 ? c.a : c.b) = e->chain;
    operands.push_back(n->inputs[0]);
  }
  ValueId result = site.node.outputs[0];
  const bool dequantised = only_step(site.producer(0), Step::Kind::kDequantise) != nullptr &&
                           only_step(site.producer(1), Step::Kind::kDequantise) != nullptr;
  const std::string& type = site.op.type;
  const bool has_kernel = type == "Add" || type == "Mul";  // ONNX Runtime computes a Sum in float32
  if (const auto quantiser = dequantised && has_kernel ? fused_quantiser(site, operands) : std::nullopt) {
    c.arithmetic =
        quantiser->made_unsigned ? Combine::Arithmetic::kQLinearUnsigned : Combine::Arithmetic::kQLinear;
    c.tail = {{quantiser->quantise}};
    result = quantiser->result;
    absorb(site, *quantiser);
  }
  const Shape shape = site.result().shape;
  for (ValueId& operand : operands) operand = repeated(site, operand, shape);
  site.emit(std::move(c), operands, result);
  return {};
}

/// What surrounds the constants `known` of a QLinearAdd or QLinearMul: the other operand, the constants along one axis,
/// and the quantiser of the result.
struct BesideConstants {
  Dequantised data;
  AxisConstant along;
  FusedQuantiser quantiser;
};

std::optional<BesideConstants> beside_constants(Site& site, std::size_t side, const Dequantised& known,
                                                std::string& why) {
  auto data = activation(site, 1 - side, why);
  if (!data) return std::nullopt;
  const Shape& shape = site.in(1 - side).shape;
  auto along = along_axis(site.graph.value(known.q), shape);
  if (!along || shape != site.result().shape) {
    why = "its constant operand must vary along at most one axis of the data";
    return std::nullopt;
  }
  auto quantiser = fused_quantiser(site, {});
  if (!quantiser) {
    why = "its result must be quantised: only one node, a QuantizeLinear, may read the result";
    return std::nullopt;
  }
  return BesideConstants{std::move(*data), std::move(*along), std::move(*quantiser)};
}

/// Lowers QLinearAdd of a tensor and constants to a chain of element-wise functions on integers. ONNX Runtime's kernel
/// rounds once, but the chain rounds the product and the sum. Unless the scales are powers of two, a result that lies
/// between two steps may therefore differ.
Outcome add_constants(Site& site, std::size_t side, const Dequantised& known) {
  std::string why;
  const auto parts = beside_constants(site, side, known, why);
  if (!parts) return why;
  const auto& [data, along, quantiser] = *parts;
  const Step& quantise = quantiser.quantise;
  const float factor = known.scale[0] / quantise.floats[0];
  const float fixed = qlinear_add_of_zeros(Step::dequantise(data.scale, data.zero[0]),
                                           Step::dequantise(known.scale, known.zero[0]), quantise);
  std::vector<float> addend;
  for (const std::int64_t q : along.integers)
    addend.push_back(std::fma(static_cast<float>(q), factor, fixed));
  const Chain chain{{Step::to_float(), Step::multiply({data.scale[0] / quantise.floats[0]}),
                     Step::add(std::move(addend)),
                     Step::quantise({1.0F}, 0, quantise.lowest, quantise.highest)}};
  absorb(site, quantiser);
  site.emit(Elementwise{chain, along.axis}, {data.q}, quantiser.result);
  return {};
}

/// Lowers QLinearMul of a tensor and constants, element by element, in the steps of ONNX Runtime's kernel.
Outcome multiply_constants(Site& site, std::size_t side, const Dequantised& known) {
  std::string why;
  const auto parts = beside_constants(site, side, known, why);
  if (!parts) return why;
  const auto& [data, along, quantiser] = *parts;
  const Step& quantise = quantiser.quantise;
  std::vector<float> factors;
  for (const std::int64_t q : along.integers) factors.push_back(static_cast<float>(q - known.zero[0]));
  const Chain chain{{Step::dequantise({1.0F}, data.zero[0]), Step::multiply(std::move(factors)),
                     Step::multiply({data.scale[0] * known.scale[0] / quantise.floats[0]}),
                     Step::add({static_cast<float>(quantise.integers[0])}),
                     Step::quantise({1.0F}, 0, quantise.lowest, quantise.highest)}};
  absorb(site, quantiser);
  site.emit(Elementwise{chain, chain.channels() > 1 ? along.axis : -1}, {data.q}, quantiser.result);
  return {};
}

Outcome lower_add(Site& site) {
  for (const std::size_t side : {0U, 1U})
    if (const auto known = site.op.qlinear ? constant_operand(site, side) : std::nullopt)
      return add_constants(site, side, *known);
  return combine(site, Combine::Kind::kAdd);
}

Outcome lower_multiply(Site& site) {
  for (const std::size_t side : {0U, 1U})
    if (const auto known = site.op.qlinear ? constant_operand(site, side) : std::nullopt)
      return multiply_constants(site, side, *known);
  return combine(site, Combine::Kind::kMultiply);
}

template <Combine::Kind kind>
Outcome lower_combine(Site& site) {
  if (site.node.inputs.size() != 2)
    return "takes " + std::to_string(site.node.inputs.size()) + " tensors, not two";
  return combine(site, kind);
}

/// ONNX allows any number of operands for Min, Max and Sum. Only nodes with two operands are lowered.
std::string infer_variadic(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  for (std::size_t i = 1; i < c.count(); ++i) {
    if (!c.has(i)) return "leaves out an input";
    const auto shape = broadcast(c.shape, c.shape_of(i));
    if (!shape || c.in(i).type != c.type)
      return "has operands of different types, or operands whose shapes do not broadcast";
    c.shape = *shape;
  }
  return {};
}

Outcome lower_variadic(Site& site) {
  return site.node.inputs.size() == 2 ? lower_with_constant(site) : Outcome::later();
}

std::string infer_power(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  if (std::string why = need(c, 2); !why.empty()) return why;
  const auto shape = broadcast(c.shape, c.shape_of(1));
  if (!shape) return "has operands whose shapes do not broadcast";
  c.shape = *shape;
  return {};
}

Outcome lower_power(Site& site) {
  const Constant* exponent = site.constant(1);
  if (exponent == nullptr || exponent->size() != 1 || site.result().shape != site.in(0).shape)
    return "its exponent must be one constant";
  const float e = exponent->floats.empty() ? static_cast<float>(exponent->integers[0]) : exponent->floats[0];
  return site.give(Elementwise{{{Step::apply(kPower, e)}}, -1}, {site.node.inputs[0]});
}

std::string infer_cast(Inference& c) {
  if (std::string why = same(c); !why.empty()) return why;
  const auto type = type_of(c.op.integer("to", 0));
  if (!type || type->bits < 8) return "casts to a type that is not supported";
  c.type = *type;
  return {};
}

std::optional<Constant> fold_cast(const OnnxOperator&, const Inputs& in, const Value& output) {
  const Value& input = *in[0];
  if (input.type == output.type) return *input.constant;
  Constant c;
  if (output.type.is_float()) {
    for (const std::int64_t i : input.constant->integers) c.floats.push_back(static_cast<float>(i));
    return c;
  }
  for (const float f : input.constant->floats) {
    if (!(f >= -9.0e18F && f <= 9.0e18F)) return std::nullopt;
    c.integers.push_back(output.type.kind == Type::Kind::kBool ? (f != 0 ? 1 : 0)
                                                               : static_cast<std::int64_t>(f));
  }
  for (const std::int64_t i : input.constant->integers) c.integers.push_back(i);
  for (const std::int64_t i : c.integers)
    if (i < output.type.lowest() || i > output.type.highest()) return std::nullopt;
  return c;
}

Outcome lower_cast(Site& site) {
  const Type from = site.in(0).type, to = site.result().type;
  const bool widens =
      from.is_integer() && to.is_integer() && to.lowest() <= from.lowest() && to.highest() >= from.highest();
  const bool to_float = from.is_integer() && to == Type::float32();
  // Data of type INT64 are indices, so they fit 32 bits.
  if (from == Type::integer(64) && to == Type::integer(32))
    return site.give(
        Elementwise{{{Step::to_float(), Step::quantise({1.0F}, 0, to.lowest(), to.highest())}}, -1},
        {site.node.inputs[0]});
  if (!widens && !to_float)
    return "casts " + to_string(from) + " to " + to_string(to) + ", which is not supported";
  return site.give(Elementwise{{{to_float ? Step::to_float() : Step::add_integer({0})}}, -1},
                   {site.node.inputs[0]});
}

std::string infer_batch_normalisation(Inference& c) {
  if (std::string why = same_floats(c); !why.empty()) return why;
  if (std::string why = need(c, 5); !why.empty()) return why;
  if (c.shape.size() < 2) return "takes [N, C, …]";
  if (c.op.integer("spatial", 1) == 0)
    return "has statistics for each position (spatial 0), which is not supported";
  for (std::size_t i = 1; i < 5; ++i)
    if (!c.in(i).type.is_float() || c.shape_of(i) != Shape{c.shape[1]})
      return "has a parameter of the wrong type or shape";
  return {};
}

/// Lowers BatchNormalization to a factor and an addend per channel, which later become part of requantisation.
Outcome lower_batch_normalisation(Site& site) {
  const Constant *scale = site.constant(1), *bias = site.constant(2), *mean = site.constant(3),
                 *variance = site.constant(4);
  if (scale == nullptr || bias == nullptr || mean == nullptr || variance == nullptr ||
      site.op.integer("training_mode", 0) != 0)
    return "its parameters must be constants, and its training_mode must be 0";
  const float epsilon = site.op.real("epsilon", 1e-5F);
  std::vector<float> factors, addends;
  for (std::size_t c = 0; c < scale->floats.size(); ++c) {
    factors.push_back(scale->floats[c] / std::sqrt(variance->floats[c] + epsilon));
    addends.push_back(bias->floats[c] - mean->floats[c] * factors[c]);
  }
  const std::int64_t axis = factors.size() > 1 ? 1 : -1;
  return site.give(Elementwise{{{Step::multiply(std::move(factors)), Step::add(std::move(addends))}}, axis},
                   {site.node.inputs[0]});
}

constexpr Operator with_constant(const char* type, Lowering lower_qdq, const char* limits) {
  return {.type = type,
          .infer = infer_binary,
          .fold = fold_binary,
          .lower_elementwise = lower_with_constant,
          .lower_qdq = lower_qdq,
          .computes = true,
          .fusion = Fusion::kWithConstant,
          .limits = limits};
}

constexpr Operator kArithmetic[] = {
    with_constant("Add", lower_add,
                  "two quantised tensors that broadcast, or a tensor and a constant; "
                  "if the constant varies along several axes, the result has at most 8,192 elements"),
    with_constant("Sub", lower_combine<Combine::Kind::kSubtract>, "as Add"),
    with_constant("Mul", lower_multiply, "as Add"),
    with_constant("Div", lower_combine<Combine::Kind::kDivide>,
                  "division of a tensor by a constant (with the limits of Add), of one number by a tensor, "
                  "or of two quantised tensors"),
    {.type = "Min",
     .infer = infer_variadic,
     .lower_elementwise = lower_variadic,
     .lower_qdq = lower_combine<Combine::Kind::kMinimum>,
     .computes = true,
     .fusion = Fusion::kWithConstant,
     .limits = "two quantised tensors, or a tensor and a constant (with the limits of Add)"},
    {.type = "Max",
     .infer = infer_variadic,
     .lower_elementwise = lower_variadic,
     .lower_qdq = lower_combine<Combine::Kind::kMaximum>,
     .computes = true,
     .fusion = Fusion::kWithConstant,
     .limits = "two quantised tensors, or a tensor and a constant (with the limits of Add)"},
    {.type = "Sum",
     .infer = infer_variadic,
     .fold = fold_host,
     .lower_elementwise = lower_variadic,
     .lower_qdq = lower_combine<Combine::Kind::kAdd>,
     .computes = true,
     .fusion = Fusion::kWithConstant,
     .limits = "one or two quantised tensors, or a tensor and a constant (with the limits of Add); "
               "a sum of three or more tensors runs on the host"},
    {.type = "Pow",
     .infer = infer_power,
     .lower_elementwise = lower_power,
     .computes = true,
     .limits = "the exponent is one constant"},
    {.type = "Cast",
     .infer = infer_cast,
     .fold = fold_cast,
     .lower_elementwise = lower_cast,
     .limits = "conversion of integers to float32, or to an integer type that holds all their values; "
               "conversion of INT64 indices to INT32, or of a type to itself"},
    {.type = "BatchNormalization",
     .infer = infer_batch_normalisation,
     .lower_elementwise = lower_batch_normalisation,
     .computes = true,
     .fusion = Fusion::kAlways,
     .limits = "the parameters are constants; training_mode is 0, and spatial is 1"}};

}  // namespace

/// ONNX Runtime's compiled code fuses one multiplication and addition here, so this function calls std::fma().
float qlinear_add_of_zeros(const Step& a, const Step& b, const Step& quantise, std::int64_t shift) {
  const auto zero = [shift](const Step& s) { return static_cast<float>(s.integers[0] + shift); };
  const float factor_a = a.floats[0] / quantise.floats[0], factor_b = b.floats[0] / quantise.floats[0];
  return zero(quantise) - std::fma(factor_a, zero(a), factor_b * zero(b));
}

std::span<const Operator> arithmetic() {
  return kArithmetic;
}

}  // namespace millrace::compiler::operators
