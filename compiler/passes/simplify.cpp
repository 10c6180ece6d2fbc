// Removes nodes whose results are constant, that nothing reads, or that do not change their input.
#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

bool changes_nothing(const Graph& graph, const Node& n) {
  const OnnxOperator* op = onnx_of(n);
  if (op == nullptr || n.inputs.empty() || n.inputs[0] == kNoValue) return false;
  if (op->type == "Identity" || op->type == "Dropout") return true;
  return op->type == "Cast" && graph.value(n.inputs[0]).type == graph.value(n.outputs[0]).type;
}

/// A node moves elements from shape `from` to shape `to`. Returns the axis of `to`, counted from the front, that
/// corresponds to axis `axis` of `from`. Returns nothing if no single axis of `to` corresponds to it.
std::optional<std::size_t> moved_axis(const OnnxOperator& op, const Shape& from, std::size_t axis,
                                      const Shape& to) {
  if (op.type == "Transpose") {
    const std::vector<std::int64_t> perm = op.integers("perm", {});
    if (perm.empty()) return from.size() - 1 - axis;
    const auto found = std::find(perm.begin(), perm.end(), static_cast<std::int64_t>(axis));
    return static_cast<std::size_t>(found - perm.begin());
  }
  // A node that is no Transpose keeps the order of the elements. An axis of `to` corresponds to the old axis if it has
  // the same length and the same number of elements after it.
  const graph::AlongAxis old(from, axis);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (const graph::AlongAxis now(to, i); now.extent == old.extent && now.inner == old.inner) return i;
  return std::nullopt;
}

/// If `n` moves the elements of a dequantised constant, moves the integers instead and makes `n` their dequantiser.
/// Weights and biases thus stay integers behind Transpose and Reshape.
void move_below_dequantiser(Graph& graph, Node& n, const Node* producer) {
  static const std::set<std::string> kMoves = {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"};
  const OnnxOperator* op = onnx_of(n);
  if (op == nullptr || !op->domain.empty() || !kMoves.contains(op->type) || producer == nullptr ||
      !is_onnx(*producer, "DequantizeLinear"))
    return;
  const graph::Constant* scale = constant_input(graph, *producer, 1);
  if (constant_input(graph, *producer, 0) == nullptr || scale == nullptr) return;
  OnnxOperator dequantise = *onnx_of(*producer);
  const ValueId integers = producer->inputs[0];
  const Shape from = graph.value(integers).shape, to = graph.value(n.outputs[0]).shape;
  if (scale->size() > 1) {
    const auto axis = graph::axis_in(dequantise.integer("axis", 1), from.size());
    const auto moved = axis ? moved_axis(*op, from, *axis, to) : std::nullopt;
    if (!moved) return;
    dequantise.attributes["axis"] = static_cast<std::int64_t>(*moved);
  }
  const ValueId q =
      graph.add_value(graph.value(n.outputs[0]).name + ".integers", graph.value(integers).type, to);
  Node move = make_node(n.name + ".integers", *op, n.inputs, q, n.sources);
  move.inputs[0] = integers;
  auto known = operators::fold(graph, move);
  if (!known) return;
  graph.value(q).constant = std::make_shared<const graph::Constant>(std::move(*known));
  n.operation = std::move(dequantise);
  n.inputs = producer->inputs;
  n.inputs[0] = q;
}

void remove_unread(Graph& graph) {
  std::vector<bool> wanted(graph.values.size(), false);
  for (const ValueId v : graph.outputs) wanted[v] = true;
  std::vector<Node> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    Node& n = graph.nodes[i];
    if (std::none_of(n.outputs.begin(), n.outputs.end(),
                     [&wanted](ValueId v) { return v != kNoValue && wanted[v]; }))
      continue;
    for (const ValueId v : n.inputs)
      if (v != kNoValue) wanted[v] = true;
    kept.push_back(std::move(n));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

}  // namespace

Replacements::Replacements(const Graph& graph) : by_(graph.values.size()) {
  std::iota(by_.begin(), by_.end(), ValueId{0});
}

void Replacements::replace(Graph& graph, ValueId from, ValueId to) {
  by_[from] = of(to);
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, by_[from]);
}

ValueId Replacements::of(ValueId v) {
  while (by_[v] != v) {
    by_[v] = by_[by_[v]];  // so that the next search is shorter
    v = by_[v];
  }
  return v;
}

void Replacements::apply(Graph& graph) {
  for (Node& n : graph.nodes)
    for (ValueId& v : n.inputs)
      if (v != kNoValue) v = of(v);
}

/// Replaces operators whose inputs are all constants by their results. Does not fold DequantizeLinear, so that weights
/// stay integers. If a node moves the elements of dequantised weights, the integers are moved instead.
Result<Graph> fold_constants(Graph graph) {
  std::vector<Node> kept;
  std::unordered_map<ValueId, std::size_t> dequantisers;  // of constants; indices in `kept`
  for (Node& n : graph.nodes) {
    if (const auto found = n.inputs.empty() ? dequantisers.end() : dequantisers.find(n.inputs[0]);
        found != dequantisers.end())
      move_below_dequantiser(graph, n, &kept[found->second]);
    if (is_onnx(n, "DequantizeLinear") && constant_input(graph, n, 0) != nullptr)
      dequantisers[n.outputs[0]] = kept.size();
    auto constant = operators::fold(graph, n);
    if (!constant) {
      kept.push_back(std::move(n));
      continue;
    }
    for (const ValueId output : graph.outputs)
      if (output == n.outputs[0])
        return Error(ErrorCode::kUnsupported,
                     "the graph's output '" + graph.value(output).name + "' does not depend on any input");
    graph.value(n.outputs[0]).constant = std::make_shared<const graph::Constant>(std::move(*constant));
  }
  graph.nodes = std::move(kept);
  return graph;
}

Result<Graph> remove_dead(Graph graph) {
  Replacements replacements(graph);
  for (const Node& n : graph.nodes) {
    if (!changes_nothing(graph, n)) continue;
    const ValueId from = n.outputs[0], to = replacements.of(n.inputs[0]);
    const bool is_output = std::find(graph.outputs.begin(), graph.outputs.end(), from) != graph.outputs.end();
    const bool end_to_end = std::find(graph.inputs.begin(), graph.inputs.end(), to) != graph.inputs.end() ||
                            std::find(graph.outputs.begin(), graph.outputs.end(), to) != graph.outputs.end();
    if (is_output && end_to_end)
      return Error(ErrorCode::kUnsupported, "the graph's output '" + graph.value(from).name + "' repeats '" +
                                                graph.value(to).name +
                                                "', which is already another input or output of the graph: "
                                                "remove one of the two");
    replacements.replace(graph, from, to);
  }
  replacements.apply(graph);
  remove_unread(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
