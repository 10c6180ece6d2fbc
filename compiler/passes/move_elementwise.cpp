// Moves element-wise nodes past nodes that only move, join or compare elements. Dequantisers move down to the sums that
// read their integers; quantisers move up to the sums whose results they quantise.
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
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

/// Returns the axis of `to` that has the same elements, in the same order, as the axis `axis` of `from`. Both shapes have
/// the same elements in row-major order.
std::optional<std::size_t> same_axis(const Shape& from, std::size_t axis, const Shape& to) {
  const auto behind = [](const Shape& shape, std::size_t a) {
    return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(a) + 1, shape.end(), std::int64_t{1},
                           std::multiplies<>());
  };
  for (std::size_t a = 0; a < to.size(); ++a)
    if (to[a] == from[axis] && behind(to, a) == behind(from, axis)) return a;
  return std::nullopt;
}

/// The order in which a move puts the axes of its input, before it reshapes the result.
std::vector<std::int64_t> permutation(const graph::Move& move, const Shape& input) {
  if (!move.perm.empty()) return move.perm;
  std::vector<std::int64_t> identity(input.size());
  std::iota(identity.begin(), identity.end(), 0);
  return identity;
}

Shape permuted(const Shape& shape, const std::vector<std::int64_t>& perm) {
  Shape result;
  for (const std::int64_t axis : perm) result.push_back(shape[static_cast<std::size_t>(axis)]);
  return result;
}

/// Returns the axis of the move's input that becomes `axis` of its output, if there is one.
std::optional<std::int64_t> axis_above(const graph::Move& move, const Shape& input, const Shape& output,
                                       std::int64_t axis) {
  const auto perm = permutation(move, input);
  const auto found = same_axis(output, static_cast<std::size_t>(axis), permuted(input, perm));
  if (!found) return std::nullopt;
  return perm[*found];
}

/// Returns the axis of the move's output that `axis` of its input becomes, if there is one.
std::optional<std::int64_t> axis_below(const graph::Move& move, const Shape& input, const Shape& output,
                                       std::int64_t axis) {
  const auto perm = permutation(move, input);
  const auto place = static_cast<std::size_t>(std::find(perm.begin(), perm.end(), axis) - perm.begin());
  const auto found = same_axis(permuted(input, perm), place, output);
  if (!found) return std::nullopt;
  return static_cast<std::int64_t>(*found);
}

/// Returns the axis along which the constants of the dequantiser `n` lie once `n` has moved below its reader `below`.
/// Returns nothing if `n` is no dequantiser or may not move there. `n` may be null.
std::optional<std::int64_t> axis_if_sinks(const Graph& graph, const Node* n, const Node& below) {
  const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
  if (e == nullptr || !graph.value(n->inputs[0]).type.is_integer() ||
      !graph.value(n->outputs[0]).type.is_float())
    return std::nullopt;
  if (std::holds_alternative<MaxPool>(below.operation) && !e->chain.is_increasing()) return std::nullopt;
  if (e->chain.channels() == 1) return e->axis;
  const auto* move = std::get_if<graph::Move>(&below.operation);
  if (move == nullptr) return std::nullopt;
  return axis_below(*move, graph.value(below.inputs[0]).shape, graph.value(below.outputs[0]).shape, e->axis);
}

/// Returns the axis along which the constants of the element-wise node `n` lie once `n` has moved above the node
/// `above`, which produces the floats that `n` reads. Returns nothing if `n` may not move there.
std::optional<std::int64_t> axis_if_rises(const Graph& graph, const Node& n, const Node& above) {
  const auto& e = std::get<Elementwise>(n.operation);
  const bool scalar = e.chain.channels() == 1;
  if (std::holds_alternative<MaxPool>(above.operation)) {
    if ((scalar || e.axis == 1) && e.chain.is_increasing()) return e.axis;
    return std::nullopt;
  }
  if (scalar && (moves(above.operation) || std::holds_alternative<graph::Concat>(above.operation)))
    return e.axis;
  const auto* move = std::get_if<graph::Move>(&above.operation);
  if (scalar || move == nullptr) return std::nullopt;
  return axis_above(*move, graph.value(above.inputs[0]).shape, graph.value(n.inputs[0]).shape, e.axis);
}

