// Tests what `millrace coverage` says of models whose answer is known from their construction.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

#include "compiler/coverage/coverage.hpp"
#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::coverage::test_coverage {
namespace {

using tests::OnnxModel;

Coverage covered(const OnnxModel& model) {
  const TemporaryDirectory folder("millrace-coverage");
  const auto file = folder.path() / "net.onnx";
  EXPECT_TRUE(write_file_atomically(file, model.bytes()).ok());
  Options options;
  options.model = file;
  auto coverage = cover(options);
  EXPECT_TRUE(coverage.ok()) << (coverage.ok() ? "" : coverage.error().message());
  return coverage.ok() ? std::move(*coverage) : Coverage{};
}

const NodeCoverage& node(const Coverage& coverage, const std::string& name) {
  static const NodeCoverage kNone;
  for (const NodeCoverage& n : coverage.nodes)
    if (n.name == name) return n;
  ADD_FAILURE() << "no node " << name;
  return kNone;
}

/// Adds a fully connected layer of 4 by 4, followed by a quantiser. Returns the name of its dequantised result.
std::string layer(OnnxModel& m, const std::string& x, const std::string& name) {
  const std::string w = m.weights(name + "_w", {4, 4}, std::vector<std::int64_t>(16, 3), {0.5F});
  return m.pair(m.node("MatMul", {x, w}, name), 0.25F, 0, name + "_q");
}

void declare(OnnxModel& m, const std::string& name, const std::vector<std::int64_t>& shape) {
  auto* info = m.proto().mutable_graph()->add_value_info();
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t d : shape) type->mutable_shape()->add_dim()->set_dim_value(d);
}

/// Returns a model of two layers with an unknown operator between them.
OnnxModel with_unknown_operator(bool declares_shape) {
  OnnxModel m;
  m.input("x", {1, 4});
  const std::string first = layer(m, m.pair("x", 0.125F, 0, "in"), "first");
  m.node("Wavelet", {first}, "wave", "my.domain");
  if (declares_shape) declare(m, "wave", {1, 4});
  m.output(layer(m, m.pair("wave", 0.125F, 0, "between"), "second"));
  return m;
}

TEST(Coverage, NamesTheBlockAndTheHardwareGeneratorsOfALayer) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.output(layer(m, m.pair("x", 0.125F, 0, "in"), "first"));
  const Coverage c = covered(m);
  EXPECT_EQ(c.missing(), 0U);
  EXPECT_TRUE(c.assumed.empty());
  const NodeCoverage& first = node(c, "first");
  EXPECT_EQ(first.place, Place::kHardware);
  EXPECT_TRUE(first.generators.folded);
  EXPECT_TRUE(first.generators.unrolled);
  EXPECT_FALSE(first.generators.streamed);  // 16 weights are too few to stream
  EXPECT_EQ(first.multiply_accumulates, 16U);
  EXPECT_EQ(first.weights, 16U);
  ASSERT_EQ(first.blocks.size(), 1U);
  EXPECT_EQ(first.fused_with.size(), 1U);  // with its quantiser
}

TEST(Coverage, ShowsTheLayersOnBothSidesOfAnUnknownOperator) {
  const Coverage c = covered(with_unknown_operator(true));
  EXPECT_EQ(c.missing(), 1U);
  EXPECT_EQ(node(c, "wave").place, Place::kNowhere);
  EXPECT_NE(node(c, "wave").missing.find("my.domain"), std::string::npos);
  EXPECT_FALSE(node(c, "wave").rewrite.empty());
  EXPECT_EQ(node(c, "first").place, Place::kHardware);
  EXPECT_EQ(node(c, "second").place, Place::kHardware);
  EXPECT_TRUE(c.problems.empty());
}

TEST(Coverage, NamesTheNodesThatDependOnAnUnknownShape) {
  const Coverage c = covered(with_unknown_operator(false));
  EXPECT_EQ(node(c, "wave").place, Place::kNowhere);
  EXPECT_EQ(node(c, "second").place, Place::kUnknown);
  EXPECT_EQ(node(c, "first").place, Place::kHardware);
}

TEST(Coverage, ListsAllNodesEvenIfACompilerPassRefusesOne) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.input("y", {4, 4}, onnx::TensorProto::INT8);
  m.output(layer(m, m.pair("x", 0.125F, 0, "in"), "first"));
  m.proto()
      .mutable_graph()
      ->mutable_input(1)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(1);
  const std::string q = m.quantise("x", 0.125F, 0, "again");
  m.node("MatMulInteger", {q, m.node("Transpose", {"y"}, "turned")}, "product");
  m.output("product");
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "product").place, Place::kNowhere);
  EXPECT_FALSE(node(c, "product").missing.empty());
  EXPECT_EQ(node(c, "first").place, Place::kHardware);
}

