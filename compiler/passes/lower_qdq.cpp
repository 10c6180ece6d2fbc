// The QDQ form: a float operator on dequantised integers becomes the same sum on the integers, followed by one
// dequantisation with the product of the scales. A float operator that remains is refused.
#include "compiler/operators/lowering.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

/// Weights and biases. The layers that read them look them up.
bool is_dequantised_constant(const Graph& graph, const Node& n) {
  return is_onnx(n, "DequantizeLinear") && graph.value(n.inputs[0]).constant != nullptr;
}

/// Marks the values that depend on a refused node. Errors in nodes that read them may be consequences, so they
/// are not reported.
std::vector<bool> values_after_refused(const Graph& graph) {
  std::vector<bool> marked(graph.values.size(), false);
  for (const Node& n : graph.nodes) {
    bool depends = n.refused;
    for (const ValueId v : n.inputs) depends = depends || (v != kNoValue && marked[v]);
    for (const ValueId v : n.outputs) marked[v] = depends;
  }
  return marked;
}

}  // namespace

Result<Graph> lower_qdq(Graph graph) {
  const graph::Uses uses(graph);
  const std::vector<bool> skipped = values_after_refused(graph);
  std::vector<Node> out;
  std::vector<bool> absorbed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    const OnnxOperator* op = onnx_of(n);
    if (op == nullptr || is_dequantised_constant(graph, n)) {
      if (!absorbed[i]) out.push_back(n);
      continue;
    }
    if (skipped[n.outputs[0]]) continue;
    const operators::Operator* row = operators::find(*op);
    operators::Outcome outcome(
        "computes with data of the frame; it is supported with constants only, as in computing a shape");
    if (row != nullptr && row->lower_qdq != nullptr) {
      operators::Site site{graph, uses, out, absorbed, n, *op};
      outcome = row->lower_qdq(site);
    }
    if (!outcome.refusal.empty()) refuse(graph, n, outcome.refusal);
  }
  if (!graph.refusals.empty()) return refusal_error(graph);
  graph.nodes = std::move(out);
  MILLRACE_ASSIGN(graph, remove_dead(std::move(graph)));
  for (Node& n : graph.nodes)
    if (onnx_of(n) != nullptr)
      refuse(graph, n, "dequantises a constant that no layer takes as weights or bias");
  if (!graph.refusals.empty()) return refusal_error(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
