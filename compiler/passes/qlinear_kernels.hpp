// The arithmetic of ONNX Runtime's kernels for QLinearAdd and QLinearMul, which it also computes quantised
// Add and Mul nodes with. Private to compiler/passes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::passes {

/// What an integer q of a tensor stands for: (q - zero) * scale.
struct Affine {
  float scale = 1;
  std::int64_t zero = 0;
};

/// One pair of operands, as ONNX Runtime 1.30 computes it on x86 processors with AVX2 and FMA (mlas,
/// qladd_avx2.cpp and qlmul.cpp). Other processors' kernels may round a tie the other way.
class QLinearKernel {
 public:
  /// A signed tensor that ONNX Runtime makes unsigned, adding 128 to everything, has `shifted`.
  QLinearKernel(graph::Combine::Kind kind, Affine a, Affine b, Affine result, bool shifted);

  /// The result's integer before it is clamped to its type; the zero point is added before rounding.
  std::int64_t operator()(std::int64_t a, std::int64_t b) const;

 private:
  graph::Combine::Kind kind_;
  std::int64_t shift_;
  float zero_a_, zero_b_, zero_;
  float factor_a_, factor_b_;  // QLinearMul has one
  float fixed_;                // of QLinearAdd: the result for a = b = 0
};

/// QLinearAdd of a tensor and the constants `known`, element by element: from the tensor's integers to those
/// of `quantise`. The kernel rounds once where this chain rounds its product and its sum, so that a result
/// that lies between two steps may differ, unless the scales are powers of two.
graph::Chain add_constants(Affine data, Affine constant, const std::vector<std::int64_t>& known,
                           const graph::Step& quantise);

}  // namespace millrace::compiler::passes
