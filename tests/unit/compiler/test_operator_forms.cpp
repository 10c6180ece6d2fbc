// Tests the different ways to write a quantised model, the errors for models that are refused, and properties that hold
// after every pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "interpret.hpp"
#include "kernels/reference/reference.hpp"
#include "operator_case.hpp"

namespace millrace::tests::test_operator_forms {
namespace {

using compiler::graph::Graph;
using kernels::Program;

TEST(Operators, QGemmMultipliesProductAndBiasByAlpha) {
  const std::vector<std::int64_t> weights = random_integers(32, -128, 127, 3), bias = {100, -200, 30, 7};
  OnnxModel m;
  m.input("x", {1, 8});
  m.quantise("x", 0.5F, 3, "q");
  m.int8s("w", {8, 4}, weights);
  m.floats("ws", {}, {0.25F});
  m.int8s("wz", {}, {1});
  m.integers("b", onnx::TensorProto::INT32, {4}, bias);
  m.floats("ys", {}, {16.0F});
  m.int8s("yz", {}, {2});
  m.node("QGemm", {"q", "q_s", "q_z", "w", "ws", "wz", "b", "ys", "yz"}, "gemm", "com.microsoft");
  m.attribute("alpha", 2.0F);
  m.node("DequantizeLinear", {"gemm", "ys", "yz"}, "y");
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  const auto quantised = [](double x, double zero) {
    return std::min(std::max(std::nearbyint(x) + zero, -128.0), 127.0) - zero;
  };
  const std::vector<float> input = random_floats(8, 1), got = run(c->program, input);
  ASSERT_EQ(got.size(), 4U);
  for (std::size_t o = 0; o < 4; ++o) {
    auto sum = static_cast<double>(bias[o]);
    for (std::size_t i = 0; i < 8; ++i)
      sum += quantised(static_cast<double>(input[i]) / 0.5, 3) * static_cast<double>(weights[i * 4 + o] - 1);
    EXPECT_EQ(static_cast<double>(got[o]), 16 * quantised(2 * 0.5 * 0.25 * sum / 16, 2)) << "output " << o;
  }
}

OnnxModel with_einsum(const std::string& equation, const std::vector<std::int64_t>& weights) {
  OnnxModel m;
  m.input("x", {1, 3, 4});
  m.pair("x", 0.5F, 0, "xq");
  m.weights("w", {2, 4}, weights, {0.25F});
  m.node("Einsum", {"xq", "w"}, "sums");
  m.attribute("equation", equation);
  m.pair("sums", 8.0F, 0, "y");
  m.output("y");
  return m;
}

TEST(Operators, EinsumThatIsOneMatrixProductIsExact) {
  const std::vector<std::int64_t> weights = random_integers(8, -128, 127, 5);
  const auto c = compile(with_einsum("bij, kj -> bki", weights));
  ASSERT_TRUE(c.ok()) << c.error().message();
  std::vector<float> input;
  for (const auto i : random_integers(12, -127, 127, 6)) input.push_back(static_cast<float>(i) / 2);
  const std::vector<float> got = run(c->program, input);
  ASSERT_EQ(got.size(), 6U);
  for (std::size_t k = 0; k < 2; ++k)
    for (std::size_t i = 0; i < 3; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < 4; ++j)
        sum += static_cast<double>(input[i * 4 + j]) * 0.25 * static_cast<double>(weights[k * 4 + j]);
      const double steps = std::min(std::max(std::nearbyint(sum / 8), -128.0), 127.0);
      EXPECT_EQ(static_cast<double>(got[k * 3 + i]), 8 * steps) << k << ", " << i;
    }
}

TEST(Operators, EinsumThatIsNotOneMatrixProductIsRefused) {
  const auto refused = [](const char* equation, const std::vector<std::string>& says) {
    expect_refused(with_einsum(equation, std::vector<std::int64_t>(8, 1)), says);
  };
  const std::string other = "not one matrix product";
  refused("bij,kj->bk", {"'sums'", other});  // sums over two letters
  refused("bij,kj->bijk", {other});          // sums over none
  refused("bij,kj", {other});                // states no result
  refused("bii,ki->bk", {other});            // takes a diagonal
  refused("...j,kj->...k", {other});
  refused("ij,kj->ik", {"ranks differ from its equation"});
}

TEST(Operators, QLinearConvAndMatMulWithPerChannelScalesAreExact) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  m.quantise("x", 0.37F, 110, "q", kUint8);
  m.int8s("w", {4, 3, 3, 3}, random_integers(108, -128, 127, 6));
  m.floats("ws", {4}, {0.0213F, 0.0347F, 0.0111F, 0.0457F});
  m.int8s("wz", {4}, {0, 0, 0, 0});
  m.floats("ys", {}, {1.734F});
  m.integers("yz", kUint8, {}, {77});
  m.integers("b", kInt32, {4}, {1000, -2000, 0, 77});
  m.node("QLinearConv", {"q", "q_s", "q_z", "w", "ws", "wz", "ys", "yz", "b"}, "conv");
  m.attribute("pads", Ints{1, 1, 1, 1});
  m.node("Flatten", {"conv"}, "flat");
  m.int8s("v", {224, 5}, random_integers(1120, -128, 127, 2));
  m.floats("vs", {}, {0.013F});
  m.int8s("vz", {}, {4});
  m.floats("zs", {}, {9.1F});
  m.integers("zz", kUint8, {}, {130});
  m.node("QLinearMatMul", {"flat", "ys", "yz", "v", "vs", "vz", "zs", "zz"}, "product");
  m.node("DequantizeLinear", {"product", "zs", "zz"}, "y");
  m.output("y");
  expect_meaning(m, 1e-4);
}

