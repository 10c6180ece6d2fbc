// Tests the quantisation of float models with samples: ranges, weights, placement of quantisers, and what the written
// file means.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/front/export.hpp"
#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/quantize/evaluate.hpp"
#include "compiler/quantize/quantize.hpp"
#include "compiler/quantize/report.hpp"
#include "compiler/quantize/statistics.hpp"
#include "onnx_model.hpp"

namespace millrace::compiler::quantize::test_quantize {
namespace {

using tests::OnnxModel;

std::vector<float> random_floats(std::size_t count, float low, float high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(low, high);
  std::vector<float> floats(count);
  for (float& f : floats) f = values(random);
  return floats;
}

Result<graph::Graph> import_float(const std::string& bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return import_onnx({data, data + bytes.size()}, "model", {}, FloatModel::kTaken);
}

std::vector<Frame> random_frames(std::size_t count, std::size_t elements, unsigned seed) {
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < count; ++i)
    frames.push_back({random_floats(elements, -1, 1, seed + static_cast<unsigned>(i))});
  return frames;
}

/// Returns a float model: a convolution with BatchNormalization and Relu, a pool, and a fully connected layer with
/// alpha and beta.
OnnxModel small_net(std::int64_t opset = 13) {
  OnnxModel m(opset);
  m.input("x", {-1, 2, 6, 6});
  m.floats("w1", {4, 2, 3, 3}, random_floats(72, -0.5F, 0.5F, 1));
  m.floats("b1", {4}, {0.1F, -0.2F, 0.3F, 0});
  m.node("Conv", {"x", "w1", "b1"}, "conv1");
  m.attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  m.floats("gamma", {4}, {1, 2, 0.5F, 1.5F});
  m.floats("beta", {4}, {0, 0.1F, 0.2F, -0.1F});
  m.floats("mean", {4}, {0.1F, 0, -0.1F, 0.2F});
  m.floats("variance", {4}, {1, 0.5F, 2, 1});
  m.node("BatchNormalization", {"conv1", "gamma", "beta", "mean", "variance"}, "norm1");
  m.node("Relu", {"norm1"}, "relu1");
  m.node("MaxPool", {"relu1"}, "pool1");
  m.attribute("kernel_shape", std::vector<std::int64_t>{2, 2});
  m.attribute("strides", std::vector<std::int64_t>{2, 2});
  m.node("Flatten", {"pool1"}, "flat");
  m.floats("w2", {36, 5}, random_floats(180, -0.5F, 0.5F, 2));
  m.floats("b2", {1, 5}, {0.5F, -0.5F, 0.25F, 0, 1});
  m.node("Gemm", {"flat", "w2", "b2"}, "y");
  m.attribute("alpha", 0.5F);
  m.attribute("beta", 2.0F);
  m.output("y");
  return m;
}

/// Computes the outputs of small_net() from the definitions of its operators.
std::vector<double> small_net_meaning(const std::vector<float>& x) {
  const auto w1 = random_floats(72, -0.5F, 0.5F, 1), w2 = random_floats(180, -0.5F, 0.5F, 2);
  const double b1[] = {0.1, -0.2, 0.3, 0}, gamma[] = {1, 2, 0.5, 1.5}, beta[] = {0, 0.1, 0.2, -0.1},
               mean[] = {0.1, 0, -0.1, 0.2}, variance[] = {1, 0.5, 2, 1}, b2[] = {0.5, -0.5, 0.25, 0, 1};
  double pooled[36];
  for (int o = 0; o < 4; ++o)
    for (int py = 0; py < 3; ++py)
      for (int px = 0; px < 3; ++px) {
        double most = 0;  // Relu
        for (int y = 2 * py; y < 2 * py + 2; ++y)
          for (int column = 2 * px; column < 2 * px + 2; ++column) {
            double sum = b1[o];
            for (int c = 0; c < 2; ++c)
              for (int ky = 0; ky < 3; ++ky)
                for (int kx = 0; kx < 3; ++kx) {
                  const int iy = y + ky - 1, ix = column + kx - 1;
                  if (iy < 0 || iy > 5 || ix < 0 || ix > 5) continue;
                  sum += static_cast<double>(w1[static_cast<std::size_t>(((o * 2 + c) * 3 + ky) * 3 + kx)]) *
                         static_cast<double>(x[static_cast<std::size_t>((c * 6 + iy) * 6 + ix)]);
                }
            most = std::max(most, (sum - mean[o]) / std::sqrt(variance[o] + 1e-5) * gamma[o] + beta[o]);
          }
        pooled[(o * 3 + py) * 3 + px] = most;
      }
  std::vector<double> result;
  for (int k = 0; k < 5; ++k) {
    double sum = 0;
    for (int i = 0; i < 36; ++i)
      sum += pooled[i] * static_cast<double>(w2[static_cast<std::size_t>(i * 5 + k)]);
    result.push_back(0.5 * sum + 2 * b2[k]);
  }
  return result;
}

TEST(Quantize, FloatEvaluatorComputesOperatorsAsOnnxDefinesThem) {
  const auto graph = import_float(small_net().bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  auto evaluator = Evaluator::make(*graph);
  ASSERT_TRUE(evaluator.ok()) << evaluator.error().message();
  const Frame frame = random_frames(1, 72, 7)[0];
  evaluator->run(frame);
  const auto wanted = small_net_meaning(frame[0]);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(static_cast<double>(evaluator->value(graph->outputs[0])[i]), wanted[i], 1e-4);
}

TEST(Quantize, FloatEvaluatorRoundsOnceAtAQuantiserAndSaturates) {
  OnnxModel m;
  m.input("x", {1, 5});
  m.pair("x", 0.5F, 3, "q");
  m.output("q");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  auto evaluator = Evaluator::make(*graph);
  ASSERT_TRUE(evaluator.ok());
  evaluator->run({{0.25F, 0.75F, -0.3F, 100, -100}});
  // Ties are rounded to even: 0.5 becomes 0, and 1.5 becomes 2. Larger values are clamped to -128 and 127.
  EXPECT_EQ(evaluator->value(graph->outputs[0]), (std::vector<float>{0, 1, -0.5F, 62, -65.5F}));
}

/// Lowers a graph to a program, as compile does. The callers check whether that succeeds, and do not use the program.
Status lowers(const graph::Graph& graph) {
  auto integer = passes::run_standard_passes(graph);
  if (!integer.ok()) return integer.error();
  auto program = passes::build_program(std::move(*integer));
  return program.ok() ? Status() : Status(program.error());
}

TEST(Quantize, QuantisedNetIsCloseToTheFloatNetAndCompiles) {
  for (const auto method : {Method::kMinMax, Method::kPercentile, Method::kEntropy}) {
    const auto graph = import_float(small_net().bytes());
    ASSERT_TRUE(graph.ok());
    Options options;
    options.method = method;
    const auto made = quantise(*graph, random_frames(40, 72, 100), options);
    ASSERT_TRUE(made.ok()) << made.error().message();
    ASSERT_EQ(made->layers.size(), 2U);
    EXPECT_EQ(made->layers[0].name, "conv1");
    EXPECT_EQ(made->layers[1].name, "y");
    EXPECT_GT(made->layers[0].sqnr_db, 30);
    EXPECT_EQ(made->float_bytes(), 4 * made->bytes());

    const auto bytes = export_onnx(made->graph);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    const auto read = import_onnx(*bytes, "model");  // refuses a model without quantisers
    ASSERT_TRUE(read.ok()) << read.error().message();
    EXPECT_EQ(read->input_signatures[0].name, "x");
    EXPECT_EQ(read->output_signatures[0].name, "y");
    EXPECT_TRUE(lowers(*read).ok()) << lowers(*read).error().message();
    auto evaluator = Evaluator::make(*read);
    ASSERT_TRUE(evaluator.ok()) << evaluator.error().message();
    double lost = 0, count = 0;
    for (const Frame& frame : random_frames(50, 72, 500)) {
      evaluator->run(frame);
      const auto wanted = small_net_meaning(frame[0]);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double error = static_cast<double>(evaluator->value(read->outputs[0])[i]) - wanted[i];
        lost += error * error;
        ++count;
      }
    }
    // The outputs have a range of about 5, so a step is about 0.02. Some frames also exceed the calibrated range.
    EXPECT_LT(std::sqrt(lost / count), 0.06);
  }
}

TEST(Quantize, UpgradesModelsOfOldOperatorSets) {
  OnnxModel m(9);
  m.input("x", {1, 8});
  m.floats("w", {8, 4}, random_floats(32, -1, 1, 3));
  m.node("MatMul", {"x", "w"}, "product");
  m.floats("b", {4}, {0.5F, 0, -0.5F, 1});
  m.node("Add", {"product", "b"}, "sum");
  m.node("Clip", {"sum"}, "clipped");
  m.attribute("min", 0.0F);
  m.attribute("max", 1.5F);
  m.node("Softmax", {"clipped"}, "y");
  m.output("y");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto frames = random_frames(30, 8, 20);
  const auto made = quantise(*graph, frames, {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto bytes = export_onnx(made->graph);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  const auto read = import_onnx(*bytes, "model");
  ASSERT_TRUE(read.ok()) << read.error().message();
  for (const auto& node : read->nodes) EXPECT_EQ(graph::onnx_of(node)->opset, 13) << node.name;
  auto exact = Evaluator::make(*graph), rounded = Evaluator::make(*read);
  ASSERT_TRUE(exact.ok() && rounded.ok());
  for (const Frame& frame : frames) {
    exact->run(frame);
    rounded->run(frame);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(exact->value(graph->outputs[0])[i], rounded->value(read->outputs[0])[i], 0.02);
  }
}

TEST(Quantize, EqualisedChannelRangesKeepTheOutputsCloseToTheFloatNet) {
  OnnxModel m;
  m.input("x", {1, 6});
  std::vector<float> w1 = random_floats(48, -1, 1, 4), w2 = random_floats(24, -1, 1, 5);
  for (std::size_t i = 0; i < 6; ++i) w1[i] *= 50;  // one channel is far larger than the others
  m.floats("w1", {8, 6}, w1);
  m.floats("b1", {8}, random_floats(8, -1, 1, 6));
  m.node("Gemm", {"x", "w1", "b1"}, "first");
  m.attribute("transB", std::int64_t{1});
  m.node("Relu", {"first"}, "relu");
  m.floats("w2", {8, 3}, w2);
  m.node("Gemm", {"relu", "w2"}, "y");
  m.output("y");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto frames = random_frames(50, 6, 60);
  Options plain, equalised;
  plain.correct_bias = equalised.correct_bias = false;
  equalised.equalise = true;
  const auto a = quantise(*graph, frames, plain), b = quantise(*graph, frames, equalised);
  ASSERT_TRUE(a.ok() && b.ok());
  // Quantising does not change the float graph, so both quantised graphs are compared with the same float outputs.
  // The graph with equalised channels must not lose noticeably more than the graph without.
  const auto without = score(*graph, a->graph, frames, {}), with = score(*graph, b->graph, frames, {});
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_GT(with->sqnr_db, 25);
  EXPECT_GT(with->sqnr_db, without->sqnr_db - 1);
}

TEST(Quantize, FourBitQuantisationKeepsFirstAndLastLayersAtEightBits) {
  const auto graph = import_float(small_net().bytes());
  ASSERT_TRUE(graph.ok());
  Options options;
  options.weight_bits = 4;
  const auto made = quantise(*graph, random_frames(40, 72, 100), options);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->layers[0].bits, 8);
  EXPECT_EQ(made->layers[0].why, "first layer");
  EXPECT_EQ(made->layers[1].why, "last layer");
}

TEST(Quantize, KeepFloatOptionLeavesTheNamedNodesInFloat) {
  const auto graph = import_float(small_net().bytes());
  ASSERT_TRUE(graph.ok());
  Options options;
  options.keep_float = {"y"};
  const auto made = quantise(*graph, random_frames(40, 72, 100), options);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->layers[1].bits, 32);
  for (const auto& node : made->graph.nodes) {
    if (node.name != "y") continue;
    EXPECT_NE(graph::constant_input(made->graph, node, 1), nullptr) << "its weights stay float";
  }
  options.keep_float = {"conv7"};
  const auto wrong = quantise(*graph, random_frames(4, 72, 100), options);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("--keep-float conv7"), std::string::npos);
  EXPECT_NE(wrong.error().message().find("conv1, y"), std::string::npos);
}

