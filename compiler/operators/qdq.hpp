// Models in QDQ form have float operators between dequantisers and quantisers. These functions read the
// dequantisers before a node and the quantiser behind it. Private to compiler/operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// A float value that is integers times a scale.
struct Dequantised {
  ValueId q = graph::kNoValue;
  std::vector<float> scale;
  std::vector<std::int64_t> zero;
};

/// Input `i`, dequantised by one scale. Otherwise `why` says what is missing.
std::optional<Dequantised> activation(const Site& site, std::size_t i, std::string& why);

/// Input `i`: constant weights, dequantised by one scale or by one per output channel (axis `channel_axis`).
std::optional<Dequantised> weights(const Site& site, std::size_t i, std::int64_t channel_axis,
                                   std::string& why);

/// Input `i` if it is a constant that is dequantised by constants; empty if it is not.
std::optional<Dequantised> constant_operand(const Site& site, std::size_t i);

/// The bias at input `i` in units of the accumulator. A bias in other units is rounded, with a note.
std::optional<std::vector<std::int64_t>> bias(Site& site, std::size_t i, const std::vector<float>& scale,
                                              std::int64_t channels, std::string& why);

/// The step of an element-wise node that has this one step, the same for all channels; null for other nodes.
const Step* only_step(const Node* n, Step::Kind kind);

/// The error about input `i`, which has no quantiser before it.
std::string not_quantised(const Site& site, std::size_t i);

/// The quantiser behind a node which ONNX Runtime fuses with it into the kernel of a QLinear operator.
struct FusedQuantiser {
  ValueId result = graph::kNoValue;  // the integers it gives
  Step quantise;
  bool made_unsigned = false;         // int8 tensors that ONNX Runtime converts to uint8
  std::vector<std::size_t> absorbed;  // the quantiser's node, and those of Relu and Clip before it
};

/// Empty if ONNX Runtime leaves this node with these integer operands in float32.
std::optional<FusedQuantiser> fused_quantiser(const Site& site, const std::vector<ValueId>& operands);

/// Marks the quantiser's nodes as part of the node that is lowered.
void absorb(Site& site, const FusedQuantiser& quantiser);

}  // namespace millrace::compiler::operators
