// Small ONNX models that the importer accepts. Tests change them to see what the importer refuses.
#pragma once

#include "onnx_model.hpp"

namespace millrace::tests {

/// Returns the model input -> quantised -> Conv 3x3 -> quantised -> output.
OnnxModel small_model();

/// Returns a model with branches, pools, operators that only move data, and integer operators.
OnnxModel larger_model();

/// Returns the model input -> QLinearConv -> QLinearMatMul -> output, with a name for every parameter.
OnnxModel operator_model();

/// Returns a model with functions, a fully connected layer with bias, and a branch.
OnnxModel function_model();

}  // namespace millrace::tests
