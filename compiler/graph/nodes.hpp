// Helpers that read and make nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::graph {

/// The node's ONNX operator, or null if it is another operation.
const OnnxOperator* onnx_of(const Node& node);
bool is_onnx(const Node& node, const char* type);

/// Inputs of ONNX nodes by position.
bool has_input(const Node& node, std::size_t i);
const Constant* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// The node that produces `value`; null for inputs and constants.
const Node* producer_of(const Graph& graph, const Uses& uses, ValueId value);

/// The elements of a float value that is constant, or dequantised from a constant. `uses` is of `graph`.
std::optional<std::vector<float>> known_floats(const Graph& graph, const Uses& uses, ValueId id);

/// Notes that no pass supports the node. The node stays in the graph as it is. Later passes skip it and what
/// depends on it, so that one error lists all such nodes.
void refuse(Graph& graph, Node& node, const std::string& reason);

/// The error that lists the refused nodes (kUnsupported): at most ten, and the number of the others.
Error refusal_error(const Graph& graph);

Node make_node(std::string name, Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources);

/// `a`, then those of `b` that are not in `a`.
std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b);

/// Records for reports what the integers of `value` represent.
void note_meaning(Value& value, const std::vector<float>& scale, const std::vector<std::int64_t>& zero_point);
void copy_meaning(Graph& graph, ValueId from, ValueId to);

/// Adds a note that the node's bias was rounded, if by more than a thousandth of an accumulator step.
void note_rounded_bias(Graph& graph, const Node& node, double accumulator_steps);

}  // namespace millrace::compiler::graph
