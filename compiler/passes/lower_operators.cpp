// The passes that replace ONNX operators by integer arithmetic, with the lowering functions of compiler/operators. Float
// operators that no lowering function can replace are left to the host, if the host can compute them.
#include <algorithm>
#include <set>

#include "compiler/operators/pad.hpp"
#include "compiler/operators/rules.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

/// Replaces an ONNX node on floats by an operator that the host computes, and adds a note with the reason why the node has
/// no hardware. Returns false if the host cannot compute the node either.
bool give_to_host(Graph& graph, const graph::Uses& uses, const Node& n, const std::string& reason,
                  std::vector<Node>& out) {
  auto op = operators::float_operator(graph, n, &uses);
  if (!op || !kernels::host::check(*op).empty()) return false;
  std::vector<ValueId> tensors;
  for (std::size_t i = 0; i < n.inputs.size(); ++i)
    if (op->operands[i].kind == kernels::FloatOperand::Kind::kTensor) tensors.push_back(n.inputs[i]);
  if (tensors.empty()) return false;
  graph.diagnostics.push_back({n.name, op->type + " runs on the host: " + reason, n.sources});
  out.push_back(
      make_node(n.name, graph::HostOperator{std::move(*op)}, std::move(tensors), n.outputs[0], n.sources));
  return true;
}

/// Lowers each ONNX node for which the operator table has a lowering function in the member `lowering`. If `only_moves`,
/// lowers only the nodes that move integers and whose lowering function succeeds.
Graph lower_operators(Graph graph, operators::Lowering operators::Operator::*lowering,
                      bool only_moves = false) {
  const graph::Uses uses(graph);
  std::vector<bool> absorbed(graph.nodes.size());
  std::vector<Node> out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    const OnnxOperator* op = n.refused ? nullptr : onnx_of(n);
    const operators::Operator* row = op == nullptr ? nullptr : operators::find(*op);
    const std::size_t before = out.size();
    operators::Outcome outcome = operators::Outcome::later();
    if (row != nullptr && row->*lowering != nullptr && (!only_moves || operators::moves_integers(*op))) {
      // If the operator's own rule cannot infer a shape (only the host's rule can), hardware cannot compute the node.
      // Do not call the lowering function for such a node.
      operators::Inference form{graph, n, *op, {}, {}};
      const std::string why = row->infer == nullptr ? "" : row->infer(form);
      operators::Site site{graph, uses, out, absorbed, n, *op};
      outcome = why.empty() ? (row->*lowering)(site) : operators::Outcome(why);
    }
    if (!outcome.refusal.empty() && only_moves) {
      out.resize(before);
      outcome = operators::Outcome::later();
    }
    if (!outcome.refusal.empty()) {
      out.resize(before);
      if (!give_to_host(graph, uses, n, outcome.refusal, out)) refuse(graph, n, outcome.refusal);
    }
    if ((outcome.is_later || n.refused) && !absorbed[i]) out.push_back(n);
  }
  graph.nodes = std::move(out);
  return graph;
}

/// Lowers nodes that pad or join dequantised integers, and moves the dequantisers below them. Repeats this, because each
/// node may read the result of another one. Each round takes time in proportion to the whole graph, so after kMostRounds
/// the remaining nodes of longer sequences are left to the host.
Result<Graph> lower_moves_of_integers(Graph graph) {
  constexpr int kMostRounds = 64;
  const auto count = [](const Graph& g) {
    return std::count_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
      const OnnxOperator* op = n.refused ? nullptr : onnx_of(n);
      return op != nullptr && operators::moves_integers(*op);
    });
  };
  int rounds = 0;
  for (auto left = count(graph); left > 0 && rounds < kMostRounds; ++rounds) {
    graph = lower_operators(std::move(graph), &operators::Operator::lower_qdq, true);
    const auto now = count(graph);
    if (now == left) break;
    left = now;
    MILLRACE_ASSIGN(graph, sink_dequantise(std::move(graph)));
  }
  return graph;
}

/// Marks all nodes that depend on a refused node as refused, too. Errors in these nodes may be consequences and are not
/// reported.
void skip_dependents(Graph& graph) {
  std::vector<bool> marked(graph.values.size(), false);
  for (Node& n : graph.nodes) {
    for (const ValueId v : n.inputs) n.refused = n.refused || (v != kNoValue && marked[v]);
    for (const ValueId v : n.outputs) marked[v] = n.refused;
  }
}

/// Lets the host compute the ONNX nodes that no lowering function accepted, and refuses those that the host cannot
/// compute.
Graph give_rest_to_host(Graph graph) {
  const graph::Uses uses(graph);
  std::vector<Node> out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    if (onnx_of(n) != nullptr && !n.refused && !is_onnx(n, "DequantizeLinear")) {
      if (give_to_host(graph, uses, n, "no hardware computes it", out)) continue;
      refuse(graph, n,
             "computes with data of the frame; "
             "this operator is supported only for constants, for example to compute a shape");
    }
    out.push_back(n);
  }
  graph.nodes = std::move(out);
  return graph;
}

/// Refuses a float model: a model in which no layer with weights reads quantised data.
void refuse_float_model(Graph& graph) {
  static const std::set<std::string> kLayers = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  const graph::Uses uses(graph);
  const auto is_quantised = [&](ValueId v) {
    const Node* n = producer_of(graph, uses, v);
    return n != nullptr && std::holds_alternative<graph::Elementwise>(n->operation) &&
           graph.value(n->inputs[0]).type.is_integer();
  };
  std::vector<Node*> layers;
  for (Node& n : graph.nodes) {
    if (std::holds_alternative<graph::Accumulate>(n.operation)) return;
    const auto* host = std::get_if<graph::HostOperator>(&n.operation);
    if (host == nullptr || !kLayers.contains(host->op.type) || host->op.operands.size() == n.inputs.size())
      continue;
    if (is_quantised(n.inputs[0])) return;
    layers.push_back(&n);
  }
  for (Node* n : layers)
    refuse(graph, *n,
           "computes in float32, as every layer of this model does. "
           "Quantise the model: millrace quantize MODEL --data SAMPLES");
}

}  // namespace

/// Lowers ONNX operators that work on one element at a time, move elements or take a maximum (quantisers, Relu,
/// arithmetic with constants, Reshape, MaxPool, Concat, Softmax), and sums of integers. lower_qdq() lowers sums of
/// floats.
Result<Graph> lower_elementwise(Graph graph) {
  return lower_operators(std::move(graph), &operators::Operator::lower_elementwise);
}

/// Lowers operators in QDQ form: a float operator on dequantised integers becomes the same sum on the integers, then a
/// dequantisation by the product of the scales. Float operators that remain go to the host. If nodes are refused, the
/// graph still has them, and run_standard_passes() reports them.
Result<Graph> lower_qdq(Graph graph) {
  skip_dependents(graph);
  MILLRACE_ASSIGN(graph, lower_moves_of_integers(std::move(graph)));
  graph = give_rest_to_host(lower_operators(std::move(graph), &operators::Operator::lower_qdq));
  const auto is_left = [](const Node& n) { return onnx_of(n) != nullptr && !n.refused; };
  refuse_float_model(graph);
  if (!graph.refusals.empty()) return graph;
  // All layers have read their weights and biases, so nothing needs the dequantisers of weights and biases any more.
  MILLRACE_ASSIGN(graph, remove_dead(std::move(graph)));
  for (Node& n : graph.nodes)
    if (is_left(n)) refuse(graph, n, "dequantises a constant that no layer takes as weights or bias");
  return graph;
}

}  // namespace millrace::compiler::passes
