// The table entries of ArgMax, ArgMin, TopK, Where and Equal. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> choices();

/// Makes a node of each output of a TopK that is not left out: one of the values, and one of the indices, which has the
/// attribute `indices`. Returns what is wrong with the node, or an empty text.
std::string separate_top(const Node& node, const OnnxOperator& op, graph::Names& names,
                         std::vector<Node>& out);

}  // namespace millrace::compiler::operators
