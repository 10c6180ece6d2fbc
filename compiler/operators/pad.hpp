// The table entry of Pad, and which operators move integers. For compiler/operators and the passes that call lowering
// functions.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

std::span<const Operator> pads();

/// Which elements are added around an axis: a constant, copies of the first and last element, a mirror image without the
/// first and last element, or the elements of the other end.
enum class Border : std::uint8_t { kConstant, kEdge, kReflected, kWrapped };

/// Emits nodes that add `before` and `behind` elements around an axis of `x`, and returns the longer value. `border` is not
/// kConstant, and the axis must have enough elements.
ValueId extended(Site& site, ValueId x, std::size_t axis, std::int64_t before, std::int64_t behind,
                 Border border);

/// Whether `lower_qdq` of the operator pads or joins dequantised integers without changing them. Such nodes are lowered
/// before sums are lowered, so that a sum behind such a node can read the integers.
bool moves_integers(const OnnxOperator& op);

}  // namespace millrace::compiler::operators