TEST(Coverage, AnalysesAFloatModelThatReadsBytesAsIfItWereQuantised) {
  for (const bool moved : {false, true}) {
    OnnxModel m;
    m.input("x", moved ? std::vector<std::int64_t>{1, 4, 3} : std::vector<std::int64_t>{1, 3, 4},
            onnx::TensorProto::UINT8);
    if (moved) {
      m.node("Transpose", {"x"}, "turned");
      m.attribute("perm", std::vector<std::int64_t>{0, 2, 1});
    }
    m.node("Cast", {moved ? "turned" : "x"}, "number");
    m.attribute("to", std::int64_t{onnx::TensorProto::FLOAT});
    const std::string w = m.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
    m.node("Div", {"number", m.floats("most", {}, {255.0F})}, "share");
    m.output(m.node("Relu", {m.node("MatMul", {"share", w}, "first")}, "act"));
    const Coverage c = covered(m);
    EXPECT_EQ(c.assumed, "int8");
    EXPECT_EQ(node(c, "first").place, Place::kHardware);
  }
}

TEST(Coverage, SaysThatANodeRunsOnTheHostBecauseItsInputIsComputedThere) {
  OnnxModel m;
  m.input("x", {1, 4});
  const std::string q = m.pair("x", 0.125F, 0, "in");
  m.node("ReduceL2", {q}, "norm");
  m.output(m.node("Add", {"norm", m.floats("c", {}, {1.0F})}, "sum"));
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "sum").place, Place::kHost);
  EXPECT_NE(node(c, "sum").missing.find("on a value that the host computed"), std::string::npos)
      << node(c, "sum").missing;
}

TEST(Coverage, AnalysesAFloatModelAsIfItWereQuantised) {
  OnnxModel m;
  m.input("x", {1, 4});
  const std::string w = m.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
  m.output(m.node("Relu", {m.node("MatMul", {"x", w}, "first")}, "act"));
  const Coverage c = covered(m);
  EXPECT_EQ(c.assumed, "int8");
  EXPECT_EQ(node(c, "first").place, Place::kHardware);
  EXPECT_EQ(node(c, "act").place, Place::kHardware);
  EXPECT_EQ(c.missing(), 0U);
  EXPECT_NE(terminal(c, false).find("millrace quantize MODEL --data SAMPLES"), std::string::npos);
}

TEST(Coverage, LayerAfterAHostOperatorOfAFloatModelRunsOnHardware) {
  OnnxModel m(17);
  m.input("x", {1, 4});
  const std::string w = m.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
  const std::string scale = m.floats("s", {4}, {1, 1, 1, 1});
  m.node("LayerNormalization", {m.node("MatMul", {"x", w}, "first"), scale}, "norm");
  m.output(m.node("MatMul", {"norm", w}, "second"));
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "norm").place, Place::kHost);
  EXPECT_EQ(node(c, "second").place, Place::kHardware);
}

TEST(Coverage, SuggestsAReplacementForAnOperatorThatRunsOnTheHost) {
  OnnxModel m(17);
  m.input("x", {1, 4});
  const std::string first = layer(m, m.pair("x", 0.125F, 0, "in"), "first");
  const std::string scale = m.floats("s", {4}, {1, 1, 1, 1});
  m.node("LayerNormalization", {first, scale}, "norm");
  m.output(layer(m, m.pair("norm", 0.125F, 0, "between"), "second"));
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "norm").place, Place::kHost);
  EXPECT_NE(node(c, "norm").rewrite.find("BatchNormalization"), std::string::npos);
  EXPECT_EQ(node(c, "second").place, Place::kHardware);
  EXPECT_EQ(c.missing(), 0U);
}

TEST(Coverage, SaysThatOnlyTheHostComputesASoftmaxOrMultipliesTwoActivations) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.input("y", {1, 4, 4});
  const std::string first = layer(m, m.pair("x", 0.125F, 0, "in"), "first");
  m.output(m.node("Softmax", {first}, "soft"));
  m.output(m.node("MatMul", {m.pair("y", 0.5F, 0, "a"), m.pair("y", 0.25F, 0, "b")}, "product"));
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "soft").place, Place::kHost);
  EXPECT_EQ(node(c, "soft").missing, "no hardware computes it");
  EXPECT_NE(node(c, "soft").rewrite.find("largest score"), std::string::npos);
  EXPECT_EQ(node(c, "product").place, Place::kHost);
  EXPECT_NE(node(c, "product").rewrite.find("two activations"), std::string::npos);
  EXPECT_EQ(node(c, "in_q").place, Place::kHost);  // a conversion of the model's input, which lacks nothing
  EXPECT_TRUE(node(c, "in_q").missing.empty());
}

