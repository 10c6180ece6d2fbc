// Tests functions of one and of two elements. Each function is a small model, which is compiled whole; its outputs are
// compared with ONNX's definition. Float32 and the interpreter's double precision may round a value between two steps
// to different steps, so results may be one step apart.
#include <gtest/gtest.h>

#include <cmath>

#include "operator_case.hpp"

namespace millrace::tests::test_operator_functions {
namespace {

using kernels::Program;

struct Function {
  const char* type;
  float scale;  // of the result
  std::int64_t opset = 13;
  const char* attribute = nullptr;
  float value = 0;
  float step = 0.0625F;  // of the data
};

class FunctionOfOneByte : public testing::TestWithParam<Function> {};

/// Returns a model that applies the function to a quantised tensor. The zero point `zero` decides whether the
/// tensor's values lie around 0 or are all positive. For Acosh, values below 1 are clipped to 1.
OnnxModel with_function(const Function& f, std::int64_t zero) {
  OnnxModel m(f.opset);
  m.input("x", {1, 3, 8, 7});
  std::string x = m.pair("x", f.step, zero, "xq");
  if (std::string(f.type) == "Acosh") x = m.node("Clip", {x, m.floats("one", {}, {1})}, "from_one");
  m.node(f.type, {x}, "f");
  if (f.attribute != nullptr) m.attribute(f.attribute, f.value);
  m.pair("f", f.scale, 0, "y");
  m.output("y");
  return m;
}

TEST_P(FunctionOfOneByte, BecomesALookupTableOrAChangeOfScale) {
  const Function& f = GetParam();
  const std::string type = f.type;
  const bool positive = type == "Log" || type == "Sqrt" || type == "Reciprocal";
  const Program p =
      expect_meaning(with_function(f, positive ? -129 + 1 : 3), 1.01 * static_cast<double>(f.scale));
  EXPECT_EQ(count_blocks(p, "lookup") + count_blocks(p, "rescale"), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Operators, FunctionOfOneByte,
    testing::Values(Function{"Sigmoid", 1 / 128.F}, Function{"Tanh", 1 / 128.F},
                    Function{"HardSigmoid", 1 / 64.F}, Function{"HardSwish", 1 / 16.F, 14},
                    Function{"Elu", 1 / 16.F}, Function{"Elu", 1 / 16.F, 13, "alpha", 2.0F},
                    Function{"Selu", 1 / 8.F}, Function{"Celu", 1 / 16.F, 13, "alpha", 0.5F},
                    Function{"Softplus", 1 / 16.F}, Function{"Softsign", 1 / 128.F},
                    Function{"Mish", 1 / 16.F, 18}, Function{"Exp", 4.0F}, Function{"Log", 1 / 32.F},
                    Function{"Sqrt", 1 / 32.F}, Function{"Reciprocal", 1 / 8.F}, Function{"Abs", 1 / 16.F},
                    Function{"Neg", 1 / 16.F}, Function{"Floor", 1 / 8.F}, Function{"Ceil", 1 / 8.F},
                    Function{"Round", 1 / 8.F}, Function{"Erf", 1 / 128.F}, Function{"Sign", 1 / 64.F},
                    Function{"Sin", 1 / 128.F}, Function{"Cos", 1 / 128.F}, Function{"Gelu", 1 / 16.F, 20},
                    Function{"ThresholdedRelu", 1 / 16.F, 13, "alpha", 1.5F},
                    Function{"Shrink", 1 / 16.F, 13, "bias", 0.25F}, Function{"Swish", 1 / 16.F, 24},
                    Function{"Tan", 1 / 16.F, 13, nullptr, 0, 1 / 128.F}, Function{"Atan", 1 / 64.F},
                    Function{"Sinh", 1 / 8.F, 13, nullptr, 0, 1 / 64.F},
                    Function{"Cosh", 1 / 8.F, 13, nullptr, 0, 1 / 64.F}, Function{"Asinh", 1 / 32.F},
                    Function{"Acosh", 1 / 32.F}, Function{"Asin", 1 / 64.F, 13, nullptr, 0, 1 / 160.F},
                    Function{"Acos", 1 / 32.F, 13, nullptr, 0, 1 / 160.F},
                    Function{"Atanh", 1 / 32.F, 13, nullptr, 0, 1 / 160.F}),
    [](const testing::TestParamInfo<Function>& tested) {
      return std::string(tested.param.type) + std::to_string(tested.index);
    });

TEST(Operators, GeluWithTanhApproximationIsWithinOneQuantisationStep) {
  OnnxModel m = with_function({"Gelu", 1 / 16.F, 20}, 3);
  for (auto& n : *m.proto().mutable_graph()->mutable_node())
    if (n.op_type() == "Gelu") {
      onnx::AttributeProto& a = *n.add_attribute();
      a.set_name("approximate");
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s("tanh");
    }
  expect_meaning(m, 1.01 / 16);
}

TEST(Operators, ANonMonotonicFunctionOfAQuantisedSumBecomesALookupTable) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 0.125F, 5, "between");
  m.node("HardSwish", {"between"}, "bent");
  m.pair("bent", 0.0625F, -100, "y");
  m.output("y");
  const Program p = expect_meaning(m, 0.0626);
  EXPECT_EQ(count_blocks(p, "convolution"), 1U);
  EXPECT_EQ(count_blocks(p, "lookup"), 1U) << "the second quantiser and HardSwish";
  OnnxModel mean = with_image(3);
  mean.node("GlobalAveragePool", {"xq"}, "mean");
  mean.pair("mean", 0.0625F, 0, "between");
  mean.node("HardSwish", {"between"}, "bent");
  mean.pair("bent", 0.0625F, -100, "y");
  mean.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(mean, 0.0626), "lookup"), 1U);
}

