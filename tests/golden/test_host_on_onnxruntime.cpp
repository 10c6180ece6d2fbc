// Compares Millrace with ONNX Runtime on models that run partly on the host: float heads and tails, and layers between
// quantisers for which there is no hardware. Needs no shared model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "tests/golden/models.hpp"
#include "tests/support/seed.hpp"

namespace millrace::golden::test_host_on_onnxruntime {
namespace {

using tests::OnnxModel;
using Ints = std::vector<std::int64_t>;

std::vector<float> random_floats(std::size_t count, float low, float high, unsigned seed) {
  std::mt19937 random(tests::chosen_seed(seed));
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random);
  return values;
}

Frames random_frames(const Ints& shape) {
  Frames f;
  f.count = 8;
  f.elements = 1;
  for (const std::int64_t extent : shape) f.elements *= static_cast<std::size_t>(extent);
  f.data = random_floats(f.count * f.elements, -4, 4, 21);
  return f;
}

/// Adds int8 weights of this shape and returns their name.
std::string weights(OnnxModel& m, const std::string& name, const Ints& shape, std::int64_t axis) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  Ints values;
  for (const float v : random_floats(count, -127, 127, 31)) values.push_back(static_cast<std::int64_t>(v));
  return m.weights(name, shape, values, {1.0F / 256}, axis);
}

struct Run {
  kernels::Program program;
  Frames got, wanted;
};

/// Makes the tensor `answer` the model's output, and runs the model with random inputs of the given shape.
/// kernels/fast must equal kernels/reference. Returns the outputs of kernels/reference and of ONNX Runtime.
Run run(OnnxModel& m, const Ints& shape, const std::string& answer) {
  m.output(answer);
  const TemporaryDirectory directory("millrace-host");
  const std::filesystem::path file = directory.path() / "model.onnx";
  std::ofstream(file, std::ios::binary) << m.bytes();
  const Frames inputs = random_frames(shape);
  auto compiled = compile_model(file);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message();
  const auto wanted = run_onnxruntime(file, inputs, shape);
  EXPECT_TRUE(wanted.ok()) << wanted.error().message();
  if (!compiled.ok() || !wanted.ok()) return {};
  Run r{compiled->program, run_reference(compiled->program, inputs, inputs.count), *wanted};
  EXPECT_EQ(r.got.data, run_fast(r.program, inputs, inputs.count).data);
  EXPECT_EQ(r.got.data.size(), r.wanted.data.size());
  const auto [low, high] = std::minmax_element(r.wanted.data.begin(), r.wanted.data.end());
  EXPECT_LT(*low, *high) << "a test in which nothing changes shows nothing";
  return r;
}

std::size_t count_blocks(const kernels::Program& program, const std::string& operation) {
  return static_cast<std::size_t>(std::count_if(
      program.blocks.begin(), program.blocks.end(),
      [&](const kernels::Block& b) { return kernels::operation_name(b.operation) == operation; }));
}

/// Expects that float outputs differ by at most 1e-6 of the largest output.
void expect_equal_floats(OnnxModel m, const Ints& shape, const std::string& answer) {
  const Run r = run(m, shape, answer);
  EXPECT_GE(count_blocks(r.program, "float_operator"), 1U);
  float largest = 0;
  for (const float wanted : r.wanted.data) largest = std::max(largest, std::abs(wanted));
  for (std::size_t i = 0; i < r.got.data.size(); ++i)
    ASSERT_NEAR(r.got.data[i], r.wanted.data[i], 1e-6F * largest) << "output " << i;
}

/// Expects that quantised outputs differ by at most one step, and at most one in a hundred differs at all.
Run expect_equal_steps(OnnxModel m, const Ints& shape, const std::string& answer) {
  Run r = run(m, shape, answer);
  const Agreement found = compare(r.got, r.wanted, r.got.count, output_step(r.program));
  EXPECT_GT(found.outputs, 0U);
  EXPECT_EQ(found.within_one, found.outputs) << "worst " << found.worst_steps;
  EXPECT_GE(found.equal * 100, found.outputs * 99) << found.equal << " of " << found.outputs;
  return r;
}

std::size_t host_operators(const Run& r) {
  return count_blocks(r.program, "float_operator");
}