/// The operators after ConvInteger are Add bias -> Cast -> Mul -> Relu -> QuantizeLinear, in this and in other orders.
TEST(Operators, ConvIntegerWithBiasAndScaleInAnyOrderIsWithinOneQuantisationStep) {
  for (const int order : {0, 1, 2, 3}) {
    OnnxModel m;
    m.input("x", {1, 3, 8, 7});
    m.quantise("x", 0.37F, 110, "q", kUint8);
    m.int8s("w", {4, 3, 3, 3}, random_integers(108, -128, 127, 6));
    m.node("ConvInteger", {"q", "w", "q_z"}, "acc");
    m.integers("bi", kInt32, {1, 4, 1, 1}, {100, -7, 3, 0});
    m.floats("bf", {4, 1, 1}, {1.5F, -0.75F, 0.25F, 0.0F});
    m.floats("f", {1, 4, 1, 1}, {0.0213F, 0.0347F, 0.0111F, 0.0457F});
    std::string x = "acc";
    if (order == 0 || order == 3) x = m.node("Add", {x, "bi"}, "added");
    x = m.node("Cast", {x}, "cast");
    m.attribute("to", std::int64_t{1});
    x = order == 2 ? m.node("Mul", {"f", x}, "scaled") : m.node("Mul", {x, "f"}, "scaled");
    if (order == 1) x = m.node("Add", {x, "bf"}, "added");
    if (order == 2) x = m.node("Sub", {x, "bf"}, "added");
    x = m.node("Relu", {x}, "relu");
    if (order == 3) {
      m.floats("d", {}, {2.0F});
      x = m.node("Div", {x, "d"}, "halved");
    }
    m.pair(x, 0.91F, 5, "y", kUint8);
    m.output("y");
    const Program p = expect_meaning(m, 0.911);
    EXPECT_EQ(count_blocks(p, "convolution"), 1U);
    EXPECT_EQ(count_blocks(p, "rescale"), 0U) << "order " << order;
  }
}

/// Runs one frame and returns the first output, which has the type INT32.
std::vector<double> run_to_int32(const Program& program, const std::vector<float>& input) {
  kernels::reference::Buffer in(input.size() * sizeof(float));
  std::memcpy(in.data(), input.data(), in.size());
  const auto out = kernels::reference::run(program, {in});
  std::vector<std::int32_t> values(out[0].size() / sizeof(std::int32_t));
  std::memcpy(values.data(), out[0].data(), out[0].size());
  return {values.begin(), values.end()};
}

void expect_int32_meaning(const OnnxModel& m) {
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  const auto elements =
      static_cast<std::size_t>(compiler::graph::elements(c->imported.input_signatures[0].shape));
  const std::vector<float> input = random_floats(elements, 3);
  EXPECT_EQ(run_to_int32(c->program, input), interpret(c->imported, input));
}

TEST(Operators, OutputIsInt32EvenIfTheAccumulatorHasOnlySixteenBits) {
  for (const bool reordered : {false, true}) {
    OnnxModel m;
    m.input("x", {1, 2, 4, 3});
    m.quantise("x", 0.37F, 110, "q", kUint8);
    m.int8s("w", {5, 2, 1, 1}, random_integers(10, -7, 7, 6));
    m.node("ConvInteger", {"q", "w", "q_z"}, "acc");
    if (reordered) {
      m.node("Transpose", {"acc"}, "turned");
      m.attribute("perm", Ints{0, 1, 3, 2});
    }
    m.output(reordered ? "turned" : "acc");
    expect_int32_meaning(m);
  }
}

