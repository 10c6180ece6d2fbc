// Moves dequantisers below moves and maxima, so that those work on integers and every sum of products finds its
// integer operands. A value with several readers is dequantised once per reader, which costs nothing once fused.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;

/// Whether the node converts integers to float, alike for all channels, and (if wanted) never decreases.
bool sinks(const Graph& graph, const Node& n, bool must_not_decrease) {
  const auto* e = std::get_if<Elementwise>(&n.operation);
  if (e == nullptr || !graph.value(n.inputs[0]).type.is_integer() ||
      !graph.value(n.outputs[0]).type.is_float())
    return false;
  if (e->chain.channels() != 1) return false;
  if (!must_not_decrease) return true;
  for (const Step& s : e->chain.steps)
    if (s.kind != Step::Kind::kDequantise && s.kind != Step::Kind::kToFloat && s.kind != Step::Kind::kRelu &&
        s.kind != Step::Kind::kClip)
      return false;
  return true;
}

}  // namespace

Result<Graph> sink_dequantise(Graph graph) {
  // In order, so that a dequantiser that sank below one node can sink below the next.
  std::vector<std::int64_t> producer(graph.values.size(), -1);
  std::vector<Node> out;
  const auto append = [&](Node n) {
    producer.resize(graph.values.size(), -1);
    for (const ValueId v : n.outputs) producer[v] = static_cast<std::int64_t>(out.size());
    out.push_back(std::move(n));
  };
  for (Node& n : graph.nodes) {
    const bool moves = std::holds_alternative<graph::Move>(n.operation);
    const bool pools = std::holds_alternative<graph::MaxPool>(n.operation);
    const std::int64_t from = moves || pools ? producer[n.inputs[0]] : -1;
    if (from < 0 || !sinks(graph, out[static_cast<std::size_t>(from)], pools)) {
      append(std::move(n));
      continue;
    }
    const Node dequantise = out[static_cast<std::size_t>(from)];
    const Value result = graph.value(n.outputs[0]);
    const ValueId integers =
        graph.add_value(result.name + ".integers", graph.value(dequantise.inputs[0]).type, result.shape);
    copy_meaning(graph, dequantise.inputs[0], integers);
    append(make_node(n.name, n.operation, {dequantise.inputs[0]}, integers, n.sources));
    append(make_node(n.name + "." + dequantise.name, dequantise.operation, {integers}, n.outputs[0],
                     dequantise.sources));
  }
  graph.nodes = std::move(out);
  return graph;
}

}  // namespace millrace::compiler::passes