TEST(Quantize, ModelWithQuantisedWeightsKeepsItsIntegerWeights) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.weights("w", {3, 4}, {127, -5, 9, 64, 3, -127, 77, 1, 20, 30, -40, 127}, {0.01F, 0.02F, 0.03F});
  m.node("Gemm", {"x", "w"}, "y");
  m.attribute("transB", std::int64_t{1});
  m.output("y");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto made = quantise(*graph, random_frames(30, 4, 1), {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  // The integers of the model's weights must be unchanged: the largest magnitude of each channel is 127 already.
  bool found = false;
  for (const auto& value : made->graph.values)
    found = found || (value.constant != nullptr &&
                      value.constant->integers ==
                          std::vector<std::int64_t>{127, -5, 9, 64, 3, -127, 77, 1, 20, 30, -40, 127} &&
                      value.name.find("quantized") != std::string::npos);
  EXPECT_TRUE(found);
  EXPECT_GT(made->sqnr_db, 35);
}

TEST(Quantize, LayersThatShareTheirWeightsGetQuantisersOfTheirOwn) {
  OnnxModel m;
  m.input("x", {1, 2, 6, 6});
  m.floats("w", {2, 2, 3, 3}, random_floats(36, -0.5F, 0.5F, 1));
  m.floats("b", {2}, {0.5F, -0.25F});
  m.node("Conv", {"x", "w", "b"}, "first");
  m.node("Relu", {"first"}, "w_dequantize");  // a name that a quantiser's node could get, too
  m.node("Conv", {"w_dequantize", "w", "b"}, "second");
  m.output("second");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto made = quantise(*graph, random_frames(30, 72, 1), {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_TRUE(graph::verify(made->graph, graph::Level::kImported).ok());
  EXPECT_GT(made->sqnr_db, 25);
}

TEST(Quantize, ANetThatEndsInAnArgMaxIsQuantised) {
  OnnxModel m = small_net();
  m.proto().mutable_graph()->clear_output();
  m.node("ArgMax", {"y"}, "index");
  m.attribute("axis", std::int64_t{1});
  m.node("Cast", {"index"}, "short");
  m.attribute("to", std::int64_t{onnx::TensorProto::INT32});
  m.output("short");
  const auto graph = import_float(m.bytes());
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto made = quantise(*graph, random_frames(40, 72, 100), {});
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto bytes = export_onnx(made->graph);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  EXPECT_TRUE(import_float({reinterpret_cast<const char*>(bytes->data()), bytes->size()}).ok());
}

TEST(Quantize, RefusesMissingMisshapenAndOverflowingSamples) {
  const auto graph = import_float(small_net().bytes());
  ASSERT_TRUE(graph.ok());
  const auto none = quantise(*graph, {}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find("no samples"), std::string::npos);
  const auto wrong = quantise(*graph, random_frames(3, 71, 1), {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("input 'x'"), std::string::npos);
  auto frames = random_frames(3, 72, 1);
  for (float& x : frames[2][0]) x = std::copysign(3e38F, x);  // finite, but sums of them are not
  const auto overflow = quantise(*graph, frames, {});
  ASSERT_FALSE(overflow.ok());
  EXPECT_NE(overflow.error().message().find("sample 2"), std::string::npos) << overflow.error().message();
}

TEST(Quantize, PercentileAndEntropyRangesCutOffOutliers) {
  Histogram h({0, 1000});
  std::vector<float> many(100000, 1.0F);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i % 100) / 10;
  many.push_back(1000);
  h.add(many);
  EXPECT_EQ(h.percentile(100).high, 1000);
  EXPECT_LT(h.percentile(99.9).high, 12);
  EXPECT_EQ(h.percentile(99.9).low, 0);
  EXPECT_LT(h.entropy(256).high, 1000);
}

TEST(Quantize, WritesItsReportAsTextJsonAndHtml) {
  const auto graph = import_float(small_net().bytes());
  ASSERT_TRUE(graph.ok());
  auto made = quantise(*graph, random_frames(40, 72, 100), {});
  ASSERT_TRUE(made.ok());
  Summary summary;
  summary.model = "<small>";
  summary.quantised = std::move(*made);
  summary.calibration_frames = 40;
  summary.score = Score{10, 9, true, 8, 7, 33.0};
  EXPECT_NE(text(summary).find("80.00 % (8 of 10)"), std::string::npos) << text(summary);
  EXPECT_NE(json(summary, "out.onnx").find("\"quantised_right\":7"), std::string::npos);
  const std::string page = html(summary);
  EXPECT_NE(page.find("&lt;small&gt;"), std::string::npos);
  EXPECT_NE(page.find("70.00 %"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

}  // namespace
}  // namespace millrace::compiler::quantize::test_quantize
