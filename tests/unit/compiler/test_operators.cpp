// Tests each operator: compiles a small model whole, runs it with kernels/reference, and compares the outputs with
// ONNX's definition. Scales are powers of two unless a test says otherwise; float arithmetic is then exact, and every
// element must be equal. This source has more than 500 lines because every family of operators has its tests here.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "interpret.hpp"
#include "operator_case.hpp"

namespace millrace::tests::test_operators {
namespace {

using compiler::graph::Graph;
using kernels::Program;

TEST(Operators, ConvolutionWithPaddingBiasAndZeroPointsIsExact) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.weights("b", {4}, {100, -2000, 30, 7}, {0.125F}, 0, kInt32);
  m.node("Conv", {"xq", "w", "b"}, "conv");
  m.attribute("pads", Ints{1, 0, 2, 1});
  m.attribute("strides", Ints{2, 1});
  m.pair("conv", 32.0F, -7, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(p.blocks.size(), 5U) << "quantise, rearrange, convolution, dequantise, rearrange";
}

TEST(Operators, GroupedConvolutionWithPerChannelScalesAndDilationIsExact) {
  OnnxModel m = with_image(4, kUint8, 128);
  conv_weights(m, 6, 2, 3, {0.25F, 0.5F, 0.125F, 1.0F, 0.25F, 0.0625F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("group", std::int64_t{2});
  m.attribute("dilations", Ints{2, 1});
  m.pair("conv", 32.0F, 128, "y", kUint8);
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, DepthwiseConvolutionWithAutoPadIsExact) {
  OnnxModel m = with_image(5);
  conv_weights(m, 5, 1, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("group", std::int64_t{5});
  m.attribute("auto_pad", std::string("SAME_LOWER"));
  m.attribute("strides", Ints{2, 2});
  m.node("Relu", {"conv"}, "relu");
  m.pair("relu", 16.0F, -128, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, UnsignedWeightsWithPerChannelZeroPointsAreExact) {
  OnnxModel m = with_image(2);
  m.weights("w", {3, 2, 3, 3}, random_integers(54, 0, 255, 9), {0.25F, 0.5F, 0.25F}, 0, kUint8,
            {128, 0, 255});
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 64.0F, 5, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  for (const kernels::Block& b : p.blocks)
    if (const auto* c = std::get_if<kernels::Convolution>(&b.operation)) {
      EXPECT_EQ(c->weight_type.bits, 9) << "0 .. 255 and -255 .. 0 together";
    }
}

TEST(Operators, OneDimensionalConvolutionIsExact) {
  OnnxModel m;
  m.input("x", {1, 3, 20});
  m.pair("x", 0.5F, 1, "xq");
  m.weights("w", {4, 3, 5}, random_integers(60, -128, 127, 3), {0.25F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("pads", Ints{2, 2});
  m.pair("conv", 32.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, ConvolutionWithArbitraryScaleIsWithinOneQuantisationStep) {
  OnnxModel m = with_image(3);
  m.weights("w", {4, 3, 3, 3}, random_integers(108, -128, 127, 4), {0.0213F, 0.0347F, 0.0111F, 0.0457F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 1.337F, -7, "y");
  m.output("y");
  expect_meaning(m, 1.338);
}

TEST(Operators, SmallWeightsAreStoredInFourBits) {
  OnnxModel m = with_image(3);
  m.weights("w", {4, 3, 3, 3}, random_integers(108, -7, 7, 4), {0.25F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 4.0F, 0, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  for (const kernels::Block& b : p.blocks)
    if (const auto* c = std::get_if<kernels::Convolution>(&b.operation)) {
      EXPECT_EQ(c->weight_type.bits, 4);
      EXPECT_LE(c->accumulator.bits, 16);
    }
}

TEST(Operators, FlattenBeforeAFullyConnectedLayerReordersWeightsNotData) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.node("Relu", {"conv"}, "relu");
  m.pair("relu", 32.0F, 0, "a");
  m.node("MaxPool", {"a"}, "pool");
  m.attribute("kernel_shape", Ints{2, 2});
  m.attribute("strides", Ints{2, 2});
  m.pair("pool", 32.0F, 0, "pq");
  m.node("Flatten", {"pq"}, "flat");
  m.weights("v", {5, 24}, random_integers(120, -128, 127, 8), {0.5F, 0.25F, 0.5F, 0.125F, 1.0F});
  m.weights("vb", {5}, {5, -7, 100, 3, 0}, {16.0F, 8.0F, 16.0F, 4.0F, 32.0F}, 0, kInt32);
  m.node("Gemm", {"flat", "v", "vb"}, "gemm");
  m.attribute("transB", std::int64_t{1});
  m.pair("gemm", 1024.0F, 2, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "rearrange"), 1U) << "of the input only";
  EXPECT_EQ(p.blocks.size(), 6U) << "the pair around the pool, Flatten and Relu are gone";
}

TEST(Operators, TransposeBeforeAFullyConnectedLayerReordersWeightsNotData) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "a");
  m.node("Transpose", {"a"}, "turned");
  m.attribute("perm", Ints{0, 2, 3, 1});
  m.int64s("shape", {1, -1});
  m.node("Reshape", {"turned", "shape"}, "flat");
  m.weights("v", {120, 5}, random_integers(600, -128, 127, 8), {0.5F}, 1);
  m.node("MatMul", {"flat", "v"}, "product");
  m.pair("product", 2048.0F, 2, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "rearrange"), 1U) << "of the input only";
}

TEST(Operators, AnInputWithChannelsLastNeedsNoPermutation) {
  OnnxModel m;
  m.input("x", {1, 8, 7, 3});
  m.node("Transpose", {"x"}, "turned");
  m.attribute("perm", Ints{0, 3, 1, 2});
  m.pair("turned", 0.5F, 3, "xq");
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "a");
  m.node("Transpose", {"a"}, "y");
  m.attribute("perm", Ints{0, 2, 3, 1});
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_LE(count_blocks(p, "rearrange"), 1U);
  for (const kernels::Block& b : p.blocks)
    if (const auto* order = std::get_if<kernels::Rearrange>(&b.operation)) {
      EXPECT_TRUE(order->extents.empty()) << "at most another view of the same order";
    }
}

TEST(Operators, ATransposeBetweenLayersIsExact) {
  OnnxModel m = with_image(3);
  m.node("Transpose", {"xq"}, "turned");
  m.attribute("perm", Ints{0, 1, 3, 2});
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"turned", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, BiasPerChannelAfterATransposeIsMergedIntoTheConvolution) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.node("Transpose", {"conv"}, "turned");
  m.attribute("perm", Ints{0, 2, 3, 1});
  m.floats("bias", {4}, {30.0F, -20.0F, 55.5F, 7.25F});
  m.node("Add", {"turned", "bias"}, "sum");
  m.node("Relu", {"sum"}, "positive");
  m.pair("positive", 16.0F, 0, "a");
  m.node("Transpose", {"a"}, "y");
  m.attribute("perm", Ints{0, 3, 1, 2});
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(p.blocks.size(), 5U) << "quantise, rearrange, convolution, rearrange, dequantise";
}

TEST(Operators, BiasPerChannelAfterAReshapeIsMergedIntoTheConvolution) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.int64s("shape", {1, 4, -1});
  m.node("Reshape", {"conv", "shape"}, "rows");
  m.floats("bias", {4, 1}, {30.0F, -20.0F, 55.5F, 7.25F});
  m.node("Add", {"rows", "bias"}, "sum");
  m.pair("sum", 16.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, MatrixProductOfSeveralRowsIsExact) {
  OnnxModel m;
  m.input("x", {1, 6, 10});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {10, 4}, random_integers(40, -128, 127, 8), {0.5F, 0.25F, 1.0F, 0.5F}, 1);
  m.node("MatMul", {"xq", "w"}, "product");
  m.pair("product", 64.0F, 2, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, AFinalLayerWithoutAQuantiserIsDequantisedOnTheHost) {
  OnnxModel m;
  m.input("x", {1, 16});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {16, 4}, random_integers(64, -128, 127, 8), {0.5F, 0.25F, 1.0F, 0.5F}, 1);
  m.node("MatMul", {"xq", "w"}, "product");
  m.floats("b", {4}, {1.25F, -3.5F, 0.0F, 8.0F});
  m.node("Add", {"product", "b"}, "sum");
  m.node("Softmax", {"sum"}, "y");
  m.output("y");
  const Program p = expect_meaning(m, 1e-6);
  EXPECT_EQ(p.blocks.size(), 4U) << "quantise, convolution, dequantise, softmax";
}

TEST(Operators, GemmMultipliesTheProductButNotTheBiasByAlpha) {
  OnnxModel m;
  m.input("x", {1, 16});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {16, 4}, random_integers(64, -128, 127, 8), {0.5F});
  m.weights("b", {4}, {1000, -2000, 300, 7}, {0.0625F}, 0, onnx::TensorProto::INT32);
  m.node("Gemm", {"xq", "w", "b"}, "gemm");
  m.attribute("alpha", 0.25F);
  m.pair("gemm", 4.0F, 2, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, ABiasThatIsNotAMultipleOfTheAccumulatorScaleIsRoundedAndReported) {
  OnnxModel m;
  m.input("x", {1, 16});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {4, 16}, random_integers(64, -128, 127, 8), {0.5F});
  m.floats("b", {4}, {1.3F, -3.4F, 0.0F, 8.1F});
  m.node("Gemm", {"xq", "w", "b"}, "gemm");
  m.attribute("transB", std::int64_t{1});
  m.pair("gemm", 16.0F, 2, "y");
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  ASSERT_EQ(c->lowered.diagnostics.size(), 1U);
  EXPECT_EQ(c->lowered.diagnostics[0].node, "gemm");
  EXPECT_NE(c->lowered.diagnostics[0].message.find("rounded"), std::string::npos);
}

TEST(Operators, ReluAndClipAreMergedIntoRequantisation) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.floats("low", {}, {-300.0F});
  m.floats("high", {}, {1100.0F});
  m.node("Clip", {"conv", "low", "high"}, "clip");
  m.pair("clip", 16.0F, 3, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "rescale") + count_blocks(p, "lookup"), 0U);
}

TEST(Operators, BatchNormalisationIsMergedIntoTheConvolution) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.floats("gamma", {4}, {0.5F, -0.25F, 1.0F, -1.0F});
  m.floats("beta", {4}, {1.0F, -2.0F, 0.5F, 30.0F});
  m.floats("mean", {4}, {16.0F, 0.0F, -32.0F, 8.0F});
  m.floats("var", {4}, {1.0F, 1.0F, 4.0F, 1.0F});
  m.node("BatchNormalization", {"conv", "gamma", "beta", "mean", "var"}, "norm");
  m.attribute("epsilon", 0.0F);
  m.node("Relu", {"norm"}, "relu");
  m.pair("relu", 16.0F, -128, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(p.blocks.size(), 5U) << "nothing of it is left";
}

TEST(Operators, MaxPoolBetweenConvolutionAndQuantiserIsExact) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.node("MaxPool", {"conv"}, "pool");
  m.attribute("kernel_shape", Ints{2, 2});
  m.attribute("pads", Ints{1, 1, 0, 0});
  m.node("Relu", {"pool"}, "relu");
  m.pair("relu", 32.0F, 0, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "convolution"), 1U);
  EXPECT_EQ(count_blocks(p, "max_pool"), 1U);
}

