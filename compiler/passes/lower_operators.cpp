// The passes that replace ONNX operators by integer arithmetic, with the lowering functions of compiler/operators.
#include "compiler/operators/rules.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

/// Lowers each ONNX node for which the operator table has a lowering function in the member `lowering`.
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

/// Marks all nodes that depend on a refused node as refused. Errors in them may be consequences and are not reported.
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

/// Lowers operators in QDQ form: a float operator on dequantised integers becomes the same sum on the integers, then a
/// dequantisation by the product of the scales. Refuses float operators that remain.
Result<Graph> lower_qdq(Graph graph) {
  skip_dependents(graph);
  graph = lower_operators(std::move(graph), &operators::Operator::lower_qdq);
  const auto is_left = [](const Node& n) { return onnx_of(n) != nullptr && !n.refused; };
  for (Node& n : graph.nodes)
    if (is_left(n) && !is_onnx(n, "DequantizeLinear"))
      refuse(graph, n,
             "computes with data of the frame; this operator is supported only for constants, for example to "
             "compute a shape");
  if (!graph.refusals.empty()) return refusal_error(graph);
  // All layers have read their weights and biases, so nothing needs the dequantisers of weights and biases any more.
  MILLRACE_ASSIGN(graph, remove_dead(std::move(graph)));
  for (Node& n : graph.nodes)
    if (is_left(n)) refuse(graph, n, "dequantises a constant that no layer takes as weights or bias");
  if (!graph.refusals.empty()) return refusal_error(graph);
  return graph;
}

}  // namespace millrace::compiler::passes
