// Rounds weights so that later weights make up for the errors of earlier ones. Private to compiler/quantize and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/prepare.hpp"

namespace millrace::compiler::quantize {

/// Second moments of the inputs of a layer with weights. They show which inputs are large together: the sum of x xᵀ
/// over all vectors x of inputs that are multiplied by one output channel's weights. Each group of a convolution has
/// its own matrix.
class InputMoments {
 public:
  /// Returns nothing for layers that this class does not support: ConvTranspose, layers with more than kMostInputs
  /// weights for each output, and convolutions with more than two spatial axes.
  static std::optional<InputMoments> of(const graph::Graph& graph, const Product& product);
  static constexpr std::size_t kMostInputs = 1536;

  void add(std::span<const float> data);  // the product's data input of one frame

  std::size_t inputs() const { return inputs_; }
  std::size_t groups() const { return sums_.size(); }
  const std::vector<double>& matrix(std::size_t group) const { return sums_[group]; }  // inputs x inputs

 private:
  void add_vector(std::size_t group);

  std::size_t inputs_ = 0;
  bool convolution_ = false;
  kernels::Window window_;
  std::size_t channels_ = 0, height_ = 0, width_ = 0, out_height_ = 0, out_width_ = 0;
  std::vector<float> vector_;
  std::vector<std::size_t> present_;  // indices of the elements of vector_ that are not 0
  std::vector<std::vector<double>> sums_;
};

/// Rounds the weights of one output channel to integers from -most to most in steps of `scale`. The rounding error of
/// each weight is compensated by the weights after it, so that the layer's result changes least for typical inputs (E.
/// Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022). `factor`
/// is the result of factor_of() for the moments of these inputs.
std::vector<std::int64_t> round_compensated(std::vector<double> weights, double scale, double most,
                                            std::span<const double> factor);

/// Returns the upper Cholesky factor of the inverse of the moments. Before the inversion, a small number is added to
/// the diagonal. Empty if the matrix is not positive definite.
std::vector<double> factor_of(const std::vector<double>& moments, std::size_t inputs);

}  // namespace millrace::compiler::quantize
