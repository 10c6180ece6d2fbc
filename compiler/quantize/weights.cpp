#include "compiler/quantize/weights.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler::quantize {
namespace {

constexpr int kBitsOfExactRange = 8;

double rounded(double weight, double scale, double most) {
  return std::clamp(std::nearbyint(weight / scale), -most, most);
}

/// Returns the scale with the least squared rounding error. Tries scales from 100 % down to 40 % of the scale that
/// represents the largest weight; smaller scales cut off the largest weights.
double best_scale(const std::vector<double>& weights, double largest, double most) {
  double best = largest / most, least = -1;
  constexpr int kTries = 50;
  for (int i = 0; i <= kTries; ++i) {
    const double scale = largest / most * (1 - 0.6 * i / kTries);
    double error = 0;
    for (const double w : weights) {
      const double lost = w - rounded(w, scale, most) * scale;
      error += lost * lost;
    }
    if (least < 0 || error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

/// Rounds all weights again with round_compensated(), so that later weights compensate for the rounding errors of
/// earlier ones.
void compensate(const std::vector<float>& floats, const graph::AlongAxis& along, double most,
                const InputMoments& moments, Weights& result) {
  std::vector<std::vector<std::size_t>> places(
      along.extent);  // of a channel's weights, in the order of its inputs
  for (std::size_t i = 0; i < floats.size(); ++i) places[along.index(i)].push_back(i);
  const std::size_t channels_of_group = along.extent / moments.groups();
  std::vector<double> factor;
  for (std::size_t c = 0; c < along.extent; ++c) {
    if (c % channels_of_group == 0)
      factor = factor_of(moments.matrix(c / channels_of_group), moments.inputs());
    if (factor.empty() || places[c].size() != moments.inputs()) continue;
    std::vector<double> weights;
    for (const std::size_t i : places[c]) weights.push_back(static_cast<double>(floats[i]));
    const auto integers =
        round_compensated(std::move(weights), static_cast<double>(result.scale[c]), most, factor);
    for (std::size_t k = 0; k < integers.size(); ++k) result.integers[places[c][k]] = integers[k];
  }
}

}  // namespace

Weights quantise_weights(const graph::Value& weights, std::size_t axis, bool per_channel, int bits,
                         std::span<const double> least, const InputMoments* moments) {
  const auto& floats = weights.constant->floats;
  const graph::AlongAxis along = per_channel ? graph::AlongAxis(weights.shape, axis) : graph::AlongAxis();
  const std::size_t channels = per_channel ? along.extent : 1;
  const double most = static_cast<double>((std::int64_t{1} << (bits - 1)) - 1);
  std::vector<std::vector<double>> by_channel(channels);
  for (std::size_t i = 0; i < floats.size(); ++i)
    by_channel[per_channel ? along.index(i) : 0].push_back(static_cast<double>(floats[i]));
  double largest_of_all = 0;
  for (const float w : floats) largest_of_all = std::max(largest_of_all, std::abs(static_cast<double>(w)));
  Weights result;
  for (std::size_t c = 0; c < channels; ++c) {
    double largest = 0;
    for (const double w : by_channel[c]) largest = std::max(largest, std::abs(w));
    double scale = bits >= kBitsOfExactRange ? largest / most : best_scale(by_channel[c], largest, most);
    // A channel whose weights are all zero or tiny still gets a scale above zero, far smaller than the scales of other
    // channels.
    scale = std::max({scale, largest_of_all / most * 1e-6, c < least.size() ? least[c] : 0.0});
    result.scale.push_back(scale > 0 && std::isfinite(scale) ? static_cast<float>(scale) : 1.0F);
  }
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto scale = static_cast<double>(result.scale[per_channel ? along.index(i) : 0]);
    result.integers.push_back(
        static_cast<std::int64_t>(rounded(static_cast<double>(floats[i]), scale, most)));
  }
  if (moments != nullptr && per_channel) compensate(floats, along, most, *moments, result);
  return result;
}

}  // namespace millrace::compiler::quantize
