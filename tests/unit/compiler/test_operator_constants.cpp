// Tests arithmetic with constants of any shape, masks, and indices of type INT64. Each test compiles a small model
// whole and compares its outputs with ONNX's definition.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "interpret.hpp"
#include "kernels/reference/reference.hpp"
#include "operator_case.hpp"

namespace millrace::tests::test_operator_constants {
namespace {

using kernels::Program;

std::vector<float> constants(std::size_t count, std::int64_t lowest, std::int64_t highest) {
  std::vector<float> floats;
  for (const std::int64_t i : random_integers(count, lowest, highest, 11))
    floats.push_back(static_cast<float>(i) / 4);
  return floats;
}

/// Adds a convolution, a quantiser if `quantised`, and the operator with a constant of this shape.
void expect_constant(const char* type, const Ints& shape, bool quantised, bool constant_first = false) {
  SCOPED_TRACE(std::string(type) + " with a constant of rank " + std::to_string(shape.size()));
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("pads", Ints{1, 1, 1, 1});
  const std::string a = quantised ? m.pair("conv", 32.0F, -7, "a") : "conv";
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  const bool is_factor = std::string(type) == "Mul";
  m.floats("known", shape, is_factor ? constants(count, -8, 8) : constants(count, -4000, 4000));
  m.node(type, constant_first ? std::vector<std::string>{"known", a} : std::vector<std::string>{a, "known"},
         "result");
  m.pair("result", 64.0F, 5, "y");
  m.output("y");
  const Program p = expect_meaning(m);
  if (quantised) {
    EXPECT_EQ(count_blocks(p, "float_operator"), 0U);
  }
}

TEST(ConstantsOfAnyShape, AreAddedExactly) {
  for (const bool quantised : {true, false})
    for (const Ints& shape : {Ints{4, 8, 7}, Ints{8, 7}, Ints{7}, Ints{8, 1}, Ints{1, 4, 1, 7}})
      expect_constant("Add", shape, quantised);
  expect_constant("Sum", {4, 8, 7}, true);
  expect_constant("Sub", {4, 8, 7}, true);
  expect_constant("Sub", {4, 8, 7}, true, true);
}

TEST(ConstantsOfAnyShape, MultiplyExactly) {
  for (const Ints& shape : {Ints{4, 8, 7}, Ints{8, 7}, Ints{7}}) expect_constant("Mul", shape, true);
  expect_constant("Max", {4, 8, 7}, true);
}

TEST(ConstantsOfAnyShape, AreAddedExactlyIfTheDataBroadcastToTheirShape) {
  OnnxModel m;
  m.input("x", {1, 4, 1, 1});
  m.pair("x", 0.5F, 3, "xq");
  m.floats("known", {4, 2, 3}, constants(24, -40, 40));
  m.node("Add", {"xq", "known"}, "sum");
  m.pair("sum", 0.25F, 0, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U);
}

TEST(ConstantsOfAnyShape, SelectElementsExactlyIfTheyAreTheConditionOfAWhereNode) {
  OnnxModel m;
  m.input("x", {1, 6, 6});
  m.pair("x", 0.5F, 3, "xq");
  m.integers("mask", onnx::TensorProto::BOOL, {6, 6}, random_integers(36, 0, 1, 4));
  m.floats("least", {}, {-32.0F});
  m.node("Where", {"mask", "xq", "least"}, "masked");
  m.pair("masked", 0.5F, 3, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 0U);
}

TEST(ConstantsOfAnyShape, MaskOfMinusInfinityLeavesElementsOut) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  std::vector<float> mask;
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 6; ++column) mask.push_back(column > row ? kNothing : 0);
  for (const bool quantised : {false, true}) {
    OnnxModel m;
    m.input("x", {1, 6, 6});
    m.pair("x", 0.5F, 3, "xq");
    m.node("Add", {"xq", m.floats("mask", {6, 6}, mask)}, "masked");
    m.node("Softmax", {quantised ? m.pair("masked", 0.5F, 3, "scores") : "masked"}, "shares");
    m.attribute("axis", std::int64_t{-1});
    m.output("shares");
    const auto c = compile(m);
    ASSERT_TRUE(c.ok()) << c.error().message();
    // Row r has r + 1 scores that the mask keeps: 0, 1, 2 and so on.
    std::vector<float> scores;
    for (int i = 0; i < 36; ++i) scores.push_back(static_cast<float>(i % 6));
    const std::vector<float> shares = run(c->program, scores);
    for (int row = 0; row < 6; ++row) {
      double sum = 0;
      for (int column = 0; column <= row; ++column) sum += std::exp(column);
      for (int column = 0; column < 6; ++column)
        EXPECT_NEAR(shares[static_cast<std::size_t>(row * 6 + column)],
                    column > row ? 0 : std::exp(column) / sum, 1e-6)
            << row << ' ' << column;
    }
  }
}

TEST(ConstantsOfAnyShape, PadOfMinusInfinityIsNeverTheMaximum) {
  OnnxModel m = with_image(3);
  m.floats("nothing", {}, {-std::numeric_limits<float>::infinity()});
  m.node("Pad", {"xq", m.int64s("pads", {0, 0, 0, 1, 0, 0, 1, 0}), "nothing"}, "padded");
  m.node("MaxPool", {"padded"}, "most");
  m.attribute("kernel_shape", Ints{3, 2});
  m.attribute("strides", Ints{3, 2});
  m.output(m.pair("most", 0.5F, 3, "y"));
  expect_meaning(m);
}

/// Runs a frame and returns the first output, whose elements are int64.
std::vector<std::int64_t> run_indices(const Program& program, const std::vector<float>& input) {
  kernels::reference::Buffer in(input.size() * sizeof(float));
  std::memcpy(in.data(), input.data(), in.size());
  const auto out = kernels::reference::run(program, {in});
  std::vector<std::int64_t> indices(out[0].size() / sizeof(std::int64_t));
  std::memcpy(indices.data(), out[0].data(), out[0].size());
  return indices;
}

TEST(Indices, OfTheLargestElementAreInt64) {
  OnnxModel m;
  m.input("x", {1, 3, 10});
  m.pair("x", 0.5F, 3, "xq");
  m.node("ArgMax", {"xq"}, "y");
  m.attribute("axis", std::int64_t{-1});
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(c->imported.output_signatures[0].type, compiler::graph::Type::integer(64));
  const auto input = random_floats(30, 5);
  const auto wanted = interpret(c->imported, input);
  const auto got = run_indices(c->program, input);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(static_cast<double>(got[i]), wanted[i]);
}

TEST(Indices, OfTopKAreReturnedTogetherWithTheValues) {
  OnnxModel m;
  m.input("x", {1, 6});
  m.pair("x", 0.5F, 0, "xq");
  m.node("TopK", {"xq", m.int64s("k", {2})}, "values");
  m.last().add_output("indices");
  m.output("indices");
  m.output("values");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  const std::vector<float> x = {1, 7, -3, 7, 8, 0};
  EXPECT_EQ(run_indices(c->program, x), (std::vector<std::int64_t>{4, 1}));
}

}  // namespace
}  // namespace millrace::tests::test_operator_constants