TEST(Operators, TwoBranchesThatDependOnOneByteBecomeOneLookupTable) {
  for (const bool quantised : {false, true})
    for (const char* function : {"Sigmoid", "HardSigmoid", "Tanh"}) {
      OnnxModel m = with_image(3);
      m.node(function, {"xq"}, "gate");
      if (quantised) m.pair("gate", 1.0F / 128, 0, "gate_q");
      m.node("Mul", {"xq", quantised ? "gate_q" : "gate"}, "product");
      m.pair("product", 0.25F, -20, "y");
      m.output("y");
      const Program p = expect_meaning(m, 0.251);
      EXPECT_EQ(count_blocks(p, "lookup"), 1U) << function << quantised;
      EXPECT_EQ(count_blocks(p, "add"), 0U) << function << quantised;
    }
}

TEST(Operators, GeluWrittenWithErfBecomesOneLookupTable) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  m.pair("x", 0.0625F, 3, "xq");
  m.floats("root", {}, {1.41421356F});
  m.floats("one", {1}, {1.0F});
  m.floats("half", {}, {0.5F});
  m.node("Div", {"xq", "root"}, "scaled");
  m.node("Erf", {"scaled"}, "erf");
  m.node("Add", {"erf", "one"}, "raised");
  m.node("Mul", {"xq", "raised"}, "product");
  m.node("Mul", {"product", "half"}, "gelu");
  m.pair("gelu", 0.0625F, -20, "y");
  m.output("y");
  const Program p = expect_meaning(m, 0.0626);
  EXPECT_EQ(count_blocks(p, "lookup"), 1U);
}

TEST(Operators, PowersOfAByteAndGeluWrittenWithTanhBecomeOneLookupTable) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  m.pair("x", 0.0625F, 3, "xq");
  m.floats("three", {}, {3.0F});
  m.floats("part", {}, {0.044715F});
  m.floats("root", {}, {0.7978845608F});
  m.floats("one", {}, {1.0F});
  m.floats("half", {}, {0.5F});
  m.node("Pow", {"xq", "three"}, "cube");
  m.node("Mul", {"cube", "part"}, "scaled");
  m.node("Add", {"xq", "scaled"}, "inner");
  m.node("Mul", {"inner", "root"}, "angle");
  m.node("Tanh", {"angle"}, "tanh");
  m.node("Add", {"tanh", "one"}, "raised");
  m.node("Mul", {"xq", "half"}, "halved");
  m.node("Mul", {"halved", "raised"}, "gelu");
  m.pair("gelu", 0.0625F, -20, "y");
  m.output("y");
  const Program p = expect_meaning(m, 0.0626);
  EXPECT_EQ(count_blocks(p, "lookup"), 1U);
}

