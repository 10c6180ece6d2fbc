// Rewrites a float graph before quantisation. The graph still computes the same function. Private to compiler/quantize
// and its tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::quantize {

/// A layer that multiplies its input by constant weights: Conv, ConvTranspose, Gemm or MatMul.
struct Product {
  std::size_t node = 0;               // index in Graph::nodes
  std::size_t data = 0, weights = 1;  // positions of its inputs
  std::size_t axis = 0;               // of the weights, along which output channels run
  std::size_t channels = 0;           // how many of them; with groups of a ConvTranspose, those of all groups
  bool per_channel = true;            // whether the axis holds every output channel once
};

/// Returns node number `node` as a layer with constant float weights, or nothing if the node is no such layer.
std::optional<Product> product_of(const graph::Graph& graph, std::size_t node);

/// Simplifies a graph: folds constants, removes dead nodes, turns dequantised weights into float constants, merges each
/// BatchNormalization into the convolution or fully connected layer before it, and merges alpha and beta of each Gemm
/// into its weights and bias.
Result<graph::Graph> prepare(graph::Graph graph);

/// Cross-layer equalisation (Nagel et al., "Data-free quantization through weight equalization and bias correction",
/// ICCV 2019). Changes pairs of layers that have nothing but Relu, pools and reshapes between them: scales each channel
/// between the two layers so that both layers' weights for this channel have the same range. Returns the number of
/// changed pairs.
std::size_t equalise(graph::Graph& graph);

}  // namespace millrace::compiler::quantize
