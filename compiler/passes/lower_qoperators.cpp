// Operators on integers with their scales as inputs (QLinearConv, MatMulInteger, com.microsoft QLinear…)
// become integer arithmetic with the float32 chain that ONNX Runtime's kernel evaluates.
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {

Result<Graph> lower_qoperators(Graph graph) {
  return lower_operators(std::move(graph), &operators::Operator::lower_qoperator);
}

}  // namespace millrace::compiler::passes