TEST(Operators, AccumulatorsOfDifferentWidthsCanBeConcatenated) {
  OnnxModel m;
  m.input("x", {1, 2, 4, 3});
  m.quantise("x", 0.37F, 110, "q", kUint8);
  m.int8s("w", {3, 2, 1, 1}, random_integers(6, -7, 7, 6));
  m.int8s("v", {4, 2, 3, 3}, random_integers(72, -128, 127, 6));
  m.node("ConvInteger", {"q", "w", "q_z"}, "narrow");
  m.node("ConvInteger", {"q", "v", "q_z"}, "wide");
  m.attribute("pads", Ints{1, 1, 1, 1});
  m.node("Concat", {"narrow", "wide"}, "both");
  m.attribute("axis", std::int64_t{1});
  m.output("both");
  expect_int32_meaning(m);
}

TEST(Operators, FoldsWeightsThatTheGraphQuantises) {
  OnnxModel m;
  m.input("x", {1, 8});
  m.pair("x", 0.5F, 0, "xq");
  m.floats("w", {8, 3}, random_floats(24, 3));
  m.pair("w", 0.5F, 0, "wq");
  m.node("MatMul", {"xq", "wq"}, "product");
  m.pair("product", 64.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

TEST(Operators, ShapesComputedByTheGraphAreKnownAtCompileTime) {
  OnnxModel m = with_image(3);
  m.node("Shape", {"xq"}, "shape");
  m.int64s("first", {0});
  m.node("Gather", {"shape", "first"}, "batch");
  m.int64s("rest", {-1});
  m.node("Concat", {"batch", "rest"}, "target");
  m.attribute("axis", std::int64_t{0});
  m.node("Reshape", {"xq", "target"}, "flat");
  m.weights("w", {168, 4}, random_integers(672, -128, 127, 8), {0.5F}, 1);
  m.node("MatMul", {"flat", "w"}, "product");
  m.pair("product", 1024.0F, 0, "y");
  m.output("y");
  expect_meaning(m);
}

/// Returns the notes about the node.
std::string notes_about(const Compiled& c, const std::string& node) {
  std::string text;
  for (const auto& d : c.lowered.diagnostics)
    if (d.node == node) text += d.message + "\n";
  return text;
}

TEST(Operators, UnquantisedLayersRunOnTheHostAndANoteSaysWhy) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 1);
  m.floats("v", {4, 4, 1, 1}, std::vector<float>(16, 0.5F));
  m.node("Conv", {"xq", "w"}, "first");
  m.node("Conv", {"first", "w"}, "second");
  m.pair("second", 1.0F, 0, "a");
  m.node("Conv", {"a", "v"}, "third");
  m.output("third");
  for (auto& n : *m.proto().mutable_graph()->mutable_node())
    if (n.name() == "second") n.set_input(1, "w2");
  m.weights("w2", {4, 4, 1, 1}, std::vector<std::int64_t>(16, 1), {0.5F});
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 2U);
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ(notes_about(*c, "first"), "");
  EXPECT_NE(notes_about(*c, "second").find("runs on the host: its input 'first' is not quantised"),
            std::string::npos);
  EXPECT_NE(notes_about(*c, "third").find("runs on the host: its weights 'v'"), std::string::npos);
}

TEST(Operators, RefusesAModelInWhichEveryLayerComputesInFloats) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  conv_weights(m, 4, 3, 1);
  m.node("Conv", {"x", "w"}, "first");
  m.node("Relu", {"first"}, "relu");
  m.node("Conv", {"relu", "w2"}, "second");
  m.weights("w2", {2, 4, 1, 1}, std::vector<std::int64_t>(8, 1), {0.5F});
  m.output("second");
  expect_refused(m, {"2 nodes", "Conv 'first'", "Conv 'second'", "millrace quantize MODEL --data SAMPLES"});
}

TEST(Operators, ListsErrorsOfSeveralPassesTogetherWithoutFollowUpErrors) {
  OnnxModel m = with_image(3);
  m.node("GlobalMaxPool", {"xq"}, "pooled");
  m.int64s("all", {-1});
  m.node("Reshape", {"pooled", "all"}, "scales");
  m.node("QuantizeLinear", {"xq", "scales"}, "odd");  // lower_elementwise refuses scales that are data
  m.node("DequantizeLinear", {"odd", "xq_q_s"}, "after");
  conv_weights(m, 4, 3, 1);
  m.node("Conv", {"after", "w"}, "follows");
  m.int8s("v", {3, 3, 1, 1}, std::vector<std::int64_t>(9, 1));
  m.node("ConvInteger", {"xq_q", "v"}, "sums");
  m.node("Mul", {"sums", "sums"}, "third");  // lower_qdq refuses a product of integers
  m.output("follows");
  m.output("third");
  const auto c = compile(m);
  ASSERT_FALSE(c.ok());
  const std::string& says = c.error().message();
  EXPECT_NE(says.find("2 nodes"), std::string::npos) << says;
  EXPECT_NE(says.find("QuantizeLinear 'odd'"), std::string::npos) << says;
  EXPECT_NE(says.find("Mul 'third'"), std::string::npos) << says;
  EXPECT_EQ(says.find("follows"), std::string::npos) << says;
}

