// Moves element-wise nodes past nodes that only move, join or compare elements. Dequantisers move down to the sums that
// read their integers; quantisers move up to the sums whose results they quantise.
#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Elementwise;
using graph::MaxPool;

bool moves(const graph::Operation& operation) {
  return std::holds_alternative<graph::Move>(operation) || std::holds_alternative<graph::Select>(operation);
}

/// Whether the node `n` is a dequantiser that may move below a node that reads its result. `n` may be null.
bool sinks(const Graph& graph, const Node* n, bool below_max) {
  const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
  return e != nullptr && graph.value(n->inputs[0]).type.is_integer() &&
         graph.value(n->outputs[0]).type.is_float() && e->chain.channels() == 1 &&
         (!below_max || e->chain.is_increasing());
}

/// Whether the element-wise node `n`, which reads floats, may move above the node that produces them.
bool rises(const Node& n, const graph::Operation& above) {
  const auto& e = std::get<Elementwise>(n.operation);
  const bool scalar = e.chain.channels() == 1;
  if (std::holds_alternative<MaxPool>(above)) return (scalar || e.axis == 1) && e.chain.is_increasing();
  return scalar && (moves(above) || std::holds_alternative<graph::Concat>(above));
}

/// An element-wise node that moves up, and the position that it gets if it moves no further.
struct Rising {
  Node node;
  std::size_t slot = 0;
};

/// Copies the nodes `chain` so that the copies read `from`. `suffix` is appended to their names.
std::vector<Rising> copy_chain(Graph& graph, const std::vector<Rising>& chain, ValueId from,
                               const std::string& suffix, std::size_t slot) {
  std::vector<Rising> copies;
  for (const auto& [n, old_slot] : chain) {
    const Value result = graph.value(n.outputs[0]);
    const ValueId v = graph.add_value(result.name + ".raised", result.type, graph.value(from).shape);
    copy_meaning(graph, n.outputs[0], v);
    copies.push_back({make_node(n.name + suffix, n.operation, {from}, v, n.sources), slot});
    from = v;
  }
  return copies;
}

}  // namespace

Result<Graph> sink_dequantise(Graph graph) {
  // Visit the nodes in order, so that a dequantiser that moved below one node can also move below the next. A value
  // with several readers is dequantised once per reader; a later pass fuses these dequantisers with their readers.
  std::unordered_map<ValueId, Node> producers;
  std::vector<Node> out;
  const auto append = [&](Node n) {
    for (const ValueId v : n.outputs) producers[v] = n;
    out.push_back(std::move(n));
  };
  for (Node& n : graph.nodes) {
    const bool pools = std::holds_alternative<MaxPool>(n.operation);
    const bool passes = pools || moves(n.operation);
    const auto found = passes ? producers.find(n.inputs[0]) : producers.end();
    if (found == producers.end() || !sinks(graph, &found->second, pools)) {
      append(std::move(n));
      continue;
    }
    const Node dequantise = found->second;
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

Result<Graph> raise_quantise(Graph graph) {
  const graph::Uses uses(graph);
  // Visit the nodes from the last to the first. An element-wise node that is the only reader of its float input waits
  // until the node that produces this input is visited. The map's key is the input.
  std::map<ValueId, std::vector<Rising>> waiting;
  std::vector<std::vector<Node>> slots;  // the nodes of the result, from the last to the first
  const auto settle = [&slots](Rising& r) { slots[r.slot].push_back(std::move(r.node)); };
  const auto wait = [&](std::vector<Rising> chain) {
    const ValueId from = chain.front().node.inputs[0];
    if (graph.value(from).type.is_float() && uses.readers[from].size() == 1 && !uses.is_output[from])
      waiting[from] = std::move(chain);
    else
      std::for_each(chain.begin(), chain.end(), settle);
  };
  while (!graph.nodes.empty()) {
    Node n = std::move(graph.nodes.back());
    graph.nodes.pop_back();
    const std::size_t slot = slots.size();
    slots.emplace_back();
    std::vector<Rising> chain = std::exchange(waiting[n.outputs[0]], {});
    if (std::holds_alternative<Elementwise>(n.operation)) {
      chain.insert(chain.begin(), {std::move(n), slot});
      wait(std::move(chain));
      continue;
    }
    const auto stays = std::find_if(chain.begin(), chain.end(),
                                    [&n](const Rising& r) { return !rises(r.node, n.operation); });
    std::for_each(stays, chain.end(), settle);
    chain.erase(stays, chain.end());
    if (!chain.empty()) n.outputs = chain.back().node.outputs;
    for (std::size_t k = chain.empty() ? 0 : n.inputs.size(); k-- > 0;) {
      const std::string suffix = n.inputs.size() == 1 ? "" : ".part" + std::to_string(k);
      slots.emplace_back();
      std::vector<Rising> copies = copy_chain(graph, chain, n.inputs[k], suffix, slots.size() - 1);
      n.inputs[k] = copies.back().node.outputs[0];
      wait(std::move(copies));
    }
    slots[slot].push_back(std::move(n));
  }
  for (auto& [from, chain] : waiting) std::for_each(chain.begin(), chain.end(), settle);
  for (auto nodes = slots.rbegin(); nodes != slots.rend(); ++nodes)
    std::move(nodes->begin(), nodes->end(), std::back_inserter(graph.nodes));
  return graph;
}

}  // namespace millrace::compiler::passes