TEST(Coverage, LayersTooWideForHardwareRunOnEmulatedCards) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.proto().add_opset_import()->set_domain("qonnx.custom_op.general");
  m.proto().mutable_opset_import(m.proto().opset_import_size() - 1)->set_version(1);
  const auto quant = [&](const std::string& x, float bits, const std::string& name) {
    m.node("Quant",
           {x, m.floats(name + "_s", {}, {0.125F}), m.floats(name + "_z", {}, {0}),
            m.floats(name + "_b", {}, {bits})},
           name, "qonnx.custom_op.general");
    m.attribute("signed", std::int64_t{1});
    m.attribute("narrow", std::int64_t{0});
    return name;
  };
  const std::string w = m.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
  m.node("MatMul", {quant("x", 12, "in"), quant(w, 8, "weights")}, "wide");
  m.output(quant("wide", 8, "out"));
  const Coverage c = covered(m);
  EXPECT_EQ(node(c, "wide").place, Place::kEmulated);
  EXPECT_NE(node(c, "wide").missing.find("12 bits"), std::string::npos);
  EXPECT_NE(node(c, "wide").rewrite.find("8 bits"), std::string::npos);
}

/// A model with one operator in QOperator form on `count` tensors of [1, 2, 4, 4].
OnnxModel qlinear(const std::string& type, std::size_t count) {
  OnnxModel m;
  m.proto().add_opset_import()->set_domain("com.microsoft");
  m.proto().mutable_opset_import(m.proto().opset_import_size() - 1)->set_version(1);
  const std::string s = m.floats("s", {}, {0.125F}), z = m.int8s("z", {}, {0});
  std::vector<std::string> inputs;
  if (type == "QLinearConcat") inputs = {s, z};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string x = "x" + std::to_string(i);
    m.input(x, {1, 2, 4, 4});
    inputs.insert(inputs.end(), {m.quantise(x, 0.125F, 0, x + "_q"), s, z});
  }
  if (type != "QLinearConcat") inputs.insert(inputs.end(), {s, z});
  m.output(m.node(type, inputs, "op", "com.microsoft"));
  return m;
}

TEST(Coverage, OperatorsInQOperatorFormRunWhereTheirFloatFormRuns) {
  EXPECT_EQ(node(covered(qlinear("QLinearSigmoid", 1)), "op").place, Place::kHardware);
  OnnxModel concat = qlinear("QLinearConcat", 2);
  concat.attribute("axis", std::int64_t{1});
  EXPECT_EQ(node(covered(concat), "op").missing, "");
  OnnxModel pool = qlinear("QLinearAveragePool", 1);
  pool.attribute("kernel_shape", std::vector<std::int64_t>{2, 2});
  EXPECT_EQ(node(covered(pool), "op").place, Place::kHardware);
  OnnxModel softmax = qlinear("QLinearSoftmax", 1);
  softmax.attribute("axis", std::int64_t{1});
  softmax.attribute("opset", std::int64_t{13});
  EXPECT_EQ(node(covered(softmax), "op").place, Place::kHost);
}

TEST(Coverage, CountsTheOperationsThatEachGeneratorAndAllTogetherSupport) {
  const Coverage c = covered(with_unknown_operator(true));
  const auto rows = shares(c);
  const auto row = [&](const std::string& by) {
    return *std::find_if(rows.begin(), rows.end(), [&](const Share& s) { return s.by == by; });
  };
  EXPECT_EQ(row("folded").multiply_accumulates, 32U);
  EXPECT_EQ(row("streamed").multiply_accumulates, 0U);
  EXPECT_EQ(row("combined").weights, 32U);
  EXPECT_EQ(row("combined").nodes, c.nodes.size() - 1);
}

TEST(Coverage, PrintsAtMost110ColumnsAndOneLinePerNodeWithTheOptionAll) {
  Options options;
  options.model =
      std::filesystem::path(tests::source_dir()) / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  const auto c = cover(options);
  ASSERT_TRUE(c.ok());
  for (const bool all : {false, true}) {
    std::istringstream lines(terminal(*c, all));
    std::size_t convolutions = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 110U) << line;
      convolutions += line.find(" Conv ") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(convolutions, all ? 2U : 1U);
  }
}

TEST(Coverage, JsonHasAllNodesAndTheFractionOfOperationsThatEachGeneratorSupports) {
  const Coverage c = covered(with_unknown_operator(true));
  const boost::json::object o = boost::json::parse(json(c)).as_object();
  EXPECT_EQ(o.at("schema").as_int64(), 1);
  EXPECT_EQ(o.at("kind").as_string(), "coverage");
  EXPECT_EQ(o.at("nodes").as_array().size(), c.nodes.size());
  EXPECT_EQ(o.at("missing").as_int64(), 1);
  EXPECT_TRUE(o.at("assumed").is_null());
  const auto& folded = o.at("shares").as_array().at(0).as_object();
  EXPECT_EQ(folded.at("by").as_string(), "folded");
  EXPECT_EQ(folded.at("fraction_of_multiply_accumulates").as_double(), 1.0);
}

TEST(Coverage, RefusesAFileThatIsNoModel) {
  const TemporaryDirectory folder("millrace-coverage");
  const auto file = folder.path() / "net.onnx";
  ASSERT_TRUE(write_file_atomically(file, "not a model").ok());
  Options options;
  options.model = file;
  const auto c = cover(options);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().code(), ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace millrace::compiler::coverage::test_coverage
