// Converts float nodes of an imported graph, and steps of chains (of element-wise functions), to operators that
// kernels/host computes. Also contains the table entries of operators that only the host computes.
#include <algorithm>
#include <array>
#include <utility>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

using kernels::FloatOperand;
using kernels::FloatOperator;

kernels::FloatAttribute attribute(const std::string& name, const graph::Attribute& value) {
  kernels::FloatAttribute out;
  out.name = name;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    out.integers = {*integer};
  else if (const auto* real = std::get_if<float>(&value))
    out.reals = {*real};
  else if (const auto* text = std::get_if<std::string>(&value))
    out.text = *text;
  else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value))
    out.integers = *integers;
  else
    out.reals = std::get<std::vector<float>>(value);
  return out;
}

/// Returns a value of the graph as an operand; null stands for an input that the node leaves out. Returns nothing if
/// the value is known only at run time and not float32.
std::optional<FloatOperand> operand_of(const Value* value) {
  FloatOperand operand;
  operand.kind = FloatOperand::Kind::kAbsent;
  if (value == nullptr) return operand;
  operand.shape = value->shape;
  operand.kind = FloatOperand::Kind::kTensor;
  if (value->constant == nullptr)
    return value->type == Type::float32() ? std::optional(std::move(operand)) : std::nullopt;
  operand.kind = value->type.is_float() ? FloatOperand::Kind::kFloats : FloatOperand::Kind::kIntegers;
  operand.floats = value->constant->floats;
  operand.integers = value->constant->integers;
  return operand;
}

/// Returns an ONNX operator as kernels/host represents it, but without the shape of its result.
std::optional<FloatOperator> operator_of(const OnnxOperator& op, const Inputs& inputs) {
  if (op.domain != kOnnx || !kernels::host::supports(op.type)) return std::nullopt;
  FloatOperator made;
  made.type = op.type;
  made.opset = op.opset;
  for (const auto& [name, value] : op.attributes) made.attributes.push_back(attribute(name, value));
  for (const Value* value : inputs) {
    auto operand = operand_of(value);
    if (!operand) return std::nullopt;
    made.operands.push_back(std::move(*operand));
  }
  return made;
}

Inputs inputs_of(const Graph& graph, const Node& node) {
  Inputs inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(has_input(node, i) ? &graph.value(node.inputs[i]) : nullptr);
  return inputs;
}

/// Returns a constant operand. It has several entries only if they run along `axis`.
FloatOperand constant_along(std::vector<float> floats, const Shape& shape, std::int64_t axis) {
  FloatOperand operand;
  operand.kind = FloatOperand::Kind::kFloats;
  if (floats.size() > 1) {
    operand.shape.assign(shape.size(), 1);
    operand.shape[*axis_in(axis, shape.size())] = static_cast<std::int64_t>(floats.size());
  }
  operand.floats = std::move(floats);
  return operand;
}

}  // namespace

std::optional<Constant> fold_host(const OnnxOperator& op, const Inputs& in, const Value& output) {
  auto made = operator_of(op, in);
  if (!made) return std::nullopt;
  made->shape = output.shape;
  if (!kernels::host::check(*made).empty()) return std::nullopt;
  Constant result;
  result.floats.resize(static_cast<std::size_t>(elements(output.shape)));
  kernels::host::compute(*made, {}, result.floats.data());
  return result;
}

std::string infer_host(Inference& c) {
  const auto made = operator_of(c.op, inputs_of(c.graph, c.node));
  if (!made) return "reads data that are not float32; the host computes this operator only in float32";
  std::string why;
  const auto shape = kernels::host::result_shape(*made, why);
  if (!shape) return why;
  c.type = Type::float32();
  c.shape = *shape;
  return {};
}

std::optional<FloatOperator> float_operator(const Graph& graph, const Node& node, const graph::Uses* uses) {
  const OnnxOperator* op = onnx_of(node);
  if (op == nullptr || graph.value(node.outputs[0]).type != Type::float32()) return std::nullopt;
  Inputs inputs = inputs_of(graph, node);
  std::vector<Value> known;
  known.reserve(inputs.size());
  for (std::size_t i = 0; uses != nullptr && i < inputs.size(); ++i) {
    if (inputs[i] == nullptr || inputs[i]->constant != nullptr) continue;
    auto floats = known_floats(graph, *uses, node.inputs[i]);
    if (!floats) continue;
    known.push_back(*inputs[i]);
    known.back().constant = std::make_shared<const Constant>(Constant{std::move(*floats), {}});
    inputs[i] = &known.back();
  }
  auto made = operator_of(*op, inputs);
  if (made) made->shape = graph.value(node.outputs[0]).shape;
  return made;
}

std::optional<FloatOperator> float_operator(const Step& step, const Shape& shape, std::int64_t axis) {
  using K = Step::Kind;
  constexpr std::array kKinds = {K::kMultiply, K::kAdd,     K::kDivide, K::kRelu,    K::kPRelu,
                                 K::kMinimum,  K::kMaximum, K::kClip,   K::kFunction};
  if (std::find(kKinds.begin(), kKinds.end(), step.kind) == kKinds.end()) return std::nullopt;
  FloatOperator op;
  op.type = operator_name(step);
  op.shape = shape;
  op.operands.push_back({FloatOperand::Kind::kTensor, shape, {}, {}});
  if (!step.floats.empty()) op.operands.push_back(constant_along(step.floats, shape, axis));
  // The constant is the second operand of Pow, but the first operand of a division of a constant by data.
  if (op.type == "Pow") op.operands.push_back(constant_along({step.low}, shape, -1));
  if (step.kind == K::kFunction && op.type == "Div")
    op.operands.insert(op.operands.begin(), constant_along({step.low}, shape, -1));
  if (step.kind == K::kClip)
    for (const float bound : {step.low, step.high}) op.operands.push_back(constant_along({bound}, shape, -1));
  if (step.kind == K::kFunction) add_constants(step, op);
  return kernels::host::check(op).empty() ? std::optional(std::move(op)) : std::nullopt;
}

std::span<const Operator> host() {
  static const std::vector<Operator> kRows = [] {
    std::vector<Operator> rows;
    // The names of the host's operators are string literals. They end with a zero byte, so data() is a C
    // string.
    for (const std::string_view type : kernels::host::operators())
      rows.push_back({.type = type.data(), .infer = infer_host, .fold = fold_host});
    return rows;
  }();
  return kRows;
}

}  // namespace millrace::compiler::operators
