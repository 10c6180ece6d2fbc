// Arithmetic whose constants differ from element to element, and broadcasting. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// Returns for each element of `shape` the index of the element of `operand` that broadcasting puts there.
std::vector<std::size_t> broadcast_indices(const Shape& operand, const Shape& shape);

/// Returns a value with the elements of `x`, repeated to `shape` as ONNX broadcasts them.
ValueId repeated(Site& site, ValueId x, const Shape& shape);

/// A node with constants for each element may have at most this many elements, because each of them gets its own
/// requantisation, which must be proved exact.
inline constexpr std::int64_t kMostElementsWithConstants = 8192;

/// Computes a chain of functions of `x`. Each of its constants has one entry, or an entry for each element of the
/// node's result in row-major order. In the emitted graph, `x` is flattened to a vector first, in the order of the
/// dataflow.
Outcome give_each_element(Site& site, Chain chain, ValueId x);

}  // namespace millrace::compiler::operators