TEST(Operators, MaxPoolWithCeilModeAndRescaleIsExact) {
  OnnxModel m = with_image(3);
  m.node("MaxPool", {"xq"}, "pool");
  m.attribute("kernel_shape", Ints{3, 3});
  m.attribute("strides", Ints{2, 2});
  m.attribute("ceil_mode", std::int64_t{1});
  m.pair("pool", 1.0F, -5, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, AveragePoolsBecomeIntegerSums) {
  OnnxModel m = with_image(3, kUint8, 100);
  m.node("AveragePool", {"xq"}, "pool");
  m.attribute("kernel_shape", Ints{2, 2});
  m.attribute("strides", Ints{2, 2});
  m.attribute("pads", Ints{1, 1, 1, 1});
  m.attribute("count_include_pad", std::int64_t{1});
  m.pair("pool", 0.25F, 120, "p", kUint8);
  m.node("GlobalAveragePool", {"p"}, "mean");
  m.pair("mean", 0.25F, 10, "y");
  m.output("y");
  const Program p = expect_meaning(m, 0.2501);
  EXPECT_EQ(count_blocks(p, "sum_pool"), 2U);
}

TEST(Operators, AResidualAdditionOfPowerOfTwoScalesIsExactForAllPairsOfBytes) {
  OnnxModel m = with_image(3);
  conv_weights(m, 3, 3, 1);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 8.0F, 11, "a");
  m.node("Add", {"a", "xq"}, "sum");
  m.node("Relu", {"sum"}, "relu");
  m.pair("relu", 4.0F, -128, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "add"), 1U);
}

