#include "compiler/import/infer.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "compiler/import/infer_rules.hpp"

namespace millrace::compiler::import {
namespace rules {

using graph::elements;
using graph::to_string;

std::string need(const Context& c, std::size_t inputs) {
  for (std::size_t i = 0; i < inputs; ++i)
    if (!c.has(i)) return "lacks input " + std::to_string(i + 1);
  return {};
}

std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis >= r) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + r : axis);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

std::optional<std::vector<std::int64_t>> integers_of(const Context& c, std::size_t input,
                                                     const char* attribute) {
  if (c.has(input)) {
    const Value& v = c.in(input);
    if (v.constant == nullptr || !v.type.is_integer()) return std::nullopt;
    return v.constant->integers;
  }
  if (c.op.has(attribute)) return c.op.integers(attribute, {});
  return std::nullopt;
}

std::string same(Context& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  c.type = c.in(0).type;
  c.shape = c.shape_of(0);
  return {};
}

std::string check_parameters(const Context& c, std::size_t data, std::optional<std::size_t> scale,
                             std::size_t zero, std::int64_t channels) {
  const auto count_of = [&](std::size_t i, const char* what) -> std::string {
    const std::int64_t n = elements(c.shape_of(i));
    if (n == 1 || (channels > 1 && n == channels)) return {};
    return "has " + std::to_string(n) + " " + what + " for its input '" + c.in(data).name + "' (input " +
           std::to_string(i + 1) + "); " +
           (channels > 1 ? "one, or one for each of " + std::to_string(channels) + " channels is taken"
                         : "one is taken");
  };
  if (scale) {
    if (!c.in(*scale).type.is_float()) return "has a scale that is no float";
    if (std::string why = count_of(*scale, "scales"); !why.empty()) return why;
  }
  if (!c.has(zero)) return {};
  if (c.in(zero).type != c.in(data).type)
    return "has a zero point of another type than its input '" + c.in(data).name + "'";
  return count_of(zero, "zero points");
}

std::string check_result(const Context& c, std::size_t scale, std::size_t zero) {
  if (!c.in(scale).type.is_float()) return "has a scale that is no float";
  if (elements(c.shape_of(scale)) != 1 || (c.has(zero) && elements(c.shape_of(zero)) != 1))
    return "has an output scale or zero point that is not one number";
  return c.type.is_integer() ? "" : "quantises to " + to_string(c.type);
}

std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& why : reasons)
    if (!why.empty()) return why;
  return {};
}

namespace {

using Rule = std::function<std::string(Context&)>;

std::string floats_only(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  return c.type.is_float() ? "" : "takes floats, its input '" + c.in(0).name + "' is " + to_string(c.type);
}

std::string binary(Context& c) {
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

std::string clip(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  for (std::size_t i = 1; i < 3; ++i)
    if (c.has(i) && (c.in(i).type != c.type || elements(c.shape_of(i)) != 1))
      return "has a bound of another type or shape";
  return {};
}

/// A scale and, where present, a zero point: scalars, or one along `axis` of what is (de)quantised.
std::string check_quantiser(const Context& c, std::size_t scale, std::size_t zero) {
  if (!c.in(scale).type.is_float()) return "has a scale that is no float";
  if (c.rank(scale) > 1)
    return "has a scale of rank " + std::to_string(c.rank(scale)) + " (blocked quantisation is not taken)";
  if (c.op.integer("block_size", 0) != 0) return "is quantised in blocks, which is not taken";
  const std::int64_t scales = elements(c.shape_of(scale));
  if (scales < 1) return "has an empty scale";
  if (scales > 1) {
    const auto axis = axis_in(c.op.integer("axis", 1), c.rank(0));
    if (!axis) return "has an axis outside its input of " + to_string(c.shape_of(0));
    if (c.shape_of(0)[*axis] != scales)
      return "has " + std::to_string(scales) + " scales for axis " + std::to_string(*axis) + " of " +
             to_string(c.shape_of(0));
  }
  if (c.has(zero) && elements(c.shape_of(zero)) != scales)
    return "has a scale and a zero point of different sizes";
  return {};
}

std::string quantise_linear(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (std::string why = check_quantiser(c, 1, 2); !why.empty()) return why;
  if (!c.in(0).type.is_float()) return "quantises what is no float";
  c.shape = c.shape_of(0);
  if (c.has(2)) {
    c.type = c.in(2).type;
  } else {
    switch (c.op.integer("output_dtype", 0)) {
      case 0:
      case 2:
        c.type = Type::natural(8);
        break;
      case 3:
        c.type = Type::integer(8);
        break;
      case 4:
        c.type = Type::natural(16);
        break;
      case 5:
        c.type = Type::integer(16);
        break;
      case 21:
        c.type = Type::natural(4);
        break;
      case 22:
        c.type = Type::integer(4);
        break;
      default:
        return "quantises to a type that is not taken";
    }
  }
  return c.type.is_integer() && c.type.bits <= 16 ? "" : "quantises to " + to_string(c.type);
}

std::string dequantise_linear(Context& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (std::string why = check_quantiser(c, 1, 2); !why.empty()) return why;
  if (!c.in(0).type.is_integer()) return "dequantises " + to_string(c.in(0).type);
  if (c.has(2) && c.in(2).type != c.in(0).type) return "has a zero point of another type than its input";
  c.type = Type::float32();
  c.shape = c.shape_of(0);
  return {};
}

std::string with_output_type(Context& c, std::size_t zero, const Rule& shape_rule) {
  if (std::string why = shape_rule(c); !why.empty()) return why;
  if (!c.type.is_integer()) return "takes integers";
  if (!c.has(1) || !c.has(3)) return "lacks a scale";
  if (c.has(zero)) c.type = c.in(zero).type;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_result(c, 3, zero)});
}

