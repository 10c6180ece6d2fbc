// Operators whose inputs are all known become constants. Weights stay integers: DequantizeLinear is not folded.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

Result<Graph> fold_constants(Graph graph) {
  std::vector<Node> kept;
  for (Node& n : graph.nodes) {
    std::vector<const Value*> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(v == kNoValue ? nullptr : &graph.value(v));
    auto constant = operators::fold(*onnx_of(n), inputs, graph.value(n.outputs[0]));
    if (!constant) {
      kept.push_back(std::move(n));
      continue;
    }
    for (const ValueId output : graph.outputs)
      if (output == n.outputs[0])
        return Error(ErrorCode::kUnsupported,
                     "the graph's output '" + graph.value(output).name + "' does not depend on any input");
    graph.value(n.outputs[0]).constant = std::make_shared<const graph::Constant>(std::move(*constant));
  }
  graph.nodes = std::move(kept);
  return graph;
}

}  // namespace millrace::compiler::passes
