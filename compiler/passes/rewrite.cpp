#include "compiler/passes/rewrite.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"

namespace millrace::compiler::passes {

void refuse(Graph& graph, Node& node, const std::string& reason) {
  node.refused = true;
  graph.refusals.push_back({operation_name(node.operation), node.name, reason});
}

Error refusal_error(const Graph& graph) {
  const std::size_t count = graph.refusals.size();
  std::string text = std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " not supported:";
  for (std::size_t i = 0; i < std::min(count, graph::kMostListed); ++i) {
    const graph::Refusal& r = graph.refusals[i];
    text += "\n  " + r.operation + " '" + printable(r.node) + "': " + printable(r.reason);
  }
  return Error(ErrorCode::kUnsupported, text + graph::and_more(count));
}

const OnnxOperator* onnx_of(const Node& node) {
  return std::get_if<OnnxOperator>(&node.operation);
}

bool is_onnx(const Node& node, const char* type) {
  const OnnxOperator* op = onnx_of(node);
  return op != nullptr && op->type == type;
}

bool has_input(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

const graph::Constant* constant_input(const Graph& graph, const Node& node, std::size_t i) {
  return has_input(node, i) ? graph.value(node.inputs[i]).constant.get() : nullptr;
}

std::optional<std::vector<float>> known_floats(const Graph& graph, const graph::Uses& uses, ValueId id) {
  const Value& v = graph.value(id);
  if (v.constant != nullptr && v.type.is_float()) return v.constant->floats;
  if (uses.producer[id] < 0) return std::nullopt;
  const Node& n = graph.nodes[static_cast<std::size_t>(uses.producer[id])];
  if (!is_onnx(n, "DequantizeLinear")) return std::nullopt;
  const graph::Constant* q = constant_input(graph, n, 0);
  const graph::Constant* scale = constant_input(graph, n, 1);
  const graph::Constant* zero = constant_input(graph, n, 2);
  if (q == nullptr || scale == nullptr || (has_input(n, 2) && zero == nullptr)) return std::nullopt;
  if (scale->floats.empty()) return std::nullopt;
  std::int64_t extent = 1, inner = 1;
  if (scale->floats.size() > 1) {
    std::int64_t axis = onnx_of(n)->integer("axis", 1);
    const auto rank = static_cast<std::int64_t>(v.shape.size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    extent = v.shape[static_cast<std::size_t>(axis)];
    for (std::int64_t d = axis + 1; d < rank; ++d) inner *= v.shape[static_cast<std::size_t>(d)];
    if (extent != static_cast<std::int64_t>(scale->floats.size())) return std::nullopt;
  }
  if (zero != nullptr && zero->integers.size() != 1 && zero->integers.size() != scale->floats.size())
    return std::nullopt;
  std::vector<float> result;
  for (std::size_t i = 0; i < q->integers.size(); ++i) {
    const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % extent);
    const Chain one{{Step::dequantise(
        {scale->floats[c]}, zero == nullptr ? 0 : zero->integers[zero->integers.size() == 1 ? 0 : c])}};
    result.push_back(one.evaluate(graph::Number{false, q->integers[i], 0}, 0).real);
  }
  return result;
}

Node make_node(std::string name, graph::Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources) {
  Node n;
  n.name = std::move(name);
  n.operation = std::move(operation);
  n.inputs = std::move(inputs);
  n.outputs = {output};
  n.sources = std::move(sources);
  return n;
}

std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> result = a;
  for (const std::string& s : b)
    if (std::find(result.begin(), result.end(), s) == result.end()) result.push_back(s);
  return result;
}

void note_meaning(Value& value, const std::vector<float>& scale,
                  const std::vector<std::int64_t>& zero_point) {
  value.scale = scale;
  value.zero_point = zero_point.size() == 1 ? static_cast<std::int32_t>(zero_point[0]) : 0;
}

std::optional<AlongAxis> along_axis(const Value& constant, const Shape& shape) {
  AlongAxis result;
  if (constant.shape.size() > shape.size()) {
    // Leading ones do not enlarge anything.
    for (std::size_t i = 0; i + shape.size() < constant.shape.size(); ++i)
      if (constant.shape[i] != 1) return std::nullopt;
  }
  for (std::size_t i = 0; i < std::min(constant.shape.size(), shape.size()); ++i) {
    const std::size_t axis = shape.size() - 1 - i;
    const std::int64_t extent = constant.shape[constant.shape.size() - 1 - i];
    if (extent == 1) continue;
    if (extent != shape[axis] || result.axis >= 0) return std::nullopt;
    result.axis = static_cast<std::int64_t>(axis);
  }
  result.floats = constant.constant->floats;
  result.integers = constant.constant->integers;
  return result;
}

}  // namespace millrace::compiler::passes
