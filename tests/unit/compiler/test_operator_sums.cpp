// Tests forms of convolutions, matrix products and pools. Each form is a small model, which is compiled whole; its
// outputs are compared with ONNX's definition. Scales are powers of two, so results are exact unless a test says
// otherwise.
#include <gtest/gtest.h>

#include <cmath>

#include "operator_case.hpp"

namespace millrace::tests::test_operator_sums {
namespace {

using kernels::Program;

/// Tests a ConvTranspose with these attributes on an input of shape [1, 4, 5, 4]. The weights have a scale for each
/// channel.
void expect_transposed(std::int64_t groups, std::int64_t kernel,
                       const std::vector<std::pair<std::string, Ints>>& attributes, int type = kInt8) {
  OnnxModel m;
  m.input("x", {1, 4, 5, 4});
  m.pair("x", 0.5F, 3, "xq");
  const std::int64_t each = 6 / groups;
  const bool is_signed = type == kInt8;
  m.weights("w", {4, each, kernel, kernel},
            random_integers(static_cast<std::size_t>(4 * each * kernel * kernel), is_signed ? -128 : 0,
                            is_signed ? 127 : 255, 7),
            groups > 1 ? std::vector<float>{0.25F, 0.5F, 1.0F}
                       : std::vector<float>{0.25F, 0.5F, 0.25F, 1.0F, 0.5F, 0.125F},
            1, type,
            is_signed ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{117, 3, 255, 0, 128, 90});
  m.weights("b", {6}, {100, -2000, 30, 7, 0, 55}, {0.5F}, 0, kInt32);
  m.node("ConvTranspose", {"xq", "w", "b"}, "up");
  m.attribute("group", groups);
  for (const auto& [name, values] : attributes) m.attribute(name, values);
  m.pair("up", 64.0F, -7, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "convolution"), 1U);
}

TEST(Operators, TransposedConvolutionsAreExact) {
  expect_transposed(1, 2, {{"strides", {2, 2}}});
  expect_transposed(1, 3, {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"output_padding", {1, 1}}});
  expect_transposed(1, 4, {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});
  expect_transposed(1, 3,
                    {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});  // an odd number of rows and columns
  expect_transposed(1, 3, {{"strides", {3, 2}}});
  expect_transposed(1, 3, {{"pads", {1, 1, 1, 1}}});
  expect_transposed(1, 3, {{"strides", {3, 3}}, {"dilations", {2, 2}}, {"pads", {1, 0, 1, 2}}});
  expect_transposed(1, 5, {{"strides", {2, 1}}, {"pads", {2, 0, 1, 1}}});
  expect_transposed(1, 1, {{"strides", {2, 2}}, {"output_padding", {1, 1}}});
  expect_transposed(2, 4, {{"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});
  expect_transposed(1, 2, {{"strides", {2, 2}}}, kUint8);
}

TEST(Operators, OneDimensionalTransposedConvolutionIsExact) {
  OnnxModel m;
  m.input("x", {1, 3, 9});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {3, 2, 4}, random_integers(24, -128, 127, 7), {0.25F});
  m.node("ConvTranspose", {"xq", "w"}, "up");
  m.attribute("strides", Ints{2});
  m.attribute("pads", Ints{1, 1});
  m.pair("up", 32.0F, -7, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, ThreeDimensionalConvolutionsReducibleToTwoDimensionsAreExact) {
  const auto solid = [](const Ints& input, const Ints& kernel, const Ints& pads, std::int64_t groups) {
    OnnxModel m;
    m.input("x", input);
    m.pair("x", 0.5F, 3, "xq");
    Ints shape = {4, input[1] / groups};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count *= d;
    m.weights("w", shape, random_integers(static_cast<std::size_t>(count), -128, 127, 7),
              {0.25F, 0.5F, 0.125F, 0.25F});
    m.node("Conv", {"xq", "w"}, "conv");
    m.attribute("pads", pads);
    m.attribute("strides", Ints{1, 1, 2});
    m.attribute("group", groups);
    m.pair("conv", 64.0F, -7, "y");
    m.output("y");
    return m;
  };
  expect_meaning(solid({1, 2, 3, 6, 7}, {3, 3, 3}, {0, 1, 1, 0, 1, 0}, 1));
  expect_meaning(solid({1, 2, 5, 3, 7}, {3, 3, 3}, {1, 0, 1, 1, 0, 0}, 2));
  expect_meaning(solid({1, 2, 5, 6, 1}, {3, 3, 1}, {1, 0, 0, 1, 0, 0}, 1));
  const auto on_host = compile(solid({1, 2, 5, 6, 7}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}, 1));
  ASSERT_TRUE(on_host.ok()) << on_host.error().message();
  EXPECT_EQ(count_blocks(on_host->program, "float_operator"), 1U);
}

TEST(Operators, ADepthwiseConvolutionWithAChannelMultiplierIsExact) {
  OnnxModel m = with_image(4);
  conv_weights(m, 12, 1, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("group", std::int64_t{4});
  m.attribute("pads", Ints{0, 2, 1, 0});
  m.pair("conv", 32.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, GemmWithAlphaBetaAndTransposedOperandsIsExact) {
  for (const float alpha : {0.5F, -2.0F})
    for (const bool transposed : {false, true}) {
      OnnxModel m;
      m.input("x", {1, 8});
      m.pair("x", 0.5F, 3, "xq");
      if (transposed) {
        m.node("Transpose", {"xq"}, "column");
        m.attribute("perm", Ints{1, 0});
      }
      m.weights("w", {transposed ? 5 : 8, transposed ? 8 : 5}, random_integers(40, -128, 127, 3), {0.25F});
      m.floats("c", {1, 5}, {16.0F, -4.0F, 0.5F, 256.0F, 0.0F});
      m.node("Gemm", {transposed ? "column" : "xq", "w", "c"}, "product");
      m.attribute("alpha", alpha);
      m.attribute("beta", 0.5F);
      m.attribute("transA", std::int64_t{transposed});
      m.attribute("transB", std::int64_t{transposed});
      m.pair("product", 16.0F, 2, "y");
      m.output("y");
      expect_meaning(m);
    }
}

TEST(Operators, BatchedMatrixProductsAreExact) {
  OnnxModel m;
  m.input("x", {1, 3, 5, 8});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {3, 8, 4}, random_integers(96, -128, 127, 3), {0.25F});
  m.node("MatMul", {"xq", "w"}, "product");
  m.pair("product", 32.0F, 2, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, BiasAndScaleAfterAMatrixProductAreMergedIntoTheProduct) {
  OnnxModel m;
  m.input("x", {1, 32, 24,
                8});  // the channels last; the product has more elements than may have constants of their own
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {8, 12}, random_integers(96, -128, 127, 3), {0.25F}, 1);
  m.floats("b", {12}, {16.0F, -4.0F, 0.5F, 256.0F, 0.0F, 1.0F, 2.0F, -8.0F, 32.0F, 64.0F, -1.0F, 4.0F});
  m.floats("s", {12}, {1.0F, 0.5F, 0.25F, 2.0F, 1.0F, 0.5F, 0.25F, 2.0F, 1.0F, 0.5F, 0.25F, 2.0F});
  m.node("Add", {m.node("MatMul", {"xq", "w"}, "product"), "b"}, "sum");
  m.pair(m.node("Mul", {"sum", "s"}, "scaled"), 16.0F, 2, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
  EXPECT_EQ(count_blocks(p, "convolution"), 1U);
}

TEST(Operators, BiasAfterAMatrixProductThatHasTwoReadersIsExact) {
  OnnxModel m;
  m.input("x", {1, 4, 4, 8});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {8, 4}, random_integers(32, -128, 127, 3), {0.25F}, 1);
  m.floats("b", {4}, {16.0F, -4.0F, 0.5F, 256.0F});
  m.node("MatMul", {"xq", "w"}, "product");
  m.pair(m.node("Add", {"product", "b"}, "sum"), 16.0F, 2, "one");
  m.pair("product", 8.0F, 0, "other");
  m.pair(m.node("Add", {"one", "other"}, "both"), 32.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, AMatrixProductWithWeightsOnTheLeftIsExact) {
  OnnxModel m;
  m.input("x", {1, 8, 5});
  m.pair("x", 0.5F, 3, "xq");
  m.weights("w", {4, 8}, random_integers(32, -128, 127, 3), {0.25F, 0.5F, 1.0F, 0.25F});
  m.node("MatMul", {"w", "xq"}, "product");
  m.pair("product", 32.0F, 2, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, OneDimensionalAveragePoolsAreExact) {
  for (const bool global : {false, true}) {
    OnnxModel m;
    m.input("x", {1, 3, 16});
    m.pair("x", 0.5F, 3, "xq");
    m.node(global ? "GlobalAveragePool" : "AveragePool", {"xq"}, "mean");
    if (!global) m.attribute("kernel_shape", Ints{4});
    if (!global) m.attribute("strides", Ints{2});
    m.pair("mean", 0.25F, 0, "y");
    m.output("y");
    expect_meaning(m);
  }
}

TEST(Operators, ReductionsOverAnyAxesAreExact) {
  for (const char* type : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"})
    for (const Ints& axes : {Ints{2, 3}, Ints{-1}, Ints{1}, Ints{1, 3}, Ints{1, 2, 3}})
      for (const std::int64_t keep : {0, 1}) {
        OnnxModel m(11);
        m.input("x", {1, 4, 8, 8});
        m.pair("x", 0.5F, 3, "xq");
        m.node(type, {"xq"}, "reduced");
        m.attribute("axes", axes);
        m.attribute("keepdims", keep);
        m.pair("reduced", std::string(type) == "ReduceSum" ? 16.0F : 0.5F, 0, "y");
        m.output("y");
        EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U) << type;
      }
}

TEST(Operators, AMinimumOfUnsignedIntegersIsExact) {
  OnnxModel m(11);
  m.input("x", {1, 4, 8, 8});
  m.pair("x", 0.5F, 131, "xq", kUint8);
  m.node("ReduceMin", {"xq"}, "least");
  m.attribute("axes", Ints{2});
  m.pair("least", 0.5F, 131, "y", kUint8);
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U);
}

TEST(Operators, SumsAndMinimaOfConstantsAreConstants) {
  const std::vector<float> known = {5.5F, -2.0F, 40.0F, 7.5F};  // as the nodes below compute them
  const auto model = [&known](bool computed) {
    OnnxModel m(11);
    m.input("x", {1, 4, 8, 7});
    m.pair("x", 0.5F, 3, "xq");
    if (computed) {
      m.floats("a", {4, 1, 1}, {1.0F, 2.0F, 3.0F, 4.0F});
      m.floats("b", {}, {0.5F});
      m.floats("c", {4, 1, 1, 2}, {5.0F, 4.0F, 10.0F, -4.5F, 64.0F, 36.5F, 3.0F, 8.0F});
      m.node("ReduceMin", {"c"}, "least");
      m.attribute("axes", Ints{3});
      m.attribute("keepdims", std::int64_t{0});
      m.node("Sum", {"a", "b", "least"}, "known");
    } else {
      m.floats("known", {4, 1, 1}, known);
    }
    m.node("Add", {"xq", "known"}, "sum");
    m.pair("sum", 0.5F, 0, "y");
    m.output("y");
    return m;
  };
  const auto computed = compile(model(true)), written = compile(model(false));
  ASSERT_TRUE(computed.ok()) << computed.error().message();
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_EQ(count_blocks(computed->program, "float_operator"), 0U);
  const std::vector<float> frame = random_floats(4 * 8 * 7, 5);
  EXPECT_EQ(run(computed->program, frame), run(written->program, frame));
}

TEST(Operators, MinimaAndPadsAfterAMultiplicationByTheScaleRoundAsTheModelSays) {
  // With these scales, (q * scale) * factor and q * (scale * factor) round to different sides of a tie for some q.
  const float scale = 0.3F, factor = 0.9F, step = 0.54F;
  std::vector<float> frame;
  for (int q = -128; q < 128; ++q) {
    frame.push_back(static_cast<float>(q) * scale);
    frame.push_back(127 * scale);
  }
  for (const bool pads : {false, true}) {
    OnnxModel m;
    m.input("x", {1, 256, 2});
    m.pair("x", scale, 0, "xq");
    m.floats("factor", {}, {factor});
    m.node("Mul", {"xq", "factor"}, "scaled");
    if (pads) {
      m.node("Pad", {"scaled", m.int64s("pads", {0, 0, 0, 0, 0, 1})}, "moved");
    } else {
      m.node("ReduceMin", {"scaled"}, "moved");
      m.attribute("axes", Ints{2});
    }
    m.pair("moved", step, 0, "y");
    m.output("y");
    const auto c = compile(m);
    ASSERT_TRUE(c.ok()) << c.error().message();
    EXPECT_EQ(count_blocks(c->program, "float_operator"), 0U);
    const std::vector<float> got = run(c->program, frame);
    const std::size_t each = pads ? 3 : 1;
    ASSERT_EQ(got.size(), 256 * each);
    for (int q = -128; q < 128; ++q) {
      const float product = static_cast<float>(q) * scale * factor;
      EXPECT_EQ(got[static_cast<std::size_t>(q + 128) * each], std::nearbyint(product / step) * step) << q;
    }
  }
}

/// Returns a model that averages windows of 3 x 3, where the divisor depends on the window's position. Divisions by 3,
/// 6 and 9 round in float32, so a result halfway between two steps may be rounded either way.
OnnxModel uneven_average(const Ints& input, std::int64_t ceil, std::int64_t counted, bool quantised) {
  OnnxModel m;
  m.input("x", input);
  m.pair("x", 0.5F, 3, "xq");
  m.node("AveragePool", {"xq"}, "pool");
  m.attribute("kernel_shape", Ints{3, 3});
  m.attribute("strides", Ints{2, 2});
  m.attribute("pads", Ints{1, 0, 1, 1});
  m.attribute("ceil_mode", ceil);
  m.attribute("count_include_pad", counted);
  if (!quantised) m.node("Relu", {"pool"}, "positive");
  m.pair(quantised ? "pool" : "positive", 0.25F, 0, "y");
  m.output("y");
  return m;
}

TEST(Operators, AveragesWhoseDivisorDependsOnThePositionAreExact) {
  for (const std::int64_t ceil : {0, 1})
    for (const std::int64_t counted : {0, 1})
      for (const bool quantised : {false, true}) {
        const Program p = expect_meaning(uneven_average({1, 3, 8, 7}, ceil, counted, quantised), 0.251);
        const bool even = ceil == 0 && counted == 1;
        EXPECT_EQ(count_blocks(p, "sum_pool"), even ? 1U : 0U);
        EXPECT_EQ(count_blocks(p, "convolution"), even ? 0U : 1U);
      }
}

TEST(Operators, AnAverageWithTooManyDivisorsRunsOnTheHost) {
  const auto c = compile(uneven_average({1, 64, 32, 32}, 0, 0, true));
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(count_blocks(c->program, "float_operator"), 1U);
}

}  // namespace
}  // namespace millrace::tests::test_operator_sums
