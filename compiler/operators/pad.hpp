// The table entry of Pad, and which operators move integers. For compiler/operators and the passes that call lowering
// functions.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> pads();

/// Whether `lower_qdq` of the operator pads or joins dequantised integers without changing them. Such nodes are lowered
/// before sums are lowered, so that a sum behind such a node can read the integers.
bool moves_integers(const OnnxOperator& op);

}  // namespace millrace::compiler::operators
