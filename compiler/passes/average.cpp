#include "compiler/passes/average.hpp"

#include <cmath>

namespace millrace::compiler::passes {

bool covers(const graph::Geometry& window, const Shape& input) {
  return window.kernel_h == input[2] && window.kernel_w == input[3] && window.pad_top == 0 &&
         window.pad_left == 0 && window.pad_bottom == 0 && window.pad_right == 0;
}

Chain average_chain(Graph& graph, const Node& node, const graph::Geometry& window, bool global, float scale,
                    const Step& quantise, bool made_unsigned) {
  const auto count = static_cast<float>(window.kernel_h * window.kernel_w);
  const float result_scale = quantise.floats[0];
  const std::int64_t zero = quantise.integers[0];
  if (global)
    return {{Step::to_float(), Step::multiply({scale / (result_scale * count)}),
             Step::quantise({1.0F}, zero, quantise.lowest, quantise.highest)}};
  // The zero point is added before rounding, so that a tie goes to the even result.
  note_inexact_average(graph, node, scale);
  const std::int64_t shift = made_unsigned ? 128 : 0;
  return {{Step::dequantise({scale}, 0), Step::divide({count}), Step::divide({result_scale}),
           Step::add({static_cast<float>(zero + shift)}),
           Step::quantise({1.0F}, -shift, quantise.lowest, quantise.highest)}};
}

void note_inexact_average(Graph& graph, const Node& node, float scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5F) return;
  graph.diagnostics.push_back(
      {node.name,
       "averages an integer sum; ONNX Runtime adds in float32, and where that rounds a tie the "
       "result may differ by one step"});
}

}  // namespace millrace::compiler::passes
