// BatchNormalization becomes a factor and an addend per channel. Requantisation absorbs both.
#include <cmath>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

Result<Graph> fold_batch_norm(Graph graph) {
  std::vector<Node> out;
  for (Node& n : graph.nodes) {
    if (!is_onnx(n, "BatchNormalization")) {
      out.push_back(std::move(n));
      continue;
    }
    const graph::Constant* p[5] = {};
    for (std::size_t i = 1; i < 5; ++i) p[i] = constant_input(graph, n, i);
    if (p[1] == nullptr || p[2] == nullptr || p[3] == nullptr || p[4] == nullptr ||
        onnx_of(n)->integer("training_mode", 0) != 0) {
      refuse(graph, n, "its parameters must be constants, and training_mode 0");
      out.push_back(std::move(n));
      continue;
    }
    const float epsilon = onnx_of(n)->real("epsilon", 1e-5F);
    const Value y = graph.value(n.outputs[0]);
    graph::Constant factor, addend;
    for (std::size_t c = 0; c < p[1]->floats.size(); ++c) {
      const float f = p[1]->floats[c] / std::sqrt(p[4]->floats[c] + epsilon);
      factor.floats.push_back(f);
      addend.floats.push_back(p[2]->floats[c] - p[3]->floats[c] * f);
    }
    Shape shape(y.shape.size(), 1);
    shape[1] = y.shape[1];
    const ValueId f = graph.add_constant(y.name + ".factor", Type::float32(), shape, std::move(factor));
    const ValueId a = graph.add_constant(y.name + ".addend", Type::float32(), shape, std::move(addend));
    const ValueId scaled = graph.add_value(y.name + ".scaled", y.type, y.shape);
    out.push_back(make_node(n.name, OnnxOperator{"", "Mul", 14, {}}, {n.inputs[0], f}, scaled, n.sources));
    out.push_back(
        make_node(n.name + ".shift", OnnxOperator{"", "Add", 14, {}}, {scaled, a}, n.outputs[0], n.sources));
  }
  graph.nodes = std::move(out);
  return graph;
}

}  // namespace millrace::compiler::passes
