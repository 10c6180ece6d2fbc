#include "compiler/graph/nodes.hpp"

#include <algorithm>

#include "runtime/base/text.hpp"

namespace millrace::compiler::graph {

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

const Constant* constant_input(const Graph& graph, const Node& node, std::size_t i) {
  return has_input(node, i) ? graph.value(node.inputs[i]).constant.get() : nullptr;
}

const Node* producer_of(const Graph& graph, const Uses& uses, ValueId value) {
  const std::int64_t p = uses.producer[value];
  return p < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(p)];
}

std::optional<std::vector<float>> known_floats(const Graph& graph, const Uses& uses, ValueId id) {
  const Value& v = graph.value(id);
  if (v.constant != nullptr && v.type.is_float()) return v.constant->floats;
  const Node* n = producer_of(graph, uses, id);
  if (n == nullptr || !is_onnx(*n, "DequantizeLinear")) return std::nullopt;
  const Constant* q = constant_input(graph, *n, 0);
  const Constant* scale = constant_input(graph, *n, 1);
  const Constant* zero = constant_input(graph, *n, 2);
  if (q == nullptr || scale == nullptr || (has_input(*n, 2) && zero == nullptr)) return std::nullopt;
  const std::size_t scales = scale->floats.size();
  if (scales == 0 || (zero != nullptr && zero->integers.size() != 1 && zero->integers.size() != scales))
    return std::nullopt;
  AlongAxis channel;
  if (scales > 1) {
    const auto axis = axis_in(onnx_of(*n)->integer("axis", 1), v.shape.size());
    if (!axis || static_cast<std::size_t>(v.shape[*axis]) != scales) return std::nullopt;
    channel = AlongAxis(v.shape, *axis);
  }
  std::vector<float> result;
  for (std::size_t i = 0; i < q->integers.size(); ++i) {
    const std::size_t c = channel.index(i);
    const std::int64_t z = zero == nullptr ? 0 : zero->integers[zero->integers.size() == 1 ? 0 : c];
    const Chain one{{Step::dequantise({scale->floats[c]}, z)}};
    result.push_back(one.evaluate(Number{false, q->integers[i], 0}, 0).real);
  }
  return result;
}

void refuse(Graph& graph, Node& node, const std::string& reason) {
  node.refused = true;
  graph.refusals.push_back(operation_name(node.operation) + " '" + node.name + "': " + reason);
}

Error refusal_error(const Graph& graph) {
  constexpr std::size_t kMostListed = 10;
  const std::size_t count = graph.refusals.size();
  std::string text = std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " not supported:";
  for (std::size_t i = 0; i < std::min(count, kMostListed); ++i)
    text += "\n  " + printable(graph.refusals[i]);
  if (count > kMostListed) text += "\n  and " + std::to_string(count - kMostListed) + " more";
  return Error(ErrorCode::kUnsupported, text);
}

Node make_node(std::string name, Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources) {
  return {std::move(name), std::move(operation), std::move(inputs), {output}, std::move(sources)};
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

void copy_meaning(Graph& graph, ValueId from, ValueId to) {
  graph.value(to).scale = graph.value(from).scale;
  graph.value(to).zero_point = graph.value(from).zero_point;
}

void note_rounded_bias(Graph& graph, const Node& node, double accumulator_steps) {
  if (accumulator_steps <= 1e-3) return;
  graph.diagnostics.push_back(
      {node.name, "its bias is no multiple of input scale times weight scale: rounded, by up to " +
                      std::to_string(accumulator_steps) + " of an accumulator step"});
}

}  // namespace millrace::compiler::graph
