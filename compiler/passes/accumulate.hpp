// From a convolution or matrix product on integers to an Accumulate node. Private to compiler/passes.
#pragma once

#include <string>
#include <vector>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

/// A sum of products and what is done with it, in ONNX's terms.
struct Product {
  ValueId x = kNoValue;
  std::int64_t input_zero = 0;
  ValueId weights = kNoValue;             // a constant
  std::vector<std::int64_t> weight_zero;  // one, or one an output channel
  std::vector<std::int64_t> bias;         // empty, or one an output channel
  Chain chain;                // on the accumulator, constants along the output channel; may be empty
  ValueId result = kNoValue;  // of the ONNX node
};

/// Appends the nodes that compute `p.result`: a window over one or two spatial axes, as `op` says. Else why
/// not.
std::string add_convolution(Graph& graph, std::vector<Node>& out, const Node& from, const OnnxOperator& op,
                            Product p);

/// The same for x [.., T, K] times weights [K, N] (`transposed`: [N, K]).
std::string add_matrix_product(Graph& graph, std::vector<Node>& out, const Node& from, bool transposed,
                               Product p);

/// Output channels of the weights in both cases.
std::int64_t convolution_channels(const Value& weights);
std::int64_t matrix_channels(const Value& weights, bool transposed);

}  // namespace millrace::compiler::passes
