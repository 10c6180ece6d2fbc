// Merges consecutive element-wise nodes, then removes those that leave integers unchanged. A dequantiser and a
// quantiser with the same parameters vanish that way; with other parameters they become one change of scale.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// Whether more than one node reads `v`, counting readers behind element-wise float nodes.
bool is_shared(const graph::Uses& uses, const Graph& graph, ValueId v) {
  if (uses.is_output[v] || uses.readers[v].size() != 1) return true;
  const Node& reader = graph.nodes[uses.readers[v][0]];
  return std::holds_alternative<Elementwise>(reader.operation) &&
         graph.value(reader.outputs[0]).type.is_float() && is_shared(uses, graph, reader.outputs[0]);
}

bool may_merge(const Graph& graph, const graph::Uses& uses, const Node& first, const Node& second) {
  const ValueId between = first.outputs[0];
  // The host's quantiser stays a node of its own.
  if (graph.value(first.inputs[0]).type.is_float() && graph.value(between).type.is_integer()) return false;
  // A float is no value of the dataflow and may be computed twice. Integers that others read, or that the host
  // converts to float, must stay.
  const bool stays = is_shared(uses, graph, between) || graph.value(second.outputs[0]).type.is_float();
  if (graph.value(between).type.is_integer() && stays) return false;
  const auto& a = std::get<Elementwise>(first.operation);
  const auto& b = std::get<Elementwise>(second.operation);
  return a.chain.channels() == 1 || b.chain.channels() == 1 || a.axis == b.axis;
}

bool merge_with_producer(const Graph& graph, const graph::Uses& uses, Node& n) {
  auto* e = std::get_if<Elementwise>(&n.operation);
  const Node* producer = e == nullptr ? nullptr : producer_of(graph, uses, n.inputs[0]);
  if (producer == nullptr || !std::holds_alternative<Elementwise>(producer->operation)) return false;
  const Node& before = *producer;
  if (!may_merge(graph, uses, before, n)) return false;
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
  // In order, so that a node's producer has already been merged with the producers before it.
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
