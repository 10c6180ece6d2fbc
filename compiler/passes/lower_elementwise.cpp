// Lowers ONNX operators that work on one element at a time, move elements or take a maximum: quantisers, Relu,
// arithmetic with constants, Reshape, MaxPool, Concat, Softmax. Sums stay for lower_qdq.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

Result<Graph> lower_elementwise(Graph graph) {
  return lower_operators(std::move(graph), &operators::Operator::lower_elementwise);
}

}  // namespace millrace::compiler::passes