TEST(Operators, IntegerTensorsRecordTheirScaleAndZeroPoint) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, -7, "a");
  m.node("MaxPool", {"a"}, "pool");
  m.attribute("kernel_shape", Ints{2, 2});
  m.output("pool");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  std::size_t integers = 0;
  for (const kernels::Block& b : c->program.blocks)
    for (const auto t : b.outputs) {
      const kernels::Tensor& tensor = c->program.tensors[t];
      if (!tensor.type.is_integer()) continue;
      ++integers;
      const bool input = std::holds_alternative<kernels::Quantise>(b.operation) ||
                         (std::holds_alternative<kernels::Rearrange>(b.operation) && tensor.scale[0] == 0.5F);
      EXPECT_EQ(tensor.scale, std::vector<float>{input ? 0.5F : 32.0F}) << b.name;
      EXPECT_EQ(tensor.zero_point, input ? 3 : -7) << b.name;
    }
  EXPECT_GE(integers, 3U);
}

TEST(Operators, FloatArithmeticBeforeTheFirstQuantiserRunsOnTheHost) {
  OnnxModel m;
  m.input("x", {1, 3, 8, 7});
  m.node("Sub", {"x", m.floats("mean", {3, 1, 1}, {3, -2, 0.5F})}, "centred");
  m.node("Div", {"centred", m.floats("deviation", {3, 1, 1}, {2, 0.5F, 4})}, "normal");
  m.pair("normal", 0.5F, 0, "y");
  m.output("y");
  EXPECT_EQ(count_blocks(expect_meaning(m), "float_operator"), 2U);
}

TEST(Operators, NamesAndOrderOfBlocksAreDeterministic) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "features/conv 1:0");
  m.pair("features/conv 1:0", 32.0F, 0, "y");
  m.output("y");
  const auto a = compile(m), b = compile(m);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->program, b->program);
  EXPECT_EQ(a->program.tensors[a->program.inputs[0]].name, "x");
  EXPECT_EQ(a->program.tensors[a->program.outputs[0]].name, "y");
  bool found = false;
  for (const kernels::Block& block : a->program.blocks) found = found || block.name == "features_conv_1_0";
  EXPECT_TRUE(found) << "a valid file name from the node's";
}

TEST(Operators, GraphCanBePrintedAndIsValidAfterEveryPass) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "y");
  m.output("y");
  auto g = import_model(m);
  ASSERT_TRUE(g.ok());
  std::vector<std::string> seen;
  const auto lowered = compiler::passes::run_standard_passes(
      std::move(*g), [&seen](const compiler::passes::Pass& pass, const Graph& after) {
        seen.emplace_back(pass.name);
        EXPECT_TRUE(compiler::graph::verify(after, pass.gives).ok());
        EXPECT_NE(compiler::graph::print(after).find("conv"), std::string::npos) << pass.name;
      });
  ASSERT_TRUE(lowered.ok());
  EXPECT_EQ(seen.size(), compiler::passes::standard_passes().size());
}

TEST(VerifyGraph, ErrorNamesTheNodeThatMakesTheGraphInvalid) {
  OnnxModel m = with_image(3);
  conv_weights(m, 4, 3, 3);
  m.node("Conv", {"xq", "w"}, "conv");
  m.pair("conv", 32.0F, 0, "y");
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok());
  using compiler::graph::Level;
  const auto fails = [](const Graph& g, Level level, const std::string& says) {
    const Status s = compiler::graph::verify(g, level);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code(), ErrorCode::kInternal);
    EXPECT_NE(s.error().message().find(says), std::string::npos) << s.error().message();
  };
  fails(c->imported, Level::kInteger, "not allowed at level integer");
  fails(c->lowered, Level::kImported, "not allowed at level imported");
  Graph g = c->imported;
  std::swap(g.nodes.front(), g.nodes.back());
  fails(g, Level::kImported, "before it is produced");
  g = c->imported;
  g.nodes[1].outputs = g.nodes[0].outputs;
  fails(g, Level::kImported, "already has a producer");
  g = c->imported;
  g.values[1].name = g.values[0].name;
  fails(g, Level::kImported, "two values");
}

}  // namespace
}  // namespace millrace::tests::test_operator_forms
