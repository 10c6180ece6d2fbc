// Quantisation (and whatever else works on single floats) goes above what only moves elements, joins them or takes their maximum,
// up to the sum whose result it quantises.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// Whether element-wise node `e` may change places with `above`, the only producer of what it reads.
bool may_rise(const Graph& graph, const graph::Uses& uses, const Node& e, const Node& above) {
  const auto& op = std::get<Elementwise>(e.operation);
  if (!graph.value(e.inputs[0]).type.is_float()) return false;
  if (uses.readers[e.inputs[0]].size() != 1 || uses.is_output[e.inputs[0]]) return false;
  const bool scalar = op.chain.channels() == 1;
  if (std::holds_alternative<graph::Move>(above.operation)) return scalar;
  if (std::holds_alternative<graph::Concat>(above.operation)) return scalar;
  if (std::holds_alternative<graph::MaxPool>(above.operation)) return (scalar || op.axis == 1) && op.chain.is_increasing();
  return false;
}

/// Swaps nodes `i` (element-wise) and its producer `p`; the new element-wise nodes stand before `p`.
void swap(Graph& graph, std::size_t i, std::size_t p) {
  const Node e = graph.nodes[i];
  Node above = graph.nodes[p];
  const Value result = graph.value(e.outputs[0]);
  std::vector<Node> raised;
  for (std::size_t k = 0; k < above.inputs.size(); ++k) {
    const Shape shape = graph.value(above.inputs[k]).shape;
    const ValueId v = graph.add_value(result.name + ".raised", result.type, shape);
    const std::string name = above.inputs.size() == 1 ? e.name : e.name + ".part" + std::to_string(k);
    raised.push_back(make_node(name, e.operation, {above.inputs[k]}, v, e.sources));
    above.inputs[k] = v;
  }
  above.outputs = e.outputs;
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
  graph.nodes[p] = std::move(above);
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(p), raised.begin(), raised.end());
}

bool raise_one(Graph& graph) {
  const graph::Uses uses(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (!std::holds_alternative<Elementwise>(n.operation)) continue;
    const std::int64_t p = uses.producer[n.inputs[0]];
    if (p < 0 || !may_rise(graph, uses, n, graph.nodes[static_cast<std::size_t>(p)])) continue;
    swap(graph, i, static_cast<std::size_t>(p));
    return true;
  }
  return false;
}

}  // namespace

Result<Graph> raise_quantise(Graph graph) {
  while (raise_one(graph)) {
  }
  return graph;
}

}  // namespace millrace::compiler::passes
