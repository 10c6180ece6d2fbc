// Removes nodes whose results are constant, that nothing reads, or that do not change their input.
#include <algorithm>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

bool changes_nothing(const Graph& graph, const Node& n) {
  const OnnxOperator* op = onnx_of(n);
  if (op == nullptr || n.inputs.empty() || n.inputs[0] == kNoValue) return false;
  if (op->type == "Identity" || op->type == "Dropout") return true;
  return op->type == "Cast" && graph.value(n.inputs[0]).type == graph.value(n.outputs[0]).type;
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

/// Replaces operators whose inputs are all constants by their results. Does not fold DequantizeLinear, so that weights
/// stay integers.
Result<Graph> fold_constants(Graph graph) {
  std::vector<Node> kept;
  for (Node& n : graph.nodes) {
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
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (!changes_nothing(graph, n)) continue;
    const ValueId from = n.outputs[0], to = n.inputs[0];
    const bool is_output = std::find(graph.outputs.begin(), graph.outputs.end(), from) != graph.outputs.end();
    const bool end_to_end = std::find(graph.inputs.begin(), graph.inputs.end(), to) != graph.inputs.end() ||
                            std::find(graph.outputs.begin(), graph.outputs.end(), to) != graph.outputs.end();
    if (is_output && end_to_end)
      return Error(ErrorCode::kUnsupported, "the graph's output '" + graph.value(from).name + "' repeats '" +
                                                graph.value(to).name +
                                                "', which is already an input or output: remove one");
    graph::replace_value(graph, from, to);
  }
  remove_unread(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
