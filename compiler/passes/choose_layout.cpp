// A fully connected layer behind Flatten, Reshape or Transpose becomes a window over the whole input. Its weights
// are reordered to match the data, so the data need not move.
#include "compiler/passes/layout.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Move;

/// The value at the start of a chain of moves.
struct MoveSource {
  ValueId value = kNoValue;
  IndexMap map;  // element i behind the moves is element map[i] of `value`
  std::vector<std::string> sources;
};

MoveSource before_moves(const Graph& graph, const graph::Uses& uses, ValueId v) {
  MoveSource root{v, identity_map(elements(graph.value(v).shape)), {}};
  while (const Node* n = producer_of(graph, uses, root.value)) {
    const auto* move = std::get_if<Move>(&n->operation);
    if (move == nullptr) break;
    const IndexMap step = move_map(*move, graph.value(n->inputs[0]).shape);
    for (std::uint32_t& i : root.map) i = step[i];
    root.value = n->inputs[0];
    root.sources = join_sources(n->sources, root.sources);
  }
  return root;
}

/// Whether `v` is a model input, or element-wise nodes behind one. Its elements are in the model's own order.
bool comes_from_input(const Graph& graph, const graph::Uses& uses, ValueId v) {
  const Node* n = producer_of(graph, uses, v);
  return n == nullptr || (std::holds_alternative<graph::Elementwise>(n->operation) &&
                          comes_from_input(graph, uses, n->inputs[0]));
}

void reorder_weights(Accumulate& a, const IndexMap& map) {
  graph::Constant c;
  c.integers.resize(a.weights->integers.size());
  const std::size_t k = map.size();
  for (std::size_t o = 0; o < static_cast<std::size_t>(a.out_channels); ++o)
    for (std::size_t i = 0; i < k; ++i) c.integers[o * k + map[i]] = a.weights->integers[o * k + i];
  a.weights = std::make_shared<const graph::Constant>(std::move(c));
}

}  // namespace

Result<Graph> choose_layout(Graph graph) {
  const graph::Uses uses(graph);
  std::vector<Node> out;
  for (const Node& n : graph.nodes) {
    const auto* dense = std::get_if<Accumulate>(&n.operation);
    const MoveSource root =
        dense != nullptr && dense->dense ? before_moves(graph, uses, n.inputs[0]) : MoveSource{};
    const bool behind_moves = root.value != kNoValue && root.value != n.inputs[0];
    if (!behind_moves || !is_plane(graph.value(root.value).shape) ||
        comes_from_input(graph, uses, root.value)) {
      out.push_back(n);
      continue;
    }
    Accumulate a = *dense;
    reorder_weights(a, root.map);
    const Shape x = graph.value(root.value).shape;
    a.dense = false;
    a.geometry.kernel_h = x[2];
    a.geometry.kernel_w = x[3];
    const Value& result = graph.value(n.outputs[0]);
    const ValueId column = graph.add_value(result.name + ".column", result.type, {1, a.out_channels, 1, 1});
    copy_meaning(graph, n.outputs[0], column);
    out.push_back(
        make_node(n.name, std::move(a), {root.value}, column, join_sources(root.sources, n.sources)));
    out.push_back(make_node(n.name + ".row", Move{}, {column}, n.outputs[0], {}));
  }
  graph.nodes = std::move(out);
  return remove_dead(std::move(graph));
}

}  // namespace millrace::compiler::passes
