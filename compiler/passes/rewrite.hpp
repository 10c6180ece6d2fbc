// Names that the passes share, and the declarations of the passes. Private to compiler/passes.
#pragma once

#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/operators/operators.hpp"
#include "compiler/passes/passes.hpp"

namespace millrace::compiler::passes {

using graph::Chain;
using graph::elements;
using graph::join_sources;
using graph::kNoValue;
using graph::make_node;
using graph::Node;
using graph::OnnxOperator;
using graph::operation_name;
using graph::Shape;
using graph::Step;
using graph::to_string;
using graph::Type;
using graph::Value;
using graph::ValueId;

/// Collects replacements of values by other values. Changing the whole graph for each replacement would take time that
/// grows with the square of the number of nodes.
class Replacements {
 public:
  explicit Replacements(const Graph& graph);

  /// Records that `to` replaces `from`. Changes the graph's outputs at once; apply() changes the inputs of nodes.
  void replace(Graph& graph, ValueId from, ValueId to);
  /// Returns the value that `v` stands for.
  ValueId of(ValueId v);
  /// Changes the inputs of all nodes.
  void apply(Graph& graph);

 private:
  std::vector<ValueId> by_;  // [value]: the value that replaces it, or the value itself
};

Result<Graph> fold_constants(Graph graph);
Result<Graph> remove_dead(Graph graph);
Result<Graph> lower_elementwise(Graph graph);
Result<Graph> tabulate(Graph graph);
Result<Graph> sink_dequantise(Graph graph);
Result<Graph> lower_qdq(Graph graph);
Result<Graph> raise_quantise(Graph graph);
Result<Graph> merge_elementwise(Graph graph);
Result<Graph> fuse_requantise(Graph graph);
Result<Graph> join_branches(Graph graph);
Result<Graph> narrow_signs(Graph graph);

}  // namespace millrace::compiler::passes
