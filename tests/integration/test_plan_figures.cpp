// Tests the figures that `millrace plan` predicts: `compile` must build what was predicted, and no other plan
// may be better by the requested objective.

#include <cmath>
#include <random>

#include "onnx_model.hpp"
#include "plan_command.hpp"

namespace millrace::tests::test_plan_figures {
namespace {

TEST_F(PlanCommand, OptionMaxLatencyIsMetInSimulationAndKeepsTheRateOfAPlanThatMeetsItAlready) {
  const auto latency = [](const json::value& report) {
    return report.at("predicted").at("latency_us").to_number<double>();
  };
  const auto plain = planned({}, "one-ku060");
  const auto soonest = planned({"--objective", "latency"}, "one-ku060");
  for (const double most : {latency(plain) * 1.01, latency(plain) * 4, latency(soonest) * 1.1}) {
    const auto kept = planned({"--max-latency", std::to_string(most) + "us"}, "one-ku060");
    EXPECT_LE(latency(kept), most);
    if (most >= latency(plain)) {
      EXPECT_GE(rate(kept), rate(plain) * 0.999);
    }
  }
  // The saved plan's sum of block latencies would meet the requested --max-latency, but its simulated latency does not.
  const std::string yaml = file("plan.yaml");
  (void)planned({"--save-plan", yaml}, "one-ku060");
  expect_error(
      plan({"--plan", yaml, "--max-latency", std::to_string(latency(plain) * 0.95) + "us"}, "one-ku060"), 1,
      {"plan.yaml", "us a frame where", "(--max-latency)"});
  expect_error(plan({"--max-latency", std::to_string(latency(soonest) * 0.9) + "us"}, "one-ku060"), 1,
               {"us a frame where", "are required (--max-latency)"});
}

TEST_F(PlanCommand, PlanSlowedByFifosAndForksIsNotReportedAsOptimal) {
  if (shared_models().empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const std::string model = (shared_models() / "resnet8_cifar10/resnet8_int8_qdq.onnx").string();
  const Outcome outcome =
      millrace({"plan", model, "--cluster", (kSource / "configs/clusters/mixed.yaml").string(),
                "--partitions", "1", "--objective", "throughput", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto predicted = json::parse(outcome.out).at("predicted");
  EXPECT_FALSE(predicted.at("exact").as_bool());
  EXPECT_GT(predicted.at("gap").to_number<double>(), 0.01);
}

/// Each block of ResNet-8 alone takes at most 8,192 clock cycles per frame. Connected to each other, the
/// blocks take more.
TEST_F(PlanCommand, BuiltNetWithBranchesHasThePredictedRateAndLatency) {
  if (shared_models().empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const std::string model = (shared_models() / "resnet8_cifar10/resnet8_int8_qdq.onnx").string();
  const std::string cluster = (kSource / "configs/clusters/one-ku060.yaml").string();
  const Outcome promised = millrace({"plan", model, "--cluster", cluster, "--json"});
  const Outcome compiled =
      millrace({"compile", model, "--cluster", cluster, "--json", "--quiet", "-o", file("d")});
  ASSERT_EQ(promised.exit_code, 0) << promised.err;
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const auto design = json::parse(*read_text_file(file("d/rtl/part0/design.json"))).at("predicted");
  for (const Outcome& outcome : {promised, compiled}) {
    const auto root = json::parse(outcome.out);
    EXPECT_NEAR(rate(root) * design.at("interval_cycles").to_number<double>(), 156.25e6, 1);
    EXPECT_NEAR(root.at("predicted").at("latency_us").to_number<double>() * 156.25,
                design.at("latency_cycles").to_number<double>(), 0.5);
  }
  // The figures of the single blocks would meet both targets, but those of the simulated plan do not.
  expect_error(millrace({"compile", model, "--cluster", cluster, "--target-fps", "18000", "--max-latency",
                         "80us", "-o", file("e")}),
               1, {"frames/s"});
  EXPECT_FALSE(fs::exists(file("e")));
}

TEST_F(PlanCommand, PlanReportsThatADesignIsTooLargeToSimulateButCompileSimulatesIt) {
  OnnxModel model;  // its input has too many pixels for `plan` to simulate it
  model.input("x", {1, 1, 1024, 1100});
  std::string x = model.pair("x", 0.0625F, 0, "in");
  for (const std::string name : {"first", "second"}) {
    const std::vector<std::int64_t> nine{1, 2, 3, 4, 5, 6, 7, 8, 9};
    x = model.node("Conv", {x, model.weights(name + ".w", {1, 1, 3, 3}, nine, {0.0078125F})}, name);
    model.attribute("kernel_shape", std::vector<std::int64_t>{3, 3});
    x = model.pair(x, 0.0625F, 0, name + ".q");
  }
  model.output(x);
  std::ofstream(file("wide.onnx"), std::ios::binary) << model.bytes();
  const std::string cluster = small_cards(1);
  const std::vector<std::string> asked{file("wide.onnx"), "--cluster", cluster, "--objective", "throughput"};
  const auto with = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> all{command};
    all.insert(all.end(), asked.begin(), asked.end());
    all.insert(all.end(), more.begin(), more.end());
    return millrace(all);
  };
  const Outcome told = with("plan", {}), promised = with("plan", {"--json"});
  ASSERT_EQ(promised.exit_code, 0) << promised.err;
  const auto predicted = json::parse(promised.out).at("predicted");
  EXPECT_FALSE(predicted.at("played").as_bool());
  EXPECT_FALSE(predicted.at("exact").as_bool());
  EXPECT_NE(unwrapped(told.out).find("not simulated clock by clock: the figures are computed from the blocks "
                                     "and the connections between them"),
            std::string::npos)
      << told.out;
  const Outcome compiled = with("compile", {"--json", "-o", file("d")});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const auto built = json::parse(*read_text_file(file("d/rtl/part0/design.json"))).at("predicted");
  EXPECT_NEAR(rate(json::parse(compiled.out)) * built.at("interval_cycles").to_number<double>(), 100e6, 1);
  EXPECT_EQ(read_text_file(file("d/report.html"))->find("not simulated clock"), std::string::npos);
}

/// A convolution of stride 2, which can take one pixel per cycle, follows a convolution that produces one element per
/// cycle. The convolution of stride 2 waits for the other one even while it skips pixels. The picture has too many
/// pixels for `plan` to simulate the net.
TEST_F(PlanCommand, RateEstimatedWithoutSimulationIsWithinOnePercentOfTheBuiltDesign) {
  OnnxModel model;
  model.input("x", {1, 3, 126, 126});
  std::string x = model.pair("x", 0.0625F, 0, "in");
  const std::vector<std::int64_t> channels{3, 32, 128, 3};
  for (std::size_t i = 1; i < channels.size(); ++i) {
    const std::string name = "conv" + std::to_string(i);
    std::vector<std::int64_t> weights;
    for (std::int64_t w = 0; w < channels[i] * channels[i - 1]; ++w) weights.push_back(w * 37 % 251 - 125);
    x = model.node(
        "Conv", {x, model.weights(name + ".w", {channels[i], channels[i - 1], 1, 1}, weights, {0.0078125F})},
        name);
    model.attribute("strides", std::vector<std::int64_t>(2, i == 2 ? 2 : 1));
    x = model.pair(x, 0.0625F, 0, name + ".q");
  }
  model.output(x);
  std::ofstream(file("skips.onnx"), std::ios::binary) << model.bytes();
  std::ofstream(file("skips.yaml"))
      << "schema: 1\nmodel: skips\ncluster: one-ku060\ncards:\n  - card: fpga0\n    blocks:\n"
         "      - {block: conv1, pe: 1, simd: 3, window: none, multiplier: lut}\n"
         "      - {block: conv2, pe: 1, simd: 32, window: parallel, multiplier: lut}\n"
         "      - {block: conv3, pe: 1, simd: 16, window: none, multiplier: lut}\n";
  const auto with = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> all{command,
                                 file("skips.onnx"),
                                 "--plan",
                                 file("skips.yaml"),
                                 "--json",
                                 "--cluster",
                                 (kSource / "configs/clusters/one-ku060.yaml").string()};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = millrace(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  };
  const auto promised = with("plan", {}), compiled = with("compile", {"-o", file("d")});
  EXPECT_FALSE(promised.at("predicted").at("played").as_bool());
  EXPECT_EQ(promised.at("predicted").at("tolerance").at("frames_per_second").to_number<double>(), 0.02);
  const auto built = json::parse(*read_text_file(file("d/rtl/part0/design.json"))).at("predicted");
  EXPECT_NEAR(rate(compiled) * built.at("interval_cycles").to_number<double>(), 156.25e6, 1);
  EXPECT_NEAR(rate(promised), rate(compiled), 0.01 * rate(compiled));
}

TEST_F(PlanCommand, PredictsTheRateThatACableLimits) {
  fs::create_directories(directory_.path() / "devices");
  fs::create_directories(directory_.path() / "clusters");
  fs::copy_file(kSource / "configs/devices/ku060.yaml", file("devices/ku060.yaml"));
  const std::string cards =
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: ku060}\n  - {name: b, device: ku060}\n"
      "cables:\n  - {a: {card: a, connector: 1}, b: {card: b, connector: 0}, gigabits_per_second: 0.01, "
      "latency_ns: 100}\n";
  const std::string second =
      "  - {a: {card: a, connector: 0}, b: {card: b, connector: 1}, gigabits_per_second: 0.01, "
      "latency_ns: 100}\n";
  // A second cable does not raise the rate, because only one tensor passes between the cards.
  for (const std::string& cables : {cards, cards + second}) {
    std::ofstream(file("clusters/thin.yaml")) << cables;
    const Outcome outcome =
        millrace({"compile", kModel.string(), "--cluster", file("clusters/thin.yaml"), "--partitions", "2",
                  "--objective", "throughput", "-o", file("d"), "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    // The cable of this cluster needs 0.8 us per byte. The smallest tensor between two layers of LeNet-5 has
    // 84 bytes, which fill eleven words of 8 bytes. With 40 bytes of packet header and CRC, a frame has 128
    // bytes on the cable.
    EXPECT_NEAR(rate(json::parse(outcome.out)), 0.01e9 / 8 / 128, 2);
  }
}

/// Returns a model of three 1x1 convolutions. The second has weights of 10 bits, for which there is no hardware.
std::string wide_in_mid_net(std::int64_t channels, std::int64_t side) {
  OnnxModel model;
  model.input("x", {1, channels, side, side});
  std::vector<std::int64_t> weights, wide;
  for (std::int64_t i = 0; i < channels * channels; ++i) {
    weights.push_back(i * 37 % 251 - 125);
    wide.push_back(i == 0 ? 300 : i * 37 % 601 - 300);
  }
  std::string x = model.pair("x", 0.0625F, 0, "in");
  for (const std::string name : {"first", "second"}) {
    const std::string w = model.weights(name + ".w", {channels, channels, 1, 1}, weights, {0.0078125F});
    x = model.pair(model.node("Conv", {x, w}, name), 0.0625F, 0, name + ".q");
    if (name == "second") break;
    const std::string v =
        model.weights("wide.w", {channels, channels, 1, 1}, wide, {0.0078125F}, 0, onnx::TensorProto::INT16);
    x = model.pair(model.node("Conv", {x, v}, "wide"), 0.5F, 0, "wide.q");
  }
  model.output(x);
  return model.bytes();
}

TEST_F(PlanCommand, ObeysTheObjectiveWhenABlockHasNoHardware) {
  std::ofstream(file("wide.onnx"), std::ios::binary) << wide_in_mid_net(4, 8);
  const std::vector<std::string> asked{"plan", file("wide.onnx"), "--cluster",
                                       (kSource / "configs/clusters/three-ku060.yaml").string(), "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return millrace(more);
  };
  EXPECT_TRUE(json::parse(with({}).out).at("unpredicted").is_string());
  const Outcome soon = with({"--objective", "latency"});
  ASSERT_EQ(soon.exit_code, 0) << soon.err;
  const auto root = json::parse(soon.out);
  EXPECT_TRUE(root.at("unpredicted").is_null()) << soon.out;
  EXPECT_EQ(root.at("objective").as_string(), "latency");
  EXPECT_GT(rate(root), 0);
  expect_error(with({"--objective", "throughput", "--no-host"}), 1, {"--no-host"});
}

TEST_F(PlanCommand, NamesTheLayerWithoutHardwareAndAdvisesToRunItOnTheHost) {
  OnnxModel model;
  model.input("x", {1, 4, 8, 8});
  std::string x = model.pair("x", 0.0625F, 0, "in");
  x = model.node(
      "Conv", {x, model.weights("w", {4, 4, 1, 1}, std::vector<std::int64_t>(16, 1), {0.0078125F})}, "first");
  x = model.pair(x, 0.0625F, 0, "first.q");
  std::vector<std::int64_t> values(4 * 4 * 9);  // -300 to 300: 10 bits
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(i * 600 / (values.size() - 1)) - 300;
  const auto wide = model.weights("v", {4, 4, 3, 3}, values, {0.0078125F}, 0, onnx::TensorProto::INT16);
  x = model.node("Conv", {x, wide}, "wide");
  model.output(model.pair(x, 8, 0, "out"));
  std::ofstream(file("wide.onnx"), std::ios::binary) << model.bytes();
  const auto with = [&](const char* command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, file("wide.onnx"), "--cluster",
                               (kSource / "configs/clusters/one-ku060.yaml").string()});
    return millrace(more);
  };
  const std::string says =
      "block 'wide' (convolution): inputs of 8 bits and weights of 10 bits; hardware multiplies at most 8 "
      "bits by 9 bits; cards can compute the other layers if the host computes this layer: --host wide";
  const Outcome text = with("plan", {});
  EXPECT_NE(unwrapped(text.out).find("nothing is predicted: " + says), std::string::npos)
      << text.out << text.err;
  const Outcome compiled = with("compile", {"-o", file("d")});
  EXPECT_NE(compiled.out.find("runs on emulated cards only: " + says), std::string::npos) << compiled.out;
  const Outcome advised = with("plan", {"--host", "wide", "--json"});
  ASSERT_EQ(advised.exit_code, 0) << advised.err;
  EXPECT_TRUE(json::parse(advised.out).at("unpredicted").is_null()) << advised.out;

  expect_error(with("plan", {"--host", "wide", "--host", "first"}), 2,
               {"model 'wide' has no layer left for the cards", "leave one of the --host options out"});
}

/// The first partition contains the wide layer and can only be emulated. The second partition has hardware.
TEST_F(PlanCommand, ObeysMaxUtilisationWhenABlockHasNoHardware) {
  std::ofstream(file("wide.onnx"), std::ios::binary) << wide_in_mid_net(32, 16);
  const auto luts_within = [&](const std::string& share) {
    const Outcome outcome = millrace({"compile", file("wide.onnx"), "--cluster",
                                      (kSource / "configs/clusters/two-ku060.yaml").string(),
                                      "--max-utilisation", share, "-o", file("d"), "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(json::parse(outcome.out).at("predicted").is_null());
    EXPECT_NE(outcome.err.find("part0 gets no hardware: "), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(file("d/rtl/part0")));
    return json::parse(*read_text_file(file("d/rtl/part1/design.json")));
  };
  const auto luts = [](const json::value& resources) { return resources.at("lut").to_number<double>(); };
  const auto roomy = luts_within("0.8"), tight = luts_within("lut=0.02");
  const double budget = luts(tight.at("available")) * 0.02;
  EXPECT_LE(luts(tight.at("predicted").at("resources")), budget);
  EXPECT_GT(luts(roomy.at("predicted").at("resources")), budget);
}

TEST_F(PlanCommand, ReplicatesAModelEvenIfTheHostComputesOneOfItsBlocks) {
  std::ofstream(file("wide.onnx"), std::ios::binary) << wide_in_mid_net(4, 8);
  const Outcome outcome =
      millrace({"plan", file("wide.onnx"), "--cluster",
                (kSource / "configs/clusters/three-ku060.yaml").string(), "--replicas", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto root = json::parse(outcome.out);
  EXPECT_TRUE(root.at("unpredicted").is_string());
  EXPECT_EQ(root.at("replicas").as_array().size(), 2U);
}

/// A model with a block that has no hardware can only be emulated. It must compile even if the hardware of
/// its other blocks does not fit the card.
TEST_F(PlanCommand, CompilesAnOversizedModelForEmulationIfABlockHasNoHardware) {
  std::ofstream(file("wide.onnx"), std::ios::binary) << wide_in_mid_net(64, 16);
  const Outcome outcome = millrace({"compile", file("wide.onnx"), "--cluster",
                                    (kSource / "configs/clusters/two-ku060.yaml").string(),
                                    "--max-utilisation", "lut=0.0001", "-o", file("d"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at("partitions").as_array().size(),
            4U);  // two partitions on cards, two on the host
  EXPECT_FALSE(fs::exists(file("d/rtl")));
  EXPECT_NE(outcome.err.find("part1 gets no hardware: "), std::string::npos) << outcome.err;
}

TEST_F(PlanCommand, TheObjectiveDecidesHowSpareResourcesAreUsed) {
  const auto cards = planned({"--target-fps", "1000"});
  const auto frames = planned({"--objective", "throughput"});
  const auto quick = planned({"--objective", "latency"});
  EXPECT_EQ(cards.at("partitions").as_array().size(), 1U);
  EXPECT_GE(rate(frames), rate(cards) * 0.99);
  EXPECT_LE(quick.at("predicted").at("latency_us").to_number<double>(),
            cards.at("predicted").at("latency_us").to_number<double>() * 1.05);
  EXPECT_LE(planned({"--max-utilisation", "0.2"}).at("predicted").at("frames_per_second").to_number<double>(),
            rate(cards));
}

/// Returns a model of two 3x3 convolutions with random weights. They are floats or, if `quantised`, quantised
/// as tools usually do: each output channel has its own scale, which is no power of two.
std::string two_convolutions(bool quantised) {
  std::mt19937 random(17);
  OnnxModel model;
  model.input("x", {1, 8, 16, 16});
  std::string x = quantised ? model.pair("x", 0.0313F, 0, "in") : "x";
  std::int64_t in = 8;
  for (const std::string name : {"first", "second"}) {
    const std::int64_t out = 16, each = in * 9;
    std::vector<float> weights, scales;
    std::vector<std::int64_t> integers;
    for (std::int64_t c = 0; c < out; ++c) {
      float most = 0;
      for (std::int64_t i = 0; i < each; ++i) {
        weights.push_back(static_cast<float>(random() % 20001) / 20000.0F - 0.5F);
        most = std::max(most, std::abs(weights.back()));
      }
      scales.push_back(most / 127);
      for (std::int64_t i = 0; i < each; ++i) {
        const float w = weights[weights.size() - static_cast<std::size_t>(each - i)];
        integers.push_back(std::lround(w / scales.back()));
      }
    }
    const std::vector<std::int64_t> shape{out, in, 3, 3};
    const std::string w = quantised ? model.weights(name + ".w", shape, integers, scales)
                                    : model.floats(name + ".w", shape, weights);
    x = model.node("Conv", {x, w}, name);
    model.attribute("kernel_shape", std::vector<std::int64_t>{3, 3});
    x = model.node("Relu", {x}, name + ".relu");
    if (quantised) x = model.pair(x, 0.0711F, 0, name + ".q");
    in = out;
  }
  model.output(x);
  return model.bytes();
}

/// The base of tests that plan two_convolutions() for one KU060.
class AssumedTypes : public PlanCommand {
 protected:
  Outcome plan(bool quantised, std::vector<std::string> more) {
    const std::string model = file(quantised ? "quantised.onnx" : "float.onnx");
    std::ofstream(model, std::ios::binary) << two_convolutions(quantised);
    more.insert(more.begin(),
                {"plan", model, "--cluster", (kSource / "configs/clusters/one-ku060.yaml").string(),
                 "--target-fps", "5000"});
    return millrace(more);
  }
  json::value planned(bool quantised, std::vector<std::string> more) {
    more.emplace_back("--json");
    const Outcome outcome = plan(quantised, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  }
  static double used(const json::value& plan, const char* kind) {
    return plan.at("partitions").at(0).at("regions").at(0).at("used").at(kind).to_number<double>();
  }
};

TEST_F(AssumedTypes, AssumedInt8UsesAsManyResourcesAsAPerChannelQuantisedModel) {
  const auto real = planned(true, {}), assumed = planned(false, {"--assume", "int8"});
  EXPECT_DOUBLE_EQ(rate(assumed), rate(real));
  EXPECT_EQ(used(assumed, "dsp"), used(real, "dsp"));
  EXPECT_NEAR(used(assumed, "lut"), used(real, "lut"), 0.05 * used(real, "lut"));
  EXPECT_TRUE(real.at("assumed_scales").is_null());
  EXPECT_EQ(assumed.at("assumed_scales").as_string(), "per-channel");
  EXPECT_NE(unwrapped(plan(false, {"--assume", "w4a8"}).out)
                .find("as if it were w4a8, quantised with arbitrary scales, one for each output channel"),
            std::string::npos);
}

TEST_F(AssumedTypes, Int8Pow2AssumesPowerOfTwoScales) {
  const auto general = planned(false, {"--assume", "int8"}),
             shifts = planned(false, {"--assume", "int8-pow2"});
  EXPECT_GT(rate(shifts), rate(general));  // cheaper requantisation leaves more for the matrix units
  EXPECT_EQ(shifts.at("assumed").as_string(), "int8-pow2");
  EXPECT_EQ(shifts.at("assumed_scales").as_string(), "power-of-two");
  EXPECT_NE(unwrapped(plan(false, {"--assume", "w4a8-pow2"}).out).find("scales that are powers of two"),
            std::string::npos);
  expect_error(plan(false, {"--assume", "int8-pow3"}), 2, {"--assume int8-pow3", "-pow2"});
}

TEST_F(PlanCommand, EachFloatNetOfTheDosaProjectFitsOneCardAt5000FramesPerSecond) {
  const fs::path models = shared_models();
  if (models.empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const std::string nine = (kSource / "configs/clusters/nine-ku060.yaml").string();
  for (const auto& [net, assumed] : {std::pair{"CERN", "int8"},
                                     {"MPCNN", "int8"},
                                     {"MPCNN", "int4"},
                                     {"TFC", "int8"},
                                     {"MNIST_int8", "int8"},
                                     {"PTTCNN_int8", "int8"}}) {
    const Outcome outcome =
        millrace({"plan", (models / "dosa_originals" / (std::string(net) + ".onnx")).string(), "--cluster",
                  nine, "--assume", assumed, "--target-fps", "5000", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << net << ": " << outcome.err;
    const auto root = json::parse(outcome.out);
    EXPECT_EQ(root.at("assumed").as_string(), assumed);
    EXPECT_EQ(root.at("partitions").as_array().size(), 1U) << net;
    EXPECT_GE(rate(root), 5000) << net;
  }
}

TEST_F(PlanCommand, EachQuantisedNetFitsOneCardAt5000FramesPerSecond) {
  const fs::path models = shared_models();
  if (models.empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  for (const char* net : {"tfc_mnist/tfc_qdq_s8_pow2", "mpcnn_gestures/mpcnn_qdq_s8_pow2",
                          "pttdnn_cifar10/ptt_qdq_s8_pow2", "jet_hls4ml_16_64_32_32_5/jet_int8_qdq"}) {
    const Outcome outcome =
        millrace({"plan", (models / (std::string(net) + ".onnx")).string(), "--cluster",
                  (kSource / "configs/clusters/nine-ku060.yaml").string(), "--target-fps", "5000", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << net << ": " << outcome.err;
    const auto root = json::parse(outcome.out);
    EXPECT_TRUE(root.at("assumed").is_null()) << net;
    EXPECT_EQ(root.at("partitions").as_array().size(), 1U) << net;
    EXPECT_TRUE(root.at("predicted").at("played").as_bool()) << net;
    EXPECT_GE(rate(root), 5000) << net;
  }
}

TEST_F(PlanCommand, CompileBuildsThePlannedPartitions) {
  const auto promised = planned({"--partitions", "2"});
  const Outcome compiled = millrace({"compile", kModel.string(), "--cluster",
                                     (kSource / "configs/clusters/three-ku060.yaml").string(), "--partitions",
                                     "2", "--json", "-o", file("d")});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const auto built = json::parse(compiled.out);
  EXPECT_DOUBLE_EQ(rate(built), rate(promised));
  std::size_t cards = 0;
  for (const auto& partition : built.at("partitions").as_array()) {
    if (!partition.at("device").is_string() || partition.at("device").as_string().empty()) continue;
    const auto& expected = promised.at("partitions").at(cards++).at("blocks").as_array();
    ASSERT_EQ(partition.at("blocks").as_array().size(), expected.size());
    for (std::size_t b = 0; b < expected.size(); ++b)
      EXPECT_EQ(partition.at("blocks").at(b).as_string(), expected[b].at("name").as_string());
  }
  EXPECT_EQ(cards, 2U);
  EXPECT_EQ(millrace({"verify", file("d"), "--frames", "2", "--quiet"}).exit_code, 0);
}

}  // namespace
}  // namespace millrace::tests::test_plan_figures
