// A fully connected layer behind Flatten, Reshape or Transpose reads its input where it lies: its weights are
// put in that order instead of the data. It becomes a window over the whole input.
#include "compiler/passes/layout.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Move;

/// The value behind a chain of moves, and where its elements went.
struct Root {
  ValueId value = kNoValue;
  IndexMap map;  // element i of what is read is element map[i] of `value`
  std::vector<std::string> sources;
};

Root find_root(const Graph& graph, const graph::Uses& uses, ValueId v) {
  Root root{v, identity_map(elements(graph.value(v).shape)), {}};
  while (uses.producer[root.value] >= 0) {
    const Node& n = graph.nodes[static_cast<std::size_t>(uses.producer[root.value])];
    const auto* move = std::get_if<Move>(&n.operation);
    if (move == nullptr) break;
    const IndexMap step = move_map(*move, graph.value(n.inputs[0]).shape);
    for (std::uint32_t& i : root.map) i = step[i];
    root.value = n.inputs[0];
    root.sources = join_sources(n.sources, root.sources);
  }
  return root;
}

/// What comes from the host in the model's own order lies flat already.
bool comes_from_input(const Graph& graph, const graph::Uses& uses, ValueId v) {
  const std::int64_t p = uses.producer[v];
  if (p < 0) return true;
  const Node& n = graph.nodes[static_cast<std::size_t>(p)];
  return std::holds_alternative<graph::Elementwise>(n.operation) &&
         comes_from_input(graph, uses, n.inputs[0]);
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
    const Root root = dense != nullptr && dense->dense ? find_root(graph, uses, n.inputs[0]) : Root{};
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
    const Value result = graph.value(n.outputs[0]);
    const ValueId column = graph.add_value(result.name + ".column", result.type, {1, a.out_channels, 1, 1});
    graph.value(column).scale = result.scale;
    graph.value(column).zero_point = result.zero_point;
    out.push_back(
        make_node(n.name, std::move(a), {root.value}, column, join_sources(root.sources, n.sources)));
    out.push_back(make_node(n.name + ".row", Move{}, {column}, n.outputs[0], {}));
  }
  graph.nodes = std::move(out);
  return remove_dead(std::move(graph));
}

}  // namespace millrace::compiler::passes
