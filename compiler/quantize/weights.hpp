// Quantises constant weights. Private to compiler/quantize and its tests.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/compensate.hpp"

namespace millrace::compiler::quantize {

/// Weights as integers from -(2^(bits-1) - 1) to 2^(bits-1) - 1, and one scale for all or for each output channel.
struct Weights {
  std::vector<std::int64_t> integers;
  std::vector<float> scale;
};

/// Quantises the weights with one scale for each index along `axis`, or with one for all. At 8 bits a scale lets the
/// largest weight be the largest integer. At fewer bits it is the scale that gives the least squared error, which may cut
/// off the largest weights, and the rounding minds `moments`, the moments of the product's inputs, if they are given
/// (compensate.hpp). No scale is below the entry of `least` for its channel (one entry for all if there is only
/// one scale).
Weights quantise_weights(const graph::Value& weights, std::size_t axis, bool per_channel, int bits,
                         std::span<const double> least, const InputMoments* moments = nullptr);

}  // namespace millrace::compiler::quantize