std::string qlinear_add(Context& c) {
  if (std::string why = need(c, 7); !why.empty()) return why;
  const auto shape = broadcast(c.shape_of(0), c.shape_of(3));
  if (!shape) return "has operands that do not broadcast";
  if (!c.in(0).type.is_integer() || !c.in(3).type.is_integer()) return "takes integers";
  c.type = c.has(7) ? c.in(7).type : c.in(0).type;
  c.shape = *shape;
  return first_of({check_parameters(c, 0, 1, 2, 1), check_parameters(c, 3, 4, 5, 1), check_result(c, 6, 7)});
}

std::string cast(Context& c) {
  if (std::string why = same(c); !why.empty()) return why;
  switch (c.op.integer("to", 0)) {
    case 1:
      c.type = Type::float32();
      return {};
    case 2:
      c.type = Type::natural(8);
      return {};
    case 3:
      c.type = Type::integer(8);
      return {};
    case 4:
      c.type = Type::natural(16);
      return {};
    case 5:
      c.type = Type::integer(16);
      return {};
    case 6:
      c.type = Type::integer(32);
      return {};
    case 7:
      c.type = Type::integer(64);
      return {};
    case 9:
      c.type = Type{Type::Kind::kBool, 8};
      return {};
    case 12:
      c.type = Type::natural(32);
      return {};
    default:
      return "casts to a type that is not taken";
  }
}

std::string batch_normalise(Context& c) {
  if (std::string why = floats_only(c); !why.empty()) return why;
  if (std::string why = need(c, 5); !why.empty()) return why;
  if (c.shape.size() < 2) return "takes [N, C, …]";
  for (std::size_t i = 1; i < 5; ++i)
    if (!c.in(i).type.is_float() || c.shape_of(i) != Shape{c.shape[1]})
      return "has a parameter of the wrong type or shape";
  return {};
}

const std::map<std::string, Rule>& known_rules() {
  static const std::map<std::string, Rule> kRules = {
      {"Add", binary},
      {"Sub", binary},
      {"Mul", binary},
      {"Div", binary},
      {"AveragePool", pool},
      {"MaxPool", pool},
      {"GlobalAveragePool", global_pool},
      {"GlobalMaxPool", global_pool},
      {"BatchNormalization", batch_normalise},
      {"Cast", cast},
      {"Clip", clip},
      {"Concat", concat},
      {"Conv", conv},
      {"ConvInteger", conv_integer},
      {"DequantizeLinear", dequantise_linear},
      {"Dropout", same},
      {"Flatten", flatten},
      {"Gather", gather},
      {"Gemm", gemm},
      {"HardSigmoid", floats_only},
      {"HardSwish", floats_only},
      {"Identity", same},
      {"LeakyRelu", floats_only},
      {"MatMul", matmul},
      {"MatMulInteger", matmul_integer},
      {"QGemm", qgemm},
      {"QLinearAdd", qlinear_add},
      {"QLinearConcat", qlinear_concat},
      {"QLinearConv", qlinear_conv},
      {"QLinearMatMul", qlinear_matmul},
      {"QLinearAveragePool", [](Context& c) { return with_output_type(c, 4, pool); }},
      {"QLinearGlobalAveragePool", [](Context& c) { return with_output_type(c, 4, global_pool); }},
      {"QLinearLeakyRelu", [](Context& c) { return with_output_type(c, 4, same); }},
      {"QLinearSigmoid", [](Context& c) { return with_output_type(c, 4, same); }},
      {"QuantizeLinear", quantise_linear},
      {"Relu", same},
      {"Reshape", reshape},
      {"Shape", shape_of},
      {"Sigmoid", floats_only},
      {"Slice", slice},
      {"Softmax", floats_only},
      {"Squeeze", squeeze},
      {"Tanh", floats_only},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze}};
  return kRules;
}

}  // namespace
}  // namespace rules

std::string infer(graph::Graph& graph, const graph::Node& node) {
  const auto& op = std::get<graph::OnnxOperator>(node.operation);
  const auto rule = rules::known_rules().find(op.type);
  if (rule == rules::known_rules().end()) return "has no shape rule";
  rules::Context c{graph, node, op, {}, {}};
  if (std::string why = rule->second(c); !why.empty()) return why;
  std::int64_t total = 1;
  for (const std::int64_t d : c.shape) {
    if (d < 0 || d > rules::kMostElements || (total *= d) > rules::kMostElements)
      return "would give a tensor of " + graph::to_string(c.shape) + ", which is absurd";
  }
  if (total == 0) return "gives an empty tensor of " + graph::to_string(c.shape);
  graph::Value& output = graph.value(node.outputs[0]);
  output.type = c.type;
  output.shape = c.shape;
  return {};
}

}  // namespace millrace::compiler::import
