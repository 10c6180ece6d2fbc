// Counts the multiplications and the weights of an imported graph's nodes.
#include "compiler/coverage/parts.hpp"

namespace millrace::compiler::coverage {
namespace {

using graph::Shape;

std::uint64_t count(const Shape& shape) {
  return static_cast<std::uint64_t>(graph::elements(shape));
}

/// Returns the number of multiplications of a convolution or matrix product with operand `x`, weights `w` and result
/// `y`.
std::uint64_t multiplications(const graph::OnnxOperator& op, const Shape& x, const Shape& w, const Shape& y) {
  if (x.empty() || w.empty()) return 0;
  const bool transposed = op.type == "ConvTranspose";
  if (op.type == "Conv" || op.type == "ConvInteger" || transposed)
    return count(transposed ? x : y) * (count(w) / static_cast<std::uint64_t>(w[0]));
  const bool first = op.type == "Gemm" && op.integer("transA", 0) != 0;
  return count(y) * static_cast<std::uint64_t>(first ? x.front() : x.back());
}

}  // namespace

std::map<std::string, Work> work_of(const graph::Graph& graph) {
  std::map<std::string, Work> all;
  const std::vector<bool> dynamic = graph::dynamic_values(graph);
  for (const graph::Node& n : graph.nodes) {
    const graph::OnnxOperator* op = graph::onnx_of(n);
    if (op == nullptr || n.sources.empty() || !has_input(n, 0) || !has_input(n, 1)) continue;
    const bool product = op->type == "Conv" || op->type == "ConvInteger" || op->type == "ConvTranspose" ||
                         op->type == "Gemm" || op->type == "MatMul" || op->type == "MatMulInteger";
    if (!product || !dynamic[n.outputs[0]]) continue;
    Work& work = all[n.sources.front()];
    const auto& w = graph.value(n.inputs[1]);
    work.multiply_accumulates +=
        multiplications(*op, graph.value(n.inputs[0]).shape, w.shape, graph.value(n.outputs[0]).shape);
    if (!dynamic[n.inputs[1]]) work.weights += count(w.shape);
  }
  return all;
}

}  // namespace millrace::compiler::coverage
