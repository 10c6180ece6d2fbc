// One element-wise node after another becomes one; what then hands integers on unchanged goes away. So a pair
// of quantiser and dequantiser with the same parameters vanishes, and others become one change of scale.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// Whether more than one node would work on `v` once floats are computed where they are read.
bool is_shared(const graph::Uses& uses, const Graph& graph, ValueId v) {
  if (uses.is_output[v] || uses.readers[v].size() != 1) return true;
  const Node& reader = graph.nodes[uses.readers[v][0]];
  return std::holds_alternative<Elementwise>(reader.operation) &&
         graph.value(reader.outputs[0]).type.is_float() && is_shared(uses, graph, reader.outputs[0]);
}

bool may_merge(const Graph& graph, const graph::Uses& uses, const Node& first, const Node& second) {
  const ValueId between = first.outputs[0];
  // The host's quantiser stays by itself: what follows it works on integers.
  if (graph.value(first.inputs[0]).type.is_float() && graph.value(between).type.is_integer()) return false;
  // What is float is no value of the dataflow and may be computed again; integers that others read, or that
  // leave for the host to make them float, stay.
  const bool stays = is_shared(uses, graph, between) || graph.value(second.outputs[0]).type.is_float();
  if (graph.value(between).type.is_integer() && stays) return false;
  const auto& a = std::get<Elementwise>(first.operation);
  const auto& b = std::get<Elementwise>(second.operation);
  return a.chain.channels() == 1 || b.chain.channels() == 1 || a.axis == b.axis;
}

bool merge_with_producer(const Graph& graph, const graph::Uses& uses, Node& n) {
  auto* e = std::get_if<Elementwise>(&n.operation);
  if (e == nullptr || uses.producer[n.inputs[0]] < 0) return false;
  const Node& before = graph.nodes[static_cast<std::size_t>(uses.producer[n.inputs[0]])];
  if (!std::holds_alternative<Elementwise>(before.operation) || !may_merge(graph, uses, before, n))
    return false;
  const auto& first = std::get<Elementwise>(before.operation);
  e->axis = first.chain.channels() > 1 ? first.axis : e->axis;
  e->chain = first.chain.then(e->chain);
  n.inputs[0] = before.inputs[0];
  n.sources = join_sources(before.sources, n.sources);
  return true;
}

bool is_identity(const Graph& graph, const Node& n) {
  const auto& e = std::get<Elementwise>(n.operation);
  const Type type = graph.value(n.inputs[0]).type;
  if (type != graph.value(n.outputs[0]).type || !type.is_integer()) return false;
  if (type.bits > 16) return e.chain.steps.empty();
  for (std::size_t c = 0; c < e.chain.channels(); ++c)
    for (std::int64_t x = type.lowest(); x <= type.highest(); ++x)
      if (e.chain.evaluate(x, c) != x) return false;
  return true;
}

}  // namespace

Result<Graph> merge_elementwise(Graph graph) {
  const graph::Uses uses(graph);
  // In order: what a node is merged with has been merged with all before it.
  for (Node& n : graph.nodes) {
    while (merge_with_producer(graph, uses, n)) {
    }
  }
  for (Node& n : graph.nodes) {
    auto* e = std::get_if<Elementwise>(&n.operation);
    if (e == nullptr) continue;
    e->chain = e->chain.contracted();
    const bool to_input = uses.is_output[n.outputs[0]] && uses.producer[n.inputs[0]] < 0;
    if (!to_input && is_identity(graph, n)) graph::replace_value(graph, n.outputs[0], n.inputs[0]);
  }
  return remove_dead(std::move(graph));
}

}  // namespace millrace::compiler::passes
