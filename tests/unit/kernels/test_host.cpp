// Tests operators in float32: hand-made cases with known results, and hostile operators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/host/float_operator.hpp"

namespace millrace::kernels::host::test_host {
namespace {

FloatOperand tensor(Shape shape) {
  return {FloatOperand::Kind::kTensor, std::move(shape), {}, {}};
}

FloatOperand constant(Shape shape, std::vector<float> floats) {
  return {FloatOperand::Kind::kFloats, std::move(shape), std::move(floats), {}};
}

FloatOperand integers(std::vector<std::int64_t> values) {
  return {FloatOperand::Kind::kIntegers, {static_cast<std::int64_t>(values.size())}, {}, values};
}

FloatOperator make(std::string type, std::vector<FloatOperand> operands,
                   std::vector<FloatAttribute> attributes = {}, std::int64_t opset = 17) {
  FloatOperator op{std::move(type), opset, std::move(attributes), std::move(operands), {}};
  std::string why;
  if (const auto shape = result_shape(op, why)) op.shape = *shape;
  EXPECT_EQ(why, "");
  return op;
}

/// Computes an operator with one tensor.
std::vector<float> run(const FloatOperator& op, const std::vector<float>& x) {
  EXPECT_EQ(check(op), "");
  std::size_t count = 1;
  for (const std::int64_t extent : op.shape) count *= static_cast<std::size_t>(extent);
  std::vector<float> result(count);
  const float* const tensors[] = {x.data()};
  compute(op, tensors, result.data());
  return result;
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

TEST(FloatOperators, ConvolvesWithStridePaddingAndGroups) {
  // The convolution has two groups of one channel. The first group sums the elements of its window, and the second
  // group doubles that sum and adds 100.
  const auto op =
      make("Conv",
           {tensor({1, 2, 3, 3}), constant({2, 1, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2}), constant({2}, {0, 100})},
           {{"group", {2}, {}, ""}, {"strides", {2, 2}, {}, ""}, {"pads", {1, 1, 0, 0}, {}, ""}});
  EXPECT_EQ(op.shape, (Shape{1, 2, 2, 2}));
  EXPECT_EQ(run(op, counting(18)), (std::vector<float>{0, 3, 9, 24, 118, 142, 154, 220}));
}

TEST(FloatOperators, ComputesATransposedConvolution) {
  const auto op = make("ConvTranspose", {tensor({1, 1, 2, 2}), constant({1, 1, 2, 2}, {1, 2, 3, 4})},
                       {{"strides", {2, 2}, {}, ""}});
  EXPECT_EQ(run(op, {1, 2, 3, 4}), (std::vector<float>{1, 2, 2, 4, 3, 4, 6, 8, 3, 6, 4, 8, 9, 12, 12, 16}));
}

TEST(FloatOperators, AveragePoolCountsPaddingOnlyIfTheAttributeSaysSo) {
  const std::vector<FloatAttribute> window{{"kernel_shape", {2, 2}, {}, ""}, {"pads", {1, 1, 0, 0}, {}, ""}};
  auto counted = window;
  counted.push_back({"count_include_pad", {1}, {}, ""});
  EXPECT_EQ(run(make("AveragePool", {tensor({1, 1, 2, 2})}, window), {4, 8, 12, 16}),
            (std::vector<float>{4, 6, 8, 10}));
  EXPECT_EQ(run(make("AveragePool", {tensor({1, 1, 2, 2})}, counted), {4, 8, 12, 16}),
            (std::vector<float>{1, 3, 4, 10}));
}

TEST(FloatOperators, CountsTheThresholdsThatAnElementReaches) {
  const auto op = make("MultiThreshold", {tensor({1, 2, 2}), constant({2, 3}, {-1, 0, 5, 2, 2, 2})});
  EXPECT_EQ(run(op, {-2, 0, 2, 1.5F}), (std::vector<float>{0, 2, 3, 0}));
  EXPECT_EQ(run(make("MultiThreshold", {tensor({3}), constant({1, 2}, {1, 2})}), {0, 1, NAN}),
            (std::vector<float>{0, 1, 0}));
}

TEST(FloatOperators, BroadcastsConstants) {
  EXPECT_EQ(run(make("Mul", {tensor({1, 2, 1, 2}), constant({2, 1, 1}, {10, 100})}), {1, 2, 3, 4}),
            (std::vector<float>{10, 20, 300, 400}));
  EXPECT_EQ(run(make("Sub", {constant({}, {1}), tensor({1, 2})}), {3, 4}), (std::vector<float>{-2, -3}));
}

TEST(FloatOperators, MultipliesStacksOfMatrices) {
  const auto op = make("MatMul", {tensor({2, 1, 2}), constant({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(op.shape, (Shape{2, 1, 2}));
  EXPECT_EQ(run(op, {1, 1, 2, 0}), (std::vector<float>{4, 6, 2, 4}));
  EXPECT_EQ(run(make("Gemm", {tensor({1, 2}), constant({1, 2}, {3, 4}), constant({1}, {10})},
                     {{"transB", {1}, {}, ""}, {"alpha", {}, {2}, ""}, {"beta", {}, {0.5F}, ""}}),
                {1, 2}),
            (std::vector<float>{27}));
}

TEST(FloatOperators, ReducesAxesGivenAsAttributeOrOperand) {
  const std::vector<float> x = counting(6);
  EXPECT_EQ(run(make("ReduceMean", {tensor({1, 2, 3})}, {{"axes", {-1}, {}, ""}}), x),
            (std::vector<float>{1, 4}));
  EXPECT_EQ(run(make("ReduceSum", {tensor({1, 2, 3}), integers({1})}, {{"keepdims", {0}, {}, ""}}), x),
            (std::vector<float>{3, 5, 7}));
}

TEST(FloatOperators, SlicePadDepthToSpaceTransposeAndGatherAreCorrect) {
  EXPECT_EQ(run(make("Slice", {tensor({1, 6}), integers({-1}), integers({0}), integers({1}), integers({-2})}),
                counting(6)),
            (std::vector<float>{5, 3, 1}));
  EXPECT_EQ(
      run(make("Pad", {tensor({1, 3}), integers({0, 2, 0, 1})}, {{"mode", {}, {}, "reflect"}}), counting(3)),
      (std::vector<float>{2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(run(make("DepthToSpace", {tensor({1, 4, 1, 2})}, {{"blocksize", {2}, {}, ""}}), counting(8)),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(run(make("Transpose", {tensor({2, 3})}), counting(6)), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(run(make("Gather", {tensor({1, 3}), integers({2, -3})}, {{"axis", {1}, {}, ""}}), counting(3)),
            (std::vector<float>{2, 0}));
}

TEST(FloatOperators, LayerNormalizationAndSoftmaxAreCorrect) {
  const auto y = run(make("LayerNormalization", {tensor({1, 4}), constant({4}, {1, 1, 1, 2})}), {1, 3, 1, 3});
  EXPECT_NEAR(y[0], -1, 1e-4);
  EXPECT_NEAR(y[3], 2, 1e-4);
  const auto p = run(make("Softmax", {tensor({1, 2, 2})}, {{"axis", {1}, {}, ""}}), {0, 1, 0, 1});
  EXPECT_EQ(p, (std::vector<float>{0.5F, 0.5F, 0.5F, 0.5F}));
}

TEST(FloatOperators, ResizesLinearlyWithEachCoordinateTransformation) {
  const std::vector<FloatOperand> operands = {
      tensor({1, 1, 1, 2}), {FloatOperand::Kind::kAbsent, {}, {}, {}}, constant({4}, {1, 1, 1, 2})};
  const std::vector<float> x = {0, 8};
  EXPECT_EQ(run(make("Resize", operands, {{"mode", {}, {}, "linear"}}), x), (std::vector<float>{0, 2, 6, 8}));
  EXPECT_EQ(run(make("Resize", operands,
                     {{"mode", {}, {}, "linear"}, {"coordinate_transformation_mode", {}, {}, "asymmetric"}}),
                x),
            (std::vector<float>{0, 4, 8, 8}));
  const auto corners =
      make("Resize", {tensor({1, 1, 1, 2}), operands[1], operands[1], integers({1, 1, 1, 5})},
           {{"mode", {}, {}, "linear"}, {"coordinate_transformation_mode", {}, {}, "align_corners"}});
  EXPECT_EQ(run(corners, x), (std::vector<float>{0, 2, 4, 6, 8}));
}

TEST(FloatOperators, ResizesToTheNearestElementAndCubically) {
  const auto nearest = make("Upsample", {tensor({1, 1, 2, 2}), constant({4}, {1, 1, 1, 2})}, {}, 9);
  EXPECT_EQ(run(nearest, counting(4)), (std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3}));
  // Cubic interpolation between points on a line gives the line, except near the ends, where elements repeat.
  const auto cubic =
      make("Resize",
           {tensor({1, 1, 1, 6}), {FloatOperand::Kind::kAbsent, {}, {}, {}}, constant({4}, {1, 1, 1, 2})},
           {{"mode", {}, {}, "cubic"}, {"cubic_coeff_a", {}, {-0.5F}, ""}});
  const auto y = run(cubic, counting(6));
  for (std::size_t i = 3; i < 9; ++i) EXPECT_NEAR(y[i], static_cast<float>(i) * 0.5F - 0.25F, 1e-6F) << i;
}

TEST(FloatOperators, LpPoolingComputesTheNormOfEachWindow) {
  const std::vector<float> x = {3, -4, 0, 12, 5, -2};
  EXPECT_EQ(run(make("GlobalLpPool", {tensor({1, 2, 3})}), x), (std::vector<float>{5, std::sqrt(173.0F)}));
  const auto sums = make("LpPool", {tensor({1, 1, 6})},
                         {{"kernel_shape", {2}, {}, ""},
                          {"pads", {1, 1}, {}, ""},
                          {"strides", {3}, {}, ""},
                          {"p", {1}, {}, ""}});
  EXPECT_EQ(run(sums, x), (std::vector<float>{3, 12, 2}));
  auto endless = make("GlobalLpPool", {tensor({1, 2, 3})});
  endless.attributes = {{"p", {0}, {}, ""}};
  EXPECT_NE(check(endless).find("p must be at least 1"), std::string::npos);
}

TEST(FloatOperators, ArgMaxArgMinAndTopKPreferTheFirstOfEqualElements) {
  const std::vector<float> x = {1, 5, 5, 2, 0, 0};
  EXPECT_EQ(run(make("ArgMax", {tensor({1, 6})}, {{"axis", {1}, {}, ""}}), x), (std::vector<float>{1}));
  EXPECT_EQ(run(make("ArgMin", {tensor({1, 6})}, {{"axis", {1}, {}, ""}}), x), (std::vector<float>{4}));
  EXPECT_EQ(
      run(make("ArgMax", {tensor({1, 6})}, {{"axis", {-1}, {}, ""}, {"select_last_index", {1}, {}, ""}}), x),
      (std::vector<float>{2}));
  const auto rows = make("ArgMax", {tensor({2, 3})}, {{"axis", {0}, {}, ""}, {"keepdims", {0}, {}, ""}});
  EXPECT_EQ(rows.shape, (Shape{3}));
  EXPECT_EQ(run(rows, x), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(run(make("TopK", {tensor({1, 6}), integers({3})}), x), (std::vector<float>{5, 5, 2}));
  EXPECT_EQ(run(make("TopK", {tensor({1, 6}), integers({3})}, {{"indices", {1}, {}, ""}}), x),
            (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(
      run(make("TopK", {tensor({1, 6}), integers({2})}, {{"indices", {1}, {}, ""}, {"largest", {0}, {}, ""}}),
          x),
      (std::vector<float>{4, 5}));
  EXPECT_EQ(run(make("Hardmax", {tensor({1, 6})}), x), (std::vector<float>{0, 1, 0, 0, 0, 0}));
}

TEST(FloatOperators, WhereTriluAndCumSumAreCorrect) {
  const auto mask = make("Where", {integers({1, 0, 1}), tensor({2, 3}), constant({}, {-9})});
  EXPECT_EQ(run(mask, counting(6)), (std::vector<float>{0, -9, 2, 3, -9, 5}));
  EXPECT_EQ(run(make("Trilu", {tensor({1, 2, 3})}, {{"upper", {0}, {}, ""}}), {1, 2, 3, 4, 5, 6}),
            (std::vector<float>{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(run(make("CumSum", {tensor({2, 3}), integers({1})}), counting(6)),
            (std::vector<float>{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(run(make("CumSum", {tensor({1, 3}), integers({1})},
                     {{"exclusive", {1}, {}, ""}, {"reverse", {1}, {}, ""}}),
                {1, 2, 3}),
            (std::vector<float>{5, 3, 0}));
}

TEST(FloatOperators, GroupNormalizationLrnAndOtherNormalisationsAreCorrect) {
  const auto group =
      make("GroupNormalization", {tensor({1, 2, 1, 2}), constant({2}, {1, 2}), constant({2}, {0, 1})},
           {{"num_groups", {1}, {}, ""}, {"epsilon", {}, {0}, ""}}, 21);
  const float unit = std::sqrt(5.0F) / 2;  // the deviation of 0, 1, 2, 3
  const auto y = run(group, counting(4));
  const std::vector<float> wanted = {-1.5F / unit, -0.5F / unit, 1 + 1.0F / unit, 1 + 3.0F / unit};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], wanted[i], 1e-6F) << i;
  const auto response = make("LRN", {tensor({1, 3, 1, 1})},
                             {{"size", {3}, {}, ""}, {"alpha", {}, {3}, ""}, {"beta", {}, {1}, ""}});
  EXPECT_EQ(run(response, {1, 2, 3}), (std::vector<float>{1.0F / 6, 2.0F / 15, 3.0F / 14}));
  EXPECT_EQ(run(make("LpNormalization", {tensor({1, 2})}), {3, 4}), (std::vector<float>{0.6F, 0.8F}));
  EXPECT_EQ(run(make("MeanVarianceNormalization", {tensor({1, 1, 1, 2})}), {2, 4}),
            (std::vector<float>{-1, 1}));
}

TEST(FloatOperators, RefusesOperandsOfIncompatibleShapes) {
  const auto refused = [](const FloatOperator& op) {
    std::string why;
    return !result_shape(op, why).has_value() && !why.empty();
  };
  EXPECT_TRUE(refused({"NoSuchOperator", 17, {}, {tensor({1})}, {}}));
  EXPECT_TRUE(refused({"Relu", 17, {}, {}, {}}));
  EXPECT_TRUE(refused({"Relu", 17, {}, {tensor({1, 1 << 20, 1 << 20})}, {}}));
  EXPECT_TRUE(refused({"Add", 17, {}, {tensor({1, 2}), constant({3}, {1, 2, 3})}, {}}));
  EXPECT_TRUE(refused({"Add", 17, {}, {tensor({1, 2}), constant({2}, {1})}, {}}));
  EXPECT_TRUE(refused(
      {"Conv", 17, {{"group", {0}, {}, ""}}, {tensor({1, 1, 2, 2}), constant({1, 1, 1, 1}, {1})}, {}}));
  EXPECT_TRUE(refused(
      {"Conv", 17, {{"strides", {0, 1}, {}, ""}}, {tensor({1, 1, 2, 2}), constant({1, 1, 1, 1}, {1})}, {}}));
  EXPECT_TRUE(refused({"Transpose", 17, {{"perm", {0, 0}, {}, ""}}, {tensor({2, 2})}, {}}));
  EXPECT_TRUE(refused({"Slice", 17, {}, {tensor({1, 2}), integers({2}), integers({2}), integers({1})}, {}}));
  EXPECT_TRUE(refused({"MaxPool", 17, {{"kernel_shape", {3, 3}, {}, ""}}, {tensor({1, 1, 2, 2})}, {}}));
}

TEST(FloatOperators, OperatorListHasNoDuplicatesAndOnlySupportedNames) {
  auto names = operators();
  EXPECT_GT(names.size(), 60U);
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  for (const auto name : names) EXPECT_TRUE(supports(name)) << name;
}

}  // namespace
}  // namespace millrace::kernels::host::test_host
