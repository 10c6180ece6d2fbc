// Rewrites a float graph before it is quantised, without changing what it means. Private to compiler/quantize and its
// tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::quantize {

/// A product with constant weights: Conv, ConvTranspose, Gemm or MatMul.
struct Product {
  std::size_t node = 0;               // index in Graph::nodes
  std::size_t data = 0, weights = 1;  // positions of its inputs
  std::size_t axis = 0;               // of the weights, along which output channels run
  std::size_t channels = 0;           // how many of them; with groups of a ConvTranspose, those of all groups
  bool per_channel = true;            // whether the axis holds every output channel once
};

/// Describes a node as a product with constant float weights, or returns nothing.
std::optional<Product> product_of(const graph::Graph& graph, std::size_t node);

/// Folds constants and dead nodes; makes float constants of dequantised weights; merges each BatchNormalization into the
/// convolution or fully connected layer before it, and alpha and beta of Gemm into its weights and bias.
Result<graph::Graph> prepare(graph::Graph graph);

/// Cross-layer equalisation (Nagel et al., "Data-free quantization through weight equalization and bias correction",
/// ICCV 2019): where one product reads another's result through nothing but Relu, pools and reshapes, scales the channels
/// between the two so that both layers' weights of a channel have the same range. Returns how many pairs it changed.
std::size_t equalise(graph::Graph& graph);

}  // namespace millrace::compiler::quantize
