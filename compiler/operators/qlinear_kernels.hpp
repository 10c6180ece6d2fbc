// The arithmetic of ONNX Runtime's kernels for QLinearAdd and QLinearMul. ONNX Runtime also computes quantised
// Add and Mul nodes with these kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::operators {

/// An integer q of a tensor represents (q - zero) * scale.
struct Affine {
  float scale = 1;
  std::int64_t zero = 0;
};

/// The scale and zero point of a quantising or dequantising step.
Affine affine(const graph::Step& step);

/// One pair of operands, as ONNX Runtime 1.30 computes it on x86 processors with AVX2 and FMA (mlas,
/// qladd_avx2.cpp and qlmul.cpp). Kernels of other processors may round a tie the other way.
class QLinearKernel {
 public:
  /// `shifted`: ONNX Runtime converts the signed tensors to unsigned ones by adding 128.
  QLinearKernel(graph::Combine::Kind kind, Affine a, Affine b, Affine result, bool shifted);

  /// The result before it is clamped to its type. The zero point is added before rounding.
  std::int64_t operator()(std::int64_t a, std::int64_t b) const;

 private:
  graph::Combine::Kind kind_;
  std::int64_t shift_;
  float zero_a_, zero_b_, zero_;
  float factor_a_, factor_b_;  // QLinearMul uses factor_a_ only
  float fixed_;                // QLinearAdd: the result for a = b = 0
};

/// QLinearAdd of a tensor and the constants `known`, element by element, from the tensor's integers to those of
/// `quantise`. The kernel rounds once where this chain rounds product and sum. Unless scales are powers of two,
/// a result between two steps may therefore differ.
graph::Chain add_constants(Affine data, Affine constant, const std::vector<std::int64_t>& known,
                           const graph::Step& quantise);

}  // namespace millrace::compiler::operators
