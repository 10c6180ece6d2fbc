// The table entries of ArgMax, ArgMin, TopK, Where and Equal. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> choices();

/// Replaces a TopK by a node for each of its outputs that the model uses: one node for the values, and one with the
/// attribute `indices` for the indices. Returns what is wrong with the TopK, or an empty text.
std::string separate_top(const Node& node, const OnnxOperator& op, graph::Names& names,
                         std::vector<Node>& out);

/// Appends an ArgMax or ArgMin to `out`. If it reads integers that float32 represents, a Cast to float32 comes before it.
void convert_data_of_extreme(graph::Graph& graph, const Node& node, graph::Names& names,
                             std::vector<Node>& out);

}  // namespace millrace::compiler::operators
