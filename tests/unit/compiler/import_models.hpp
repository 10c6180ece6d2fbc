// Small ONNX models that import takes, for tests that change them.
#pragma once

#include "onnx_model.hpp"

namespace millrace::tests {

/// input -> quantised -> Conv 3x3 -> quantised -> output
OnnxModel small_model();

/// Branches, pools, moves and an integer form.
OnnxModel larger_model();

/// input -> QLinearConv -> QLinearMatMul -> output, all parameters named.
OnnxModel operator_model();

/// Functions, a fully connected layer with bias, and a branch.
OnnxModel function_model();

}  // namespace millrace::tests
