// Quantises constant weights. Private to compiler/quantize and its tests.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/compensate.hpp"

namespace millrace::compiler::quantize {

/// Quantised weights: integers from -(2^(bits-1) - 1) to 2^(bits-1) - 1, and either one scale for all weights or one
/// for each output channel.
struct Weights {
  std::vector<std::int64_t> integers;
  std::vector<float> scale;
};

/// Quantises the weights with one scale for each index along `axis` or, if `per_channel` is false, with one scale for
/// all. With 8 bits, the largest weight becomes the largest integer. With fewer bits, the scale is the one with the
/// least squared error, which may cut off the largest weights. If `moments` is given (the moments of the layer's
/// inputs, see compensate.hpp), rounding errors are compensated for such inputs. `least` contains lower bounds for the
/// scales, one for each scale.
Weights quantise_weights(const graph::Value& weights, std::size_t axis, bool per_channel, int bits,
                         std::span<const double> least, const InputMoments* moments = nullptr);

}  // namespace millrace::compiler::quantize
