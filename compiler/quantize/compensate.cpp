#include "compiler/quantize/compensate.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler::quantize {
namespace {

/// Replaces a symmetric matrix by its lower Cholesky factor. Returns whether it is positive definite.
bool decompose(std::vector<double>& a, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    double* const row = &a[j * n];
    double diagonal = row[j];
    for (std::size_t k = 0; k < j; ++k) diagonal -= row[k] * row[k];
    if (!(diagonal > 0) || !std::isfinite(diagonal)) return false;
    row[j] = std::sqrt(diagonal);
    for (std::size_t i = j + 1; i < n; ++i) {
      double* const other = &a[i * n];
      double sum = other[j];
      for (std::size_t k = 0; k < j; ++k) sum -= other[k] * row[k];
      other[j] = sum / row[j];
    }
  }
  return true;
}

/// Returns the inverse of L Lᵀ for a lower triangular matrix L.
std::vector<double> inverse_of(const std::vector<double>& lower, std::size_t n) {
  std::vector<double> inverse_lower(n * n, 0);  // L⁻¹
  for (std::size_t j = 0; j < n; ++j) {
    inverse_lower[j * n + j] = 1 / lower[j * n + j];
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = 0;
      for (std::size_t k = j; k < i; ++k) sum -= lower[i * n + k] * inverse_lower[k * n + j];
      inverse_lower[i * n + j] = sum / lower[i * n + i];
    }
  }
  std::vector<double> inverse(n * n, 0);  // L⁻ᵀ L⁻¹
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i <= k; ++i) {
      const double factor = inverse_lower[k * n + i];
      for (std::size_t j = 0; j <= k; ++j) inverse[i * n + j] += factor * inverse_lower[k * n + j];
    }
  return inverse;
}

}  // namespace

std::optional<InputMoments> InputMoments::of(const graph::Graph& graph, const Product& product) {
  const graph::Node& node = graph.nodes[product.node];
  const graph::OnnxOperator& op = *graph::onnx_of(node);
  const graph::Shape& data = graph.value(node.inputs[product.data]).shape;
  const graph::Shape& weights = graph.value(node.inputs[product.weights]).shape;
  InputMoments moments;
  if (op.type == "Conv") {
    if (data.size() > 4) return std::nullopt;
    std::string why;
    const auto window = graph::resolve_window(op, data, {weights.begin() + 2, weights.end()}, why);
    if (!window) return std::nullopt;
    moments.convolution_ = true;
    moments.window_ = window->window;
    moments.channels_ = static_cast<std::size_t>(weights[1]);
    moments.height_ = data.size() == 4 ? static_cast<std::size_t>(data[2]) : 1;
    moments.width_ = static_cast<std::size_t>(data.back());
    moments.out_height_ = static_cast<std::size_t>(window->out_h);
    moments.out_width_ = static_cast<std::size_t>(window->out_w);
    moments.inputs_ = static_cast<std::size_t>(graph::elements(weights) / weights[0]);
  } else if (op.type == "MatMul" || (op.type == "Gemm" && op.integer("transA", 0) == 0)) {
    moments.inputs_ = static_cast<std::size_t>(data.back());
  } else {
    return std::nullopt;
  }
  if (moments.inputs_ > kMostInputs) return std::nullopt;
  const auto groups = static_cast<std::size_t>(moments.convolution_ ? op.integer("group", 1) : 1);
  moments.vector_.resize(moments.inputs_);
  moments.sums_.assign(groups, std::vector<double>(moments.inputs_ * moments.inputs_, 0));
  return moments;
}

void InputMoments::add_vector(std::size_t group) {
  present_.clear();
  for (std::size_t i = 0; i < inputs_; ++i)
    if (vector_[i] != 0) present_.push_back(i);
  for (const std::size_t i : present_) {
    const auto x = static_cast<double>(vector_[i]);
    double* const row = &sums_[group][i * inputs_];
    for (const std::size_t j : present_) row[j] += x * static_cast<double>(vector_[j]);
  }
}

void InputMoments::add(std::span<const float> data) {
  if (!convolution_) {
    for (std::size_t at = 0; at + inputs_ <= data.size(); at += inputs_) {
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(at), inputs_, vector_.begin());
      add_vector(0);
    }
    return;
  }
  const auto h = static_cast<std::int64_t>(height_), w = static_cast<std::int64_t>(width_);
  for (std::size_t group = 0; group < sums_.size(); ++group)
    for (std::size_t y = 0; y < out_height_; ++y)
      for (std::size_t x = 0; x < out_width_; ++x) {
        std::size_t at = 0;
        for (std::size_t c = 0; c < channels_; ++c)
          for (std::int64_t ky = 0; ky < window_.kernel_h; ++ky)
            for (std::int64_t kx = 0; kx < window_.kernel_w; ++kx) {
              const std::int64_t iy =
                  static_cast<std::int64_t>(y) * window_.stride_h + ky * window_.dilation_h - window_.pad_top;
              const std::int64_t ix = static_cast<std::int64_t>(x) * window_.stride_w +
                                      kx * window_.dilation_w - window_.pad_left;
              const bool inside = iy >= 0 && iy < h && ix >= 0 && ix < w;
              const std::size_t plane = (group * channels_ + c) * height_ * width_;
              vector_[at++] = inside ? data[plane + static_cast<std::size_t>(iy * w + ix)] : 0;
            }
        add_vector(group);
      }
}

std::vector<double> factor_of(const std::vector<double>& moments, std::size_t inputs) {
  constexpr double kDamping =
      0.01;  // of the mean of the diagonal: keeps inputs that are always 0 from mattering
  std::vector<double> damped = moments;
  double mean = 0;
  for (std::size_t i = 0; i < inputs; ++i) mean += moments[i * inputs + i] / static_cast<double>(inputs);
  if (!(mean > 0)) return {};
  for (std::size_t i = 0; i < inputs; ++i) damped[i * inputs + i] += kDamping * mean;
  if (!decompose(damped, inputs)) return {};
  std::vector<double> inverse = inverse_of(damped, inputs);
  if (!decompose(inverse, inputs)) return {};
  std::vector<double> upper(inputs * inputs, 0);
  for (std::size_t i = 0; i < inputs; ++i)
    for (std::size_t j = 0; j <= i; ++j) upper[j * inputs + i] = inverse[i * inputs + j];
  return upper;
}

std::vector<std::int64_t> round_compensated(std::vector<double> weights, double scale, double most,
                                            std::span<const double> factor) {
  const std::size_t n = weights.size();
  std::vector<std::int64_t> integers(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double q = std::clamp(std::nearbyint(weights[i] / scale), -most, most);
    integers[i] = static_cast<std::int64_t>(q);
    const double error = (weights[i] - q * scale) / factor[i * n + i];
    for (std::size_t j = i + 1; j < n; ++j) weights[j] -= error * factor[i * n + j];
  }
  return integers;
}

}  // namespace millrace::compiler::quantize