TEST(Operators, ResidualAdditionOfArbitraryScalesIsWithinOneQuantisationStep) {
  OnnxModel m = with_image(3);
  conv_weights(m, 3, 3, 1, {0.0123F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 0.731F, 11, "a");
  m.node("Add", {"a", "xq"}, "sum");
  m.pair("sum", 0.877F, -3, "y");
  m.output("y");
  expect_meaning(m, 0.878);
}

TEST(Operators, AProductOfTwoTensorsIsExact) {
  OnnxModel m = with_image(3);
  conv_weights(m, 3, 3, 1);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 8.0F, 11, "a");
  m.node("Mul", {"a", "xq"}, "product");
  m.pair("product", 256.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, BranchesOfDifferentScalesAreConcatenated) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 1);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 8.0F, 11, "a");
  m.node("Concat", {"a", "xq"}, "both");
  m.attribute("axis", std::int64_t{1});
  m.pair("both", 8.0F, 0, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "concat"), 1U);
}

TEST(Operators, FunctionsOfOneByteBecomeLookupTables) {
  OnnxModel m = with_image(3);
  m.node("LeakyRelu", {"xq"}, "leaky");
  m.attribute("alpha", 0.125F);
  m.pair("leaky", 0.25F, 0, "a");
  m.node("Sigmoid", {"a"}, "sigmoid");
  m.pair("sigmoid", 1.0F / 256, -128, "y");
  m.output("y");
  expect_meaning(m, 1.01 / 256);
}

