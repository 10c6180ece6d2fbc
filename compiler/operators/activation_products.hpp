// The matrix product of two activations, as in attention. Private to compiler/operators.
#pragma once

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// Lowers a MatMul of two quantised activations: the host sums products of integers, exactly, and scales the sums as ONNX
/// Runtime's QLinearMatMul and MatMulIntegerToFloat do.
Outcome lower_product_of_activations(Site& site);

}  // namespace millrace::compiler::operators
