// Models in QDQ form have float operators between dequantisers and quantisers. These functions read the
// dequantisers before a node and the quantiser behind it. Private to compiler/operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// A float value that equals integers times a scale.
struct Dequantised {
  ValueId q = graph::kNoValue;
  std::vector<float> scale;
  std::vector<std::int64_t> zero;
  bool written = false;  // Step::written
  /// Only for an activation: the operations by which the graph turns the integers into the float value. A FINN model may
  /// multiply by several scales in nodes of their own. `scale` is then the product of all scales. One multiplication by
  /// `scale` rounds less often than these operations do.
  std::vector<Step> steps = {};
};

/// Returns the integers, scale and zero point of input `i` if it is dequantised by one scale. Otherwise returns
/// nothing and sets `why` to what is missing.
std::optional<Dequantised> activation(const Site& site, std::size_t i, std::string& why);

/// Returns input `i` if it is constant weights that are dequantised with a single scale, or with a scale for each
/// output channel (axis `channel_axis`). Otherwise returns nothing and sets `why` to what is missing.
std::optional<Dequantised> weights(const Site& site, std::size_t i, std::int64_t channel_axis,
                                   std::string& why);

/// Returns input `i` if it is a constant that is dequantised by constants, otherwise nothing.
std::optional<Dequantised> constant_operand(const Site& site, std::size_t i);

/// Returns the bias at input `i` if it consists of constant floats: one number for all output channels, or one number
/// for each channel. Otherwise returns nothing and sets `why` to what is wrong.
std::optional<std::vector<float>> float_bias(Site& site, std::size_t i, std::int64_t channels,
                                             std::string& why);

/// Returns `factor` times the bias at input `i` in units of the accumulator. A bias in other units is rounded, and a note
/// says so.
std::optional<std::vector<std::int64_t>> bias(Site& site, std::size_t i, const std::vector<float>& scale,
                                              std::int64_t channels, std::string& why, float factor = 1.0F);

/// Returns an element-wise node's only step if the step is of kind `kind` and equal for all channels, otherwise null.
const Step* only_step(const Node* n, Step::Kind kind);

/// Returns the error text for input `i`, which has no quantiser before it.
std::string not_quantised(const Site& site, std::size_t i);

/// A quantiser that ONNX Runtime fuses with the node before it into the kernel of a QLinear operator.
struct FusedQuantiser {
  ValueId result = graph::kNoValue;  // the quantiser's output, integers
  Step quantise;
  bool made_unsigned = false;         // ONNX Runtime converts these int8 tensors to uint8
  std::vector<std::size_t> absorbed;  // indices of the quantiser's node and of Relu and Clip nodes before it
};

/// Returns the quantiser that ONNX Runtime fuses with this node. Returns nothing if the node is computed in float32.
std::optional<FusedQuantiser> fused_quantiser(const Site& site, const std::vector<ValueId>& operands);

/// Adds a note that the sum, which ONNX Runtime computes in float32, may round differently there, unless `scale` is a power
/// of two.
void note_inexact_sum(Site& site, float scale);

/// Marks the quantiser's nodes as part of the node that is being lowered.
void absorb(Site& site, const FusedQuantiser& quantiser);

}  // namespace millrace::compiler::operators
