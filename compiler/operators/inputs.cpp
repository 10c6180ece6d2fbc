// How many inputs each operator may have. A model with more inputs than its operator's definition allows comes from a
// damaged file or a faulty exporter, and the compiler would ignore what these inputs mean.
#include <limits>
#include <set>
#include <string_view>

#include "compiler/operators/operators.hpp"

namespace millrace::compiler::operators {
namespace {

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

/// Operators that take at most `most` inputs, over all versions of the operator and in every domain.
struct InputLimit {
  std::size_t most;
  std::set<std::string_view> types;
};

/// Returns the limits of all operators that take more than one input.
const std::vector<InputLimit>& input_limits() {
  static const std::vector<InputLimit> kLimits = {
      {2, {"Add",          "BipolarQuant",
           "CumSum",       "Div",
           "Equal",        "Expand",
           "Gather",       "MatMul",
           "Mul",          "MultiThreshold",
           "PRelu",        "Pow",
           "ReduceL1",     "ReduceL2",
           "ReduceLogSum", "ReduceLogSumExp",
           "ReduceMax",    "ReduceMean",
           "ReduceMin",    "ReduceProd",
           "ReduceSum",    "ReduceSumSquare",
           "Reshape",      "Split",
           "Squeeze",      "Sub",
           "Tile",         "TopK",
           "Trilu",        "Unsqueeze",
           "Upsample"}},
      {3,
       {"Clip", "Conv", "ConvTranspose", "DequantizeLinear", "Dropout", "Gemm", "GroupNormalization",
        "InstanceNormalization", "LayerNormalization", "QuantizeLinear", "Where"}},
      {4, {"ConvInteger", "IntQuant", "MatMulInteger", "Pad", "Quant", "Resize"}},
      {5,
       {"BatchNormalization", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
        "QLinearSigmoid", "QLinearSoftmax", "Slice"}},
      {6, {"Trunc"}},
      {8, {"QLinearAdd", "QLinearMatMul", "QLinearMul"}},
      {9, {"QGemm", "QLinearConv"}},
      {kAnyNumber, {"Concat", "Einsum", "Max", "Mean", "Min", "QLinearConcat", "Sum"}}};
  return kLimits;
}

}  // namespace

std::optional<std::size_t> most_inputs(const graph::OnnxOperator& op) {
  if (find(op) == nullptr) return std::nullopt;
  for (const InputLimit& limit : input_limits())
    if (limit.types.contains(op.type))
      return limit.most == kAnyNumber ? std::nullopt : std::optional(limit.most);
  return 1;
}

}  // namespace millrace::compiler::operators
