// Replaces an Einsum that is a matrix product by Transposes and a MatMul. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> einsums();

/// Appends the nodes that replace an Einsum to `out`: a Transpose of each operand, a MatMul, and a Transpose of the result,
/// each only if necessary. The shapes of the operands must be known. Returns what is wrong with the node, or an empty text.
std::string replace_einsum(graph::Graph& graph, const Node& node, const OnnxOperator& op, graph::Names& names,
                           std::vector<Node>& out);

}  // namespace millrace::compiler::operators
