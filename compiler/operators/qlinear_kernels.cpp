// Compiled with -ffp-contract=off: only std::fma() fuses a multiplication and an addition.
#include "compiler/operators/qlinear_kernels.hpp"

#include <cmath>

namespace millrace::compiler::operators {

using graph::Step;
using Kind = graph::Combine::Kind;

namespace {

/// QLinearAdd's result for a = b = 0. One multiplication is fused, as in ONNX Runtime's compiled code.
float fixed_part(float factor_a, float zero_a, float factor_b, float zero_b, float zero) {
  return zero - std::fma(factor_a, zero_a, factor_b * zero_b);
}

}  // namespace

Affine affine(const Step& step) {
  return {step.floats[0], step.integers[0]};
}

QLinearKernel::QLinearKernel(Kind kind, Affine a, Affine b, Affine result, bool shifted)
    : kind_(kind),
      shift_(shifted ? 128 : 0),
      zero_a_(static_cast<float>(a.zero + shift_)),
      zero_b_(static_cast<float>(b.zero + shift_)),
      zero_(static_cast<float>(result.zero + shift_)),
      factor_a_(kind == Kind::kAdd ? a.scale / result.scale : a.scale * b.scale / result.scale),
      factor_b_(b.scale / result.scale),
      fixed_(fixed_part(factor_a_, zero_a_, factor_b_, zero_b_, zero_)) {}

std::int64_t QLinearKernel::operator()(std::int64_t a, std::int64_t b) const {
  const auto x = static_cast<float>(a + shift_), y = static_cast<float>(b + shift_);
  const float q = kind_ == Kind::kAdd ? std::fma(x, factor_a_, std::fma(y, factor_b_, fixed_))
                                      : (x - zero_a_) * (y - zero_b_) * factor_a_ + zero_;
  return static_cast<std::int64_t>(std::nearbyint(q)) - shift_;
}

graph::Chain add_constants(Affine data, Affine constant, const std::vector<std::int64_t>& known,
                           const Step& quantise) {
  const float scale = quantise.floats[0];
  const float data_factor = data.scale / scale, factor = constant.scale / scale;
  const float fixed = fixed_part(data_factor, static_cast<float>(data.zero), factor,
                                 static_cast<float>(constant.zero), static_cast<float>(quantise.integers[0]));
  std::vector<float> addend;
  for (const std::int64_t q : known) addend.push_back(std::fma(static_cast<float>(q), factor, fixed));
  return {{Step::to_float(), Step::multiply({data_factor}), Step::add(std::move(addend)),
           Step::quantise({1.0F}, 0, quantise.lowest, quantise.highest)}};
}

}  // namespace millrace::compiler::operators
