// Helpers of the passes. Private to compiler/passes.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/nodes.hpp"
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

/// Notes that no pass supports the node. The node stays in the graph as it is. Later passes skip it and what
/// depends on it, so that one error lists all such nodes.
void refuse(Graph& graph, Node& node, const std::string& reason);

/// The error that lists all refused nodes (kUnsupported).
Error refusal_error(const Graph& graph);

/// Replaces each ONNX node whose row in the operator table has this lowering.
Graph lower_operators(Graph graph, operators::Lowering operators::Operator::*lowering);

// The passes, one per file.
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

}  // namespace millrace::compiler::passes
