// The passes that replace ONNX operators by integer arithmetic. compiler/operators knows the single operators.
#include "compiler/operators/rules.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

/// Replaces each ONNX node whose row in the operator table has this lowering.
Graph lower_operators(Graph graph, operators::Lowering operators::Operator::*lowering) {
  const graph::Uses uses(graph);
  std::vector<bool> absorbed(graph.nodes.size());
  std::vector<Node> out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    const OnnxOperator* op = n.refused ? nullptr : onnx_of(n);
    const operators::Operator* row = op == nullptr ? nullptr : operators::find(*op);
    const std::size_t before = out.size();
    operators::Outcome outcome = operators::Outcome::later();
    if (row != nullptr && row->*lowering != nullptr) {
      operators::Site site{graph, uses, out, absorbed, n, *op};
      outcome = (row->*lowering)(site);
    }
    if (!outcome.refusal.empty()) {
      out.resize(before);
      refuse(graph, n, outcome.refusal);
    }
    if ((outcome.is_later || n.refused) && !absorbed[i]) out.push_back(n);
  }
  graph.nodes = std::move(out);
  return graph;
}

/// Marks the nodes that depend on a refused node. Errors in them may be consequences, so they are not reported.
void skip_dependents(Graph& graph) {
  std::vector<bool> marked(graph.values.size(), false);
  for (Node& n : graph.nodes) {
    for (const ValueId v : n.inputs) n.refused = n.refused || (v != kNoValue && marked[v]);
    for (const ValueId v : n.outputs) marked[v] = n.refused;
  }
}

}  // namespace

/// Lowers ONNX operators that work on one element at a time, move elements or take a maximum (quantisers, Relu,
/// arithmetic with constants, Reshape, MaxPool, Concat, Softmax), and sums of integers. lower_qdq() lowers sums of
/// floats.
Result<Graph> lower_elementwise(Graph graph) {
  return lower_operators(std::move(graph), &operators::Operator::lower_elementwise);
}

/// The QDQ form: a float operator on dequantised integers becomes the same sum on the integers, followed by one
/// dequantisation with the product of the scales. A float operator that remains is refused.
Result<Graph> lower_qdq(Graph graph) {
  skip_dependents(graph);
  graph = lower_operators(std::move(graph), &operators::Operator::lower_qdq);
  const auto is_left = [](const Node& n) { return onnx_of(n) != nullptr && !n.refused; };
  for (Node& n : graph.nodes)
    if (is_left(n) && !is_onnx(n, "DequantizeLinear"))
      refuse(graph, n,
             "computes with data of the frame; it is supported with constants only, as in computing a shape");
  if (!graph.refusals.empty()) return refusal_error(graph);
  // Layers have looked up their weights and biases. The dequantisers of those are dead now.
  MILLRACE_ASSIGN(graph, remove_dead(std::move(graph)));
  for (Node& n : graph.nodes)
    if (is_left(n)) refuse(graph, n, "dequantises a constant that no layer takes as weights or bias");
  if (!graph.refusals.empty()) return refusal_error(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