OnnxModel with_tokens(std::int64_t opset = 17) {
  OnnxModel m(opset);
  m.input("x", {1, 8, 16});
  m.pair("x", 1.0F / 32, 0, "tokens");
  return m;
}

OnnxModel with_picture(std::int64_t opset = 17) {
  OnnxModel m(opset);
  m.input("x", {1, 3, 9, 10});
  m.pair("x", 1.0F / 32, 0, "picture");
  weights(m, "w", {4, 3, 3, 3}, 0);
  m.node("Conv", {"picture", "w"}, "conv");
  return m;
}

const Ints kTokens = {1, 8, 16}, kPicture = {1, 3, 9, 10};

TEST(HostOnOnnxRuntime, LayerNormalizationBetweenQuantisedLayersEqualsOnnxRuntime) {
  OnnxModel m = with_tokens();
  m.node("MatMul", {"tokens", weights(m, "w", {16, 16}, 1)}, "product");
  m.pair("product", 1.0F / 16, 0, "before");
  m.floats("gain", {16}, random_floats(16, 0.5F, 2, 3));
  m.floats("shift", {16}, random_floats(16, -1, 1, 4));
  m.node("LayerNormalization", {"before", "gain", "shift"}, "normal");
  m.pair("normal", 1.0F / 32, 3, "after");
  m.node("MatMul", {"after", weights(m, "v", {16, 12}, 1)}, "second");
  m.pair("second", 1.0F / 16, 0, "y");
  EXPECT_EQ(host_operators(expect_equal_steps(m, kTokens, "y")), 1U);
}

TEST(HostOnOnnxRuntime, AttentionBetweenQuantisersEqualsOnnxRuntime) {
  OnnxModel m = with_tokens();
  for (const std::string name : {"q", "k", "v"}) {
    m.node("MatMul", {"tokens", weights(m, name + "_w", {16, 16}, 1)}, name + "_product");
    m.pair(name + "_product", 1.0F / 16, 0, name);
  }
  m.node("Transpose", {"k"}, "turned");
  m.attribute("perm", Ints{0, 2, 1});
  m.node("MatMul", {"q", "turned"}, "scores");
  m.node("Mul", {"scores", m.floats("quarter", {}, {0.25F})}, "scaled");
  m.node("Softmax", {"scaled"}, "shares");
  m.attribute("axis", std::int64_t{-1});
  m.pair("shares", 1.0F / 255, -128, "shares8");
  m.node("MatMul", {"shares8", "v"}, "mixed");
  m.pair("mixed", 1.0F / 16, 0, "mixed8");
  m.node("MatMul", {"mixed8", weights(m, "o_w", {16, 16}, 1)}, "out");
  m.pair("out", 1.0F / 16, 0, "y");
  EXPECT_GE(host_operators(expect_equal_steps(m, kTokens, "y")), 2U);
}

TEST(HostOnOnnxRuntime, GeluBetweenAFloatProductAndAQuantiserEqualsOnnxRuntime) {
  OnnxModel m = with_tokens(20);
  m.node("MatMul", {"tokens", weights(m, "w", {16, 16}, 1)}, "product");
  m.node("Gelu", {"product"}, "bent");
  m.pair("bent", 1.0F / 32, -100, "after");
  m.node("MatMul", {"after", weights(m, "v", {16, 5}, 1)}, "second");
  m.pair("second", 1.0F / 16, 0, "y");
  expect_equal_steps(m, kTokens, "y");
}

TEST(HostOnOnnxRuntime, MeanOverTokensBetweenQuantisersEqualsOnnxRuntime) {
  OnnxModel m = with_tokens();
  m.node("ReduceMean", {"tokens"}, "mean");
  m.attribute("axes", Ints{1});
  m.attribute("keepdims", std::int64_t{0});
  m.pair("mean", 1.0F / 64, 0, "mean8");
  m.node("MatMul", {"mean8", weights(m, "w", {16, 7}, 1)}, "product");
  m.pair("product", 1.0F / 64, 0, "y");
  expect_equal_steps(m, kTokens, "y");
}

