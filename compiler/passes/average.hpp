// Averages: what the sum of a window becomes, as ONNX Runtime computes it. Private to compiler/passes.
#pragma once

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

/// Whether the window is the whole of an input [1, C, H, W]: ONNX Runtime takes another kernel then.
bool covers(const graph::Geometry& window, const Shape& input);

/// The chain of a SumPool that QLinearAveragePool or (where `global`) QLinearGlobalAveragePool stands for:
/// from the sum of (x - zero) to integers quantised by `quantise`. `made_unsigned`: int8 tensors that ONNX
/// Runtime has made uint8 by adding 128. Notes where a result may differ from ONNX Runtime's.
Chain average_chain(Graph& graph, const Node& node, const graph::Geometry& window, bool global, float scale,
                    const Step& quantise, bool made_unsigned);

/// Notes that the average of dequantised numbers may differ from a model's float32 sum: where `scale` is no
/// power of two, that sum rounds, and otherwise in another order.
void note_inexact_average(Graph& graph, const Node& node, float scale);

}  // namespace millrace::compiler::passes