/// Returns a model with 64 outputs that each multiply the single input by a weight from -128 to 127. There are at most
/// 2^16 different sums, so the compiler tries all of them.
OnnxModel with_products(const std::string& function, float alpha = 0) {
  OnnxModel m;
  m.input("x", {1, 1});
  m.pair("x", 0.5F, 0, "xq");
  m.weights("w", {1, 64}, random_integers(64, -128, 127, 5), {0.0625F});
  m.node("MatMul", {"xq", "w"}, "product");
  m.node(function, {"product"}, "bent");
  if (function == "LeakyRelu") m.attribute("alpha", alpha);
  m.pair("bent", 0.125F, 0, "y");
  m.output("y");
  return m;
}

/// Compiles the model, expects that the host computes some operator, and compares with ONNX's definition.
void expect_on_host(const OnnxModel& m, double tolerance = 0) {
  const Program p = expect_meaning(m, tolerance);
  EXPECT_GE(count_blocks(p, "float_operator"), 1U);
}

TEST(Operators, FloatOperatorsAfterTheLastQuantiserRunOnTheHost) {
  OnnxModel tail = with_image(3);
  tail.node("Relu", {"xq"}, "tail");
  tail.output("tail");
  expect_on_host(tail);
  OnnxModel steps = with_image(3);
  steps.floats("factor", {3, 1, 1}, {0.5F, -2, 4});
  steps.node("Mul", {"xq", "factor"}, "scaled");
  steps.floats("rows", {8, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  steps.node("Add", {"scaled", "rows"}, "tail");
  steps.output("tail");
  expect_on_host(steps);
}

TEST(Operators, ProductOfOperandsOfDifferentShapesIsExact) {
  OnnxModel m = with_image(3);
  m.node("GlobalMaxPool", {"xq"}, "pooled");
  m.node("Mul", {"xq", "pooled"}, "scaled");
  m.pair("scaled", 0.5F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, PoolingAndConcatenationOfFloatsRunOnTheHost) {
  OnnxModel m = with_image(3);
  m.node("Sub", {"xq", m.floats("columns", {7}, {1, 2, 3, 4, 5, 6, 7})}, "left");
  m.node("Concat", {"xq", "left"}, "both");
  m.attribute("axis", std::int64_t{2});
  m.node("MaxPool", {"both"}, "largest");
  m.attribute("kernel_shape", Ints{3, 2});
  m.attribute("strides", Ints{2, 1});
  m.attribute("pads", Ints{1, 0, 1, 0});
  m.output("largest");
  expect_on_host(m);
}

TEST(Operators, ANonMonotonicFunctionOfASumRunsOnTheHost) {
  expect_on_host(with_products("HardSwish"), 0.125);
  expect_on_host(with_products("LeakyRelu", -1.0F));
  // The sums of the next layer have so wide a range that the compiler cannot try every value.
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.node("HardSwish", {"conv"}, "bent");
  m.pair("bent", 0.5F, 0, "y");
  m.output("y");
  expect_on_host(m, 0.5);
  OnnxModel mean = with_image(3);
  mean.node("GlobalAveragePool", {"xq"}, "mean");
  mean.node("HardSwish", {"mean"}, "bent");
  mean.pair("bent", 0.125F, 0, "y");
  mean.output("y");
  expect_on_host(mean, 0.125);
}

TEST(Operators, AMatrixProductOfTwoActivationsRunsOnTheHost) {
  OnnxModel m;
  m.input("x", {1, 4, 6});
  m.pair("x", 0.5F, 1, "xq");
  m.node("Transpose", {"xq"}, "turned");
  m.attribute("perm", Ints{0, 2, 1});
  m.node("MatMul", {"xq", "turned"}, "scores");
  m.pair("scores", 16.0F, 0, "y");
  m.output("y");
  expect_on_host(m);
}

TEST(Operators, ASumOfWideIntegersRunsOnTheHost) {
  OnnxModel m;
  m.input("x", {1, 4, 6});
  m.pair("x", 0.5F, 1, "narrow");
  m.pair("x", 0.03125F, 0, "wide", onnx::TensorProto::INT16);
  m.node("Add", {"narrow", "wide"}, "sum");
  m.pair("sum", 0.25F, 0, "y");
  m.output("y");
  expect_on_host(m);
}

TEST(Operators, AMonotonicFunctionOfASumIsExact) {
  expect_meaning(with_products("LeakyRelu", 0.25F));
  expect_meaning(with_products("Relu"));
}

TEST(Operators, ANonMonotonicFunctionOfOneByteBecomesALookupTable) {
  for (const bool swish : {true, false}) {
    OnnxModel m;
    m.input("x", {1, 256});
    m.pair("x", 0.0625F, 3, "xq");
    m.node(swish ? "HardSwish" : "LeakyRelu", {"xq"}, "bent");
    if (!swish) m.attribute("alpha", -1.0F);
    m.pair("bent", 0.015625F, -100, "y");
    m.output("y");
    const auto c = compile(m);
    ASSERT_TRUE(c.ok()) << c.error().message();
    EXPECT_EQ(count_blocks(c->program, "lookup"), 1U);
    std::vector<float> all;
    for (int q = -128; q < 128; ++q) all.push_back(0.0625F * static_cast<float>(q - 3));
    const std::vector<float> got = run(c->program, all);
    const std::vector<double> wanted = interpret(c->imported, all);
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_NEAR(static_cast<double>(got[i]), wanted[i], swish ? 0.016 : 0.0)
          << (swish ? "HardSwish of " : "LeakyRelu of ") << all[i];
  }
}

TEST(Operators, SumThatTwoBranchesUseIsQuantisedOnlyOnce) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "a");
  m.node("HardSwish", {"a"}, "swish");
  m.pair("swish", 16.0F, 0, "h");
  m.node("LeakyRelu", {"a"}, "leaky");
  m.attribute("alpha", 0.125F);
  m.pair("leaky", 16.0F, 0, "l");
  m.node("Concat", {"h", "l"}, "both");
  m.attribute("axis", std::int64_t{1});
  m.pair("both", 32.0F, 0, "y");
  m.output("y");
  const Program p = expect_meaning(m, 33);
  EXPECT_EQ(count_blocks(p, "convolution"), 1U);
  for (const kernels::Block& b : p.blocks)
    if (const auto* c = std::get_if<kernels::Convolution>(&b.operation)) {
      EXPECT_TRUE(c->requantise.has_value());
    }
}

/// Returns the graph step that lower_elementwise makes from an ONNX operator.
compiler::graph::Step function_of(const std::string& type, float alpha = 0.01F) {
  OnnxModel m = with_image(1);
  m.node(type, {"xq"}, "y");
  if (type == "LeakyRelu") m.attribute("alpha", alpha);
  m.output("y");
  auto graph = *import_model(m);
  for (const auto& pass : compiler::passes::standard_passes()) {
    graph = *pass.run(std::move(graph));
    if (std::string(pass.name) == "lower_elementwise") break;
  }
  return std::get<compiler::graph::Elementwise>(graph.nodes.back().operation).chain.steps[0];
}

TEST(ElementwiseChain, ProvesWhetherAFunctionRisesOrFallsOrReportsThatNoProofIsFound) {
  using compiler::graph::Chain;
  using compiler::graph::Step;
  using compiler::graph::Trend;
  const auto kind = [](const std::vector<Step>& steps, std::int64_t lowest = -1000,
                       std::int64_t highest = 1000) { return Chain{steps}.trend(lowest, highest, 0).trend; };
  const Step to_float = Step::to_float(), q = Step::quantise({1.0F}, 0, -128, 127);
  const Step swish = function_of("HardSwish"), leaky = function_of("LeakyRelu", -1);
  EXPECT_EQ(kind({to_float, Step::multiply({0.5F}), q}), Trend::kRising);
  EXPECT_EQ(kind({to_float, Step::multiply({-0.5F}), q}), Trend::kFalling);
  EXPECT_EQ(kind({to_float, Step::multiply({-0.5F}), Step::relu(), Step::divide({-2.0F}), q}),
            Trend::kRising);
  EXPECT_EQ(kind({to_float, swish, q}), Trend::kUnproved);
  EXPECT_EQ((Chain{{to_float, swish, q}}.trend(-5, 5, 0).step), 1U);
  EXPECT_EQ(kind({to_float, swish, q}, 0, 1000), Trend::kRising);
  EXPECT_EQ(kind({to_float, Step::relu(), swish, q}), Trend::kRising);
  EXPECT_EQ(kind({to_float, leaky, q}), Trend::kUnproved);
  EXPECT_EQ(kind({to_float, leaky, q}, -1000, 0), Trend::kFalling);
  EXPECT_EQ(kind({to_float, leaky, q}, 0, 1000), Trend::kRising);
  EXPECT_EQ(kind({to_float, Step::multiply({3e38F}), Step::multiply({0.0F}), q}), Trend::kUnproved)
      << "infinity times zero";
  EXPECT_EQ(kind({to_float, Step::add({NAN}), q}), Trend::kUnproved);
  EXPECT_TRUE((Chain{{Step::multiply({-2.0F, -1.0F}), Step::divide({-1.0F})}}.is_increasing()));
  EXPECT_FALSE((Chain{{Step::multiply({2.0F, -1.0F})}}.is_increasing()));
  EXPECT_FALSE((Chain{{swish}}.is_increasing()));
}

TEST(Operators, OnlyQuantiserPairsWithEqualParametersAreRemoved) {
  for (const bool same : {true, false}) {
    OnnxModel m = with_image(3);
    m.pair("xq", same ? 0.5F : 1.0F, 3, "again");
    m.pair("again", 2.0F, 0, "y");
    m.output("y");
    expect_meaning(m);
  }
  OnnxModel m = with_image(1);
  m.pair("xq", 0.5F, 3, "y");
  m.output("y");
  EXPECT_EQ(expect_meaning(m).blocks.size(), 2U);
}

}  // namespace
}  // namespace millrace::tests::test_operators