TEST(Operators, PReluHasASlopeForEachChannel) {
  for (const bool behind_a_sum : {false, true}) {
    OnnxModel m = with_image(3);
    m.floats("slope", {3, 1, 1}, {0.25F, 0.0F, 0.5F});
    if (behind_a_sum) {
      conv_weights(m, 3, 3, 3);
      m.node("Conv", {"xq", "w"}, "conv");
    }
    m.node("PRelu", {behind_a_sum ? "conv" : "xq", "slope"}, "bent");
    m.pair("bent", behind_a_sum ? 32.0F : 0.25F, -7, "y");
    m.output("y");
    expect_meaning(m);
  }
}

TEST(Operators, PReluWithANegativeSlopeAfterASumRunsOnTheHost) {
  OnnxModel m = with_image(3);
  m.floats("slope", {3, 1, 1}, {0.25F, -1.0F, 0.5F});
  conv_weights(m, 3, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.node("PRelu", {"conv", "slope"}, "bent");
  m.pair("bent", 32.0F, -7, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 1U);
}

TEST(Operators, MaxAndMinWithConstantsClipEachChannel) {
  OnnxModel m = with_image(3);
  m.floats("low", {3, 1, 1}, {-4.0F, -20.0F, 3.0F});
  m.floats("high", {1}, {15.0F});
  m.node("Max", {"xq", "low"}, "above");
  m.node("Min", {"high", "above"}, "between");
  m.pair("between", 0.25F, -7, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, DividesAConstantByATensor) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  m.pair("x", 0.25F, -128, "xq");
  m.floats("c", {}, {6.0F});
  m.floats("shift", {}, {0.5F});
  m.node("Add", {"xq", "shift"}, "positive");
  m.node("Div", {"c", "positive"}, "quotient");
  m.pair("quotient", 0.125F, -128, "y");
  m.output("y");
  expect_meaning(m, 0.1251);
}

TEST(Operators, FunctionsOfTwoTensorsAreExact) {
  for (const char* type : {"Sub", "Min", "Max", "Mul", "Add", "Sum"}) {
    OnnxModel m = with_image(3);
    conv_weights(m, 3, 3, 1);
    m.node("Conv", {"xq", "w"}, "conv");
    m.pair("conv", 32.0F, 5, "a");
    m.node(type, {"a", "xq"}, "both");
    m.pair("both", std::string(type) == "Mul" ? 256.0F : 16.0F, -7, "y");
    m.output("y");
    const Program p = expect_meaning(m);
    EXPECT_EQ(count_blocks(p, "add"), 1U) << type;
  }
}

TEST(Operators, ASumMeanOrExtremeOfOneTensorIsThatTensor) {
  for (const char* type : {"Sum", "Mean", "Min", "Max"}) {
    OnnxModel m = with_image(3);
    m.node(type, {"xq"}, "same");
    m.node("Relu", {"same"}, "positive");
    m.pair("positive", 0.5F, -128, "y");
    m.output("y");
    EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U) << type;
  }
}

TEST(Operators, SubtractionOfTwoTensorsUsesANegativeMultiplierInsteadOfATable) {
  OnnxModel m = with_image(3);
  conv_weights(m, 3, 3, 1);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 1.0F, 5, "a");
  m.node("Sub", {"a", "xq"}, "both");
  m.pair("both", 1.0F, -7, "y");
  m.output("y");
  const Program p = expect_meaning(m, 1.0);
  for (const kernels::Block& b : p.blocks)
    if (const auto* add = std::get_if<kernels::Add>(&b.operation)) {
      EXPECT_EQ(add->table.empty(), add->multiplier_b < 0) << "a negative multiplier, or else a table";
    }
}

}  // namespace
}  // namespace millrace::tests::test_operator_functions
