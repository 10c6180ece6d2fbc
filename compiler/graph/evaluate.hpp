// The value of an ONNX operator whose inputs are all known: what constant folding and shape inference compute
// with.
#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::graph {

/// The operator's first output, where it is one that folding knows and the result has at most `limit`
/// elements; inputs are given in the node's order, null where left out. Never DequantizeLinear: integer
/// weights stay integers. `output` has the type and shape that shape inference found.
std::optional<Constant> evaluate(const OnnxOperator& op, const std::vector<const Value*>& inputs,
                                 const Value& output, std::int64_t limit = std::int64_t{1} << 28);

}  // namespace millrace::compiler::graph