TEST(HostOnOnnxRuntime, SoftmaxAlongAnyAxisOfAPictureEqualsOnnxRuntime) {
  for (const std::int64_t axis : {1, 2, 3}) {
    OnnxModel m = with_picture();
    m.pair("conv", 1.0F / 8, 0, "conv8");
    m.node("Softmax", {"conv8"}, "shares");
    m.attribute("axis", axis);
    if (axis == 1) m.node("Mul", {"shares", m.floats("two", {}, {2.0F})}, "y");
    if (axis != 1) m.pair("shares", 1.0F / 256, -128, "y");
    if (axis == 1)
      expect_equal_floats(m, kPicture, "y");
    else
      expect_equal_steps(m, kPicture, "y");
  }
}

TEST(HostOnOnnxRuntime, FloatTailWithElementwiseStepsOfEveryKindEqualsOnnxRuntime) {
  OnnxModel m = with_picture();
  m.pair("conv", 1.0F / 8, 5, "conv8");
  m.node("Mul", {"conv8", m.floats("f", {4, 1, 1}, {0.5F, -1.5F, 2, 0.1F})}, "multiplied");
  m.node("Add", {"multiplied", m.floats("a", {1, 4, 1, 1}, {1, -1, 0.25F, 3})}, "added");
  m.node("Relu", {"added"}, "relu");
  m.node("Clip", {"relu", m.floats("low", {}, {0.5F}), m.floats("high", {}, {6})}, "clipped");
  m.node("Div", {"clipped", m.floats("d", {}, {3})}, "divided");
  m.node("Sub", {"divided", m.floats("column", {8}, random_floats(8, -1, 1, 8))}, "subtracted");
  m.node("LeakyRelu", {"subtracted"}, "leaky");
  m.attribute("alpha", 0.125F);
  m.node("HardSigmoid", {"leaky"}, "hard");
  m.attribute("alpha", 0.3F);
  expect_equal_floats(m, kPicture, "hard");
}

TEST(HostOnOnnxRuntime, FloatTailWithConcatAndMaxPoolEqualsOnnxRuntime) {
  OnnxModel m = with_picture();
  m.node("Sigmoid", {"conv"}, "left");
  m.node("Tanh", {"conv"}, "right");
  m.node("Concat", {"left", "right"}, "both");
  m.attribute("axis", std::int64_t{3});
  m.node("MaxPool", {"both"}, "largest");
  m.attribute("kernel_shape", Ints{2, 3});
  m.attribute("strides", Ints{2, 1});
  m.attribute("pads", Ints{1, 0, 0, 1});
  expect_equal_floats(m, kPicture, "largest");
}

TEST(HostOnOnnxRuntime, FloatPreprocessingBeforeTheFirstQuantiserEqualsOnnxRuntime) {
  OnnxModel m(17);
  m.input("x", kPicture);
  m.node("Sub", {"x", m.floats("mean", {3, 1, 1}, {0.5F, -0.25F, 0.125F})}, "centred");
  m.node("Div", {"centred", m.floats("deviation", {3, 1, 1}, {0.9F, 1.1F, 1.3F})}, "normal");
  m.pair("normal", 1.0F / 32, 0, "normal8");
  m.node("Conv", {"normal8", weights(m, "w", {4, 3, 3, 3}, 0)}, "conv");
  m.pair("conv", 1.0F / 8, 0, "y");
  expect_equal_steps(m, kPicture, "y");
}

TEST(HostOnOnnxRuntime, AveragePoolThatIgnoresPaddingEqualsOnnxRuntime) {
  OnnxModel m = with_picture();
  m.pair("conv", 1.0F / 8, 0, "conv8");
  m.node("InstanceNormalization",
         {"conv8", m.floats("gain", {4}, {1, 2, 0.5F, 1}), m.floats("shift", {4}, {0, 1, -1, 0})}, "normal");
  m.node("AveragePool", {"normal"}, "mean");
  m.attribute("kernel_shape", Ints{3, 3});
  m.attribute("pads", Ints{1, 1, 1, 1});
  m.pair("mean", 1.0F / 64, 7, "y");
  expect_equal_steps(m, kPicture, "y");
}

}  // namespace
}  // namespace millrace::golden::test_host_on_onnxruntime
