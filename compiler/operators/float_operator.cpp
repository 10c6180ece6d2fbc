// Makes an operator of kernels/host from a float node of an imported graph.
#include <algorithm>

#include "compiler/operators/operators.hpp"
#include "kernels/host/float_operator.hpp"

namespace millrace::compiler::operators {
namespace {

using kernels::FloatOperand;

std::optional<FloatOperand> operand(const graph::Graph& graph, graph::ValueId v) {
  FloatOperand operand;
  operand.kind = FloatOperand::Kind::kAbsent;
  if (v == graph::kNoValue) return operand;
  const graph::Value& value = graph.value(v);
  operand.shape = value.shape;
  if (value.constant == nullptr) {
    operand.kind = FloatOperand::Kind::kTensor;
    return value.type.is_float() ? std::optional(std::move(operand)) : std::nullopt;
  }
  operand.kind = value.type.is_float() ? FloatOperand::Kind::kFloats : FloatOperand::Kind::kIntegers;
  operand.floats = value.constant->floats;
  operand.integers = value.constant->integers;
  return operand;
}

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

}  // namespace

std::optional<kernels::FloatOperator> float_operator(const graph::Graph& graph, const graph::Node& node) {
  const graph::OnnxOperator* op = graph::onnx_of(node);
  if (op == nullptr || op->domain != kOnnx || !kernels::host::supports(op->type)) return std::nullopt;
  const graph::Value& result = graph.value(node.outputs[0]);
  if (!result.type.is_float()) return std::nullopt;
  kernels::FloatOperator made;
  made.type = op->type;
  made.opset = op->opset;
  made.shape = result.shape;
  for (const auto& [name, value] : op->attributes) made.attributes.push_back(attribute(name, value));
  for (const graph::ValueId v : node.inputs) {
    auto read = operand(graph, v);
    if (!read) return std::nullopt;
    made.operands.push_back(std::move(*read));
  }
  return made;
}

}  // namespace millrace::compiler::operators