/// An element-wise node that moves up, and the position that it gets if it moves no further.
struct Rising {
  Node node;
  std::size_t slot = 0;
};

/// Nodes that move up together, in the order in which a frame passes them.
using Risings = std::deque<Rising>;

/// Returns the name of a value that a node gives after it moved. A value keeps this name however often its node moves, so
/// names do not grow with the number of moves.
std::string raised(const std::string& name) {
  static const std::string kRaised = ".raised";
  const std::size_t at = name.find(kRaised);
  return at == std::string::npos ? name + kRaised : name.substr(0, at + kRaised.size());
}

/// Copies the nodes `chain` so that the copies read `from`. `suffix` is appended to their names.
Risings copy_chain(Graph& graph, const Risings& chain, ValueId from, const std::string& suffix,
                   std::size_t slot) {
  Risings copies;
  for (const auto& [n, old_slot] : chain) {
    const Value result = graph.value(n.outputs[0]);
    const ValueId v = graph.add_value(raised(result.name), result.type, graph.value(from).shape);
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
  std::unordered_map<ValueId, std::string>
      moved;  // result of a moved dequantiser -> the dequantiser's first name
  std::vector<Node> out;
  const auto append = [&](Node n) {
    for (const ValueId v : n.outputs) producers[v] = n;
    out.push_back(std::move(n));
  };
  for (Node& n : graph.nodes) {
    const bool passes = std::holds_alternative<MaxPool>(n.operation) || moves(n.operation);
    const auto found = passes ? producers.find(n.inputs[0]) : producers.end();
    const auto axis = axis_if_sinks(graph, found == producers.end() ? nullptr : &found->second, n);
    if (!axis) {
      append(std::move(n));
      continue;
    }
    Node dequantise = found->second;
    std::get<Elementwise>(dequantise.operation).axis = *axis;
    const Value result = graph.value(n.outputs[0]);
    const ValueId integers =
        graph.add_value(result.name + ".integers", graph.value(dequantise.inputs[0]).type, result.shape);
    copy_meaning(graph, dequantise.inputs[0], integers);
    const auto before = moved.find(n.inputs[0]);
    const std::string name = before == moved.end() ? dequantise.name : before->second;
    moved[n.outputs[0]] = name;
    append(make_node(n.name, n.operation, {dequantise.inputs[0]}, integers, n.sources));
    append(
        make_node(n.name + "." + name, dequantise.operation, {integers}, n.outputs[0], dequantise.sources));
  }
  graph.nodes = std::move(out);
  // If a dequantiser moved below its only reader, nothing reads the old dequantiser. Remove it: ONNX Runtime fuses a
  // layer with its quantiser only if the quantised integers have one reader, and later passes therefore count the
  // readers.
  return remove_dead(std::move(graph));
}

Result<Graph> raise_quantise(Graph graph) {
  const graph::Uses uses(graph);
  // Visit the nodes from the last to the first. An element-wise node that is the only reader of its float input waits
  // until the node that produces this input is visited. The map's key is the input.
  std::map<ValueId, Risings> waiting;
  std::vector<std::vector<Node>> slots;  // the nodes of the result, from the last to the first
  const auto settle = [&slots](Rising& r) { slots[r.slot].push_back(std::move(r.node)); };
  const auto wait = [&](Risings chain) {
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
    Risings chain = std::exchange(waiting[n.outputs[0]], {});
    if (std::holds_alternative<Elementwise>(n.operation)) {
      chain.push_front({std::move(n), slot});
      wait(std::move(chain));
      continue;
    }
    const auto stays = std::find_if(chain.begin(), chain.end(), [&](Rising& r) {
      const auto axis = axis_if_rises(graph, r.node, n);
      if (axis) std::get<Elementwise>(r.node.operation).axis = *axis;
      return !axis;
    });
    std::for_each(stays, chain.end(), settle);
    chain.erase(stays, chain.end());
    if (!chain.empty()) n.outputs = chain.back().node.outputs;
    for (std::size_t k = chain.empty() ? 0 : n.inputs.size(); k-- > 0;) {
      const std::string suffix = n.inputs.size() == 1 ? "" : ".part" + std::to_string(k);
      slots.emplace_back();
      Risings copies = copy_chain(graph, chain, n.inputs[k], suffix, slots.size() - 1);
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
