// What passes share: reading constants, building nodes, collecting refusals. Private to compiler/passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"

namespace millrace::compiler::passes {

using graph::Chain;
using graph::elements;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::operation_name;
using graph::Shape;
using graph::Step;
using graph::to_string;
using graph::Type;
using graph::Value;
using graph::ValueId;

/// What a pass cannot take: noted in the graph, so that the owner reads all of it at once. The node goes on
/// as it is, marked; later passes leave it, and what depends on it, alone.
void refuse(Graph& graph, Node& node, const std::string& reason);

/// kUnsupported, one line a node.
Error refusal_error(const Graph& graph);

/// The ONNX operator of a node, where it is one, of ai.onnx or com.microsoft; else null.
const OnnxOperator* onnx_of(const Node& node);
bool is_onnx(const Node& node, const char* type);

/// Inputs of ONNX nodes by position.
bool has_input(const Node& node, std::size_t i);
const graph::Constant* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// An ONNX node at work: what it reads and gives, and where what stands for it goes.
struct Site {
  Graph& graph;
  const graph::Uses& uses;
  std::vector<Node>& out;
  const Node& node;
  const OnnxOperator& op;

  const Value& in(std::size_t i) const { return graph.value(node.inputs[i]); }
  const Value& result() const { return graph.value(node.outputs[0]); }
  bool has(std::size_t i) const { return has_input(node, i); }
};

/// A float value known at compile time: a constant, or one dequantised from a constant (Uses of the same
/// graph).
std::optional<std::vector<float>> known_floats(const Graph& graph, const graph::Uses& uses, ValueId id);

/// Replaces every node that `rewrite` takes: it appends what stands for the node to `out` and gives true, or
/// gives false and leaves `out` as it was. Nodes are visited in order.
template <class Rewrite>
void rewrite_nodes(Graph& graph, Rewrite&& rewrite) {
  std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<Node> out;
  for (Node& n : old) {
    if (!rewrite(n, out)) out.push_back(std::move(n));
  }
  graph.nodes = std::move(out);
}

Node make_node(std::string name, graph::Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources);

/// "a" + "b" without what is there already.
std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Records what the integers of `value` stand for, for reports.
void note_meaning(Value& value, const std::vector<float>& scale, const std::vector<std::int64_t>& zero_point);

/// Elements of a constant that broadcasts over `shape` along at most one axis: the elements (one, or as many
/// as that axis) and the axis (-1 for one). Absent where it varies along several axes or enlarges the shape.
struct AlongAxis {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::int64_t axis = -1;
};
std::optional<AlongAxis> along_axis(const Value& constant, const Shape& shape);

// The passes, one a file.
// -------------------------------------------------------------------------------------------

Result<Graph> fold_constants(Graph graph);
Result<Graph> remove_dead(Graph graph);
Result<Graph> fold_batch_norm(Graph graph);
Result<Graph> lower_qoperators(Graph graph);
Result<Graph> lower_elementwise(Graph graph);
Result<Graph> sink_dequantise(Graph graph);
Result<Graph> lower_qdq(Graph graph);
Result<Graph> raise_quantise(Graph graph);
Result<Graph> merge_elementwise(Graph graph);
Result<Graph> fuse_requantise(Graph graph);
Result<Graph> choose_layout(Graph graph);
Result<Graph> lower_blocks(Graph graph);

}  // namespace millrace::compiler::passes
