// Moves quantisers (and other element-wise nodes on floats) above moves, joins and maxima, up to the sum whose
// result they quantise.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// Whether the element-wise node `e` may change places with `above`, which produces its input.
bool may_rise(const Graph& graph, const graph::Uses& uses, const Node& e, const Node& above) {
  const auto& op = std::get<Elementwise>(e.operation);
  if (!graph.value(e.inputs[0]).type.is_float()) return false;
  if (uses.readers[e.inputs[0]].size() != 1 || uses.is_output[e.inputs[0]]) return false;
  const bool scalar = op.chain.channels() == 1;
  if (std::holds_alternative<graph::Move>(above.operation) ||
      std::holds_alternative<graph::Concat>(above.operation))
    return scalar;
  if (std::holds_alternative<graph::MaxPool>(above.operation))
    return (scalar || op.axis == 1) && op.chain.is_increasing();
  return false;
}

/// Swaps node `i` (element-wise) and its producer `p`. The new element-wise nodes stand before `p`.
void swap(Graph& graph, std::size_t i, std::size_t p) {
  const Node e = graph.nodes[i];
  Node above = graph.nodes[p];
  const Value result = graph.value(e.outputs[0]);
  std::vector<Node> raised;
  for (std::size_t k = 0; k < above.inputs.size(); ++k) {
    const Shape shape = graph.value(above.inputs[k]).shape;
    const ValueId v = graph.add_value(result.name + ".raised", result.type, shape);
    copy_meaning(graph, e.outputs[0], v);
    const std::string name = above.inputs.size() == 1 ? e.name : e.name + ".part" + std::to_string(k);
    raised.push_back(make_node(name, e.operation, {above.inputs[k]}, v, e.sources));
    above.inputs[k] = v;
  }
  above.outputs = e.outputs;
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
  graph.nodes[p] = std::move(above);
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(p), raised.begin(), raised.end());
}

/// The same if `p` has one input. The nodes exchange their positions, and `uses` stays valid.
void swap_in_place(Graph& graph, graph::Uses& uses, std::size_t i, std::size_t p) {
  Node& e = graph.nodes[i];
  Node& above = graph.nodes[p];
  const Value result = graph.value(e.outputs[0]);
  const ValueId v = graph.add_value(result.name + ".raised", result.type, graph.value(above.inputs[0]).shape);
  copy_meaning(graph, e.outputs[0], v);
  e.inputs[0] = above.inputs[0];
  above.inputs[0] = v;
  above.outputs = e.outputs;
  e.outputs = {v};
  std::swap(e, above);
  uses.producer.push_back(static_cast<std::int64_t>(p));
  uses.readers.push_back({i});
  uses.is_output.push_back(false);
}

bool raise_one(Graph& graph) {
  graph::Uses uses(graph);
  for (std::size_t i = 0; i < graph.nodes.size();) {
    const Node& n = graph.nodes[i++];
    if (!std::holds_alternative<Elementwise>(n.operation)) continue;
    const std::int64_t p = uses.producer[n.inputs[0]];
    if (p < 0 || !may_rise(graph, uses, n, graph.nodes[static_cast<std::size_t>(p)])) continue;
    const auto above = static_cast<std::size_t>(p);
    if (graph.nodes[above].inputs.size() != 1) {
      swap(graph, i - 1, above);
      return true;
    }
    swap_in_place(graph, uses, i - 1, above);
    i = above;  // it may rise further
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
