// Tests layers that do not fit a card or that limit the frame rate. Such layers are split over cards, or
// their weights are streamed from memory. The tests compile and run the result.

#include <algorithm>
#include <map>
#include <random>

#include "onnx_model.hpp"
#include "plan_command.hpp"

namespace millrace::tests::test_plan_layers {
namespace {

TEST_F(PlanCommand, ResNet8CutBetweenOrInsideItsBranchesGivesTheSameBytes) {
  const char* models = std::getenv("MILLRACE_MODELS");
  const std::string model =
      std::string(models == nullptr ? "" : models) + "/resnet8_cifar10/resnet8_int8_qdq.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const std::string cluster = (kSource / "configs/clusters/three-ku060.yaml").string();
  // Compiles and verifies the model. Returns how many tensors pass from the first card to the second.
  const auto tensors_over = [&](const std::vector<std::string>& how) {
    std::vector<std::string> arguments{"compile", model, "--cluster", cluster, "-o", file("d"), "--json"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Outcome compiled = millrace(arguments);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    const Outcome run = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "4", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    if (compiled.exit_code + run.exit_code != 0) return std::ptrdiff_t{-1};
    EXPECT_EQ(json::parse(run.out).at("mismatches").to_number<int>(), 0);
    EXPECT_EQ(json::parse(run.out).at("cards").to_number<int>(), 3);
    const auto built = json::parse(compiled.out);
    const auto& channels = built.at("channels").as_array();
    return std::count_if(channels.begin(), channels.end(), [](const auto& channel) {
      return channel.at("producer").at("partition") == "part0" &&
             channel.at("consumer").at("partition") == "part1";
    });
  };
  EXPECT_EQ(tensors_over({"--partitions", "3"}), 1);
  // If the plan may use less of each card, the model is cut inside a branch. The tensor of the other branch
  // then also passes between the cards.
  EXPECT_EQ(tensors_over({"--partitions", "3", "--max-utilisation", "0.5"}), 2);
}

std::map<std::string, std::string> cards_of(const json::value& plan) {
  std::map<std::string, std::string> out;
  for (const auto& partition : plan.at("partitions").as_array())
    for (const auto& block : partition.at("blocks").as_array())
      out[std::string(block.at("name").as_string())] = std::string(partition.at("card").as_string());
  return out;
}

TEST_F(PlanCommand, ALayerSplitOverTwoCardsGivesTheSameBytes) {
  const auto own = planned({"--split", "gemm_24=2", "--partitions", "3", "--save-plan", file("plan.yaml")});
  // Move the second part of the split layer from the first card to the second.
  std::string text = *read_text_file(file("plan.yaml"));
  const std::string second = "  - card: \"fpga1\"\n    blocks:\n", part = "      - {block: \"gemm_24_part1\"";
  ASSERT_EQ(cards_of(own)["gemm_24_part1"], "fpga0");
  text.erase(text.find(second), second.size());
  text.insert(text.find(part), second);
  std::ofstream(file("plan.yaml")) << text;
  auto card_of = cards_of(planned({"--plan", file("plan.yaml")}));
  EXPECT_EQ(card_of["gemm_24_part0"], "fpga0");
  EXPECT_EQ(card_of["gemm_24_part1"], "fpga1");
  const Outcome compiled = millrace({"compile", kModel.string(), "--cluster",
                                     (kSource / "configs/clusters/three-ku060.yaml").string(), "--plan",
                                     file("plan.yaml"), "-o", file("d"), "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  // Maps each block to its partition in the deployment.
  std::map<std::string, std::string> partition_of;
  const auto built = json::parse(compiled.out);
  for (const auto& partition : built.at("partitions").as_array())
    for (const auto& block : partition.at("blocks").as_array())
      partition_of[std::string(block.as_string())] = std::string(partition.at("name").as_string());
  ASSERT_TRUE(partition_of.contains("gemm_24_part0") && partition_of.contains("gemm_24_part1"))
      << compiled.out;
  EXPECT_NE(partition_of["gemm_24_part0"], partition_of["gemm_24_part1"]);
  const Outcome random = millrace({"verify", file("d"), "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  expect_error(plan({"--split", "gemm_24=7"}), 2, {"--split gemm_24=7", "the number of parts must divide"});
  expect_error(plan({"--split", "gemm_99=2"}), 2, {"--split gemm_99=2"});
  expect_error(plan({"--split", "gemm_24"}), 2, {"--split gemm_24", "conv_5=2"});
}

TEST_F(PlanCommand, ALayerTooLargeForOneCardIsSplitOverTwo) {
  const std::string cluster = small_cards(3);
  const Outcome compiled =
      millrace({"compile", kModel.string(), "--cluster", cluster, "-o", file("d"), "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_NE(compiled.out.find("gemm_24_part1"), std::string::npos);
  // Each cable needs 100 of a card's 4,000 LUTs, and the card in the middle has two cables.
  for (const auto& [part, luts] : {std::pair{"part0", 3900}, {"part1", 3800}, {"part2", 3900}}) {
    std::ifstream design(file("d/rtl/" + std::string(part) + "/design.json"));
    const json::value root = json::parse(std::string(std::istreambuf_iterator<char>(design), {}));
    EXPECT_EQ(root.at("available").at("lut").to_number<int>(), luts) << part;
  }
  const Outcome random = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  // If the layer's weights are in memory, the layer needs no second card, so the model needs one card less.
  streaming_cards(3);
  const Outcome streamed =
      millrace({"plan", kModel.string(), "--cluster", cluster, "--weights", "auto", "--json"});
  ASSERT_EQ(streamed.exit_code, 0) << streamed.err;
  EXPECT_EQ(json::parse(streamed.out).at("partitions").as_array().size(), 2U);
  EXPECT_TRUE(json::parse(streamed.out).at("splits").as_array().empty());
  EXPECT_NE(streamed.out.find("\"weights\":\"streamed\""), std::string::npos) << streamed.out;
  const Outcome built = millrace(
      {"compile", kModel.string(), "--cluster", cluster, "--weights", "auto", "-o", file("d"), "--quiet"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const Outcome run = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out).at("mismatches").to_number<int>(), 0);
  EXPECT_EQ(json::parse(run.out).at("cards").to_number<int>(), 2);
  // A single card is too small for all layers. The message names the model's layers, not the parts of split layers.
  expect_error(millrace({"plan", kModel.string(), "--cluster", small_cards(1), "--weights", "baked"}), 1,
               {"the cards are full before layer 'gemm_24'", "what it has too little of is BRAM18, with "});
}

/// Returns a model of fully connected layers with random weights. `widths` are the sizes of the input and of
/// each layer's output.
std::string dense_model(const std::vector<std::int64_t>& widths) {
  std::mt19937 random(7);
  OnnxModel model;
  model.input("x", {1, widths.front()});
  std::string x = model.pair("x", 0.0625F, 0, "in");
  for (std::size_t i = 1; i < widths.size(); ++i) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(widths[i - 1] * widths[i]));
    for (auto& value : values) value = static_cast<std::int64_t>(random() % 255) - 127;
    const std::string name = "dense" + std::to_string(i);
    x = model.node("Gemm", {x, model.weights(name + ".w", {widths[i], widths[i - 1]}, values, {0.0078125F})},
                   name);
    model.attribute("transB", std::int64_t{1});
    x = model.pair(x, 0.25F, 0, name + ".q");
  }
  model.output(x);
  return model.bytes();
}
TEST_F(PlanCommand, TwoLayersTooLargeForOneCardAreBothSplit) {
  std::ofstream(file("dense.onnx"), std::ios::binary) << dense_model({64, 192, 192, 192, 10});
  const std::string cluster = small_cards(6);
  const Outcome compiled = millrace({"compile", file("dense.onnx"), "--cluster", cluster, "-o", file("d"),
                                     "--target-fps", "1000", "--weights", "baked", "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  for (const char* part : {"dense2_part1", "dense3_part1"})
    EXPECT_NE(compiled.out.find(part), std::string::npos) << part;
  const Outcome random = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  // If there are too few cards, the message names the model's layers, not the parts of split layers.
  expect_error(millrace({"plan", file("dense.onnx"), "--cluster", small_cards(2), "--weights", "baked"}), 1,
               {"'dense2'"});
}

TEST_F(PlanCommand, ALayerThatLimitsTheRateIsSplitForThroughput) {
  std::ofstream(file("dense.onnx"), std::ios::binary) << dense_model({64, 128, 10});
  const std::string cluster = small_cards(2);
  const auto run = [&](const char* command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, file("dense.onnx"), "--cluster", cluster, "--replicas", "1",
                               "--max-utilisation", "dsp=0.05", "--json"});
    const Outcome outcome = millrace(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  };
  // One card has room for all layers.
  const json::value one = run("plan", {}), apart = run("plan", {"--partitions", "2"});
  EXPECT_EQ(one.at("partitions").as_array().size(), 1U);
  for (const auto& plan : {one, apart}) EXPECT_TRUE(plan.at("splits").as_array().empty());
  // The first layer has 8,192 of the model's 9,472 multiplications.
  const json::value quick = run("plan", {"--objective", "throughput"});
  ASSERT_EQ(quick.at("splits").as_array().size(), 1U) << quick;
  EXPECT_EQ(quick.at("splits").at(0).at("block").as_string(), "dense1");
  EXPECT_GT(rate(quick), 1.3 * rate(apart));
  EXPECT_GT(rate(quick), 1.3 * rate(one));
  run("compile", {"--objective", "throughput", "-o", file("d")});
  const Outcome verified = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_EQ(json::parse(verified.out).at("mismatches").to_number<int>(), 0);
}

TEST_F(PlanCommand, StreamsOnlyTheWeightsThatDoNotFitOnTheChip) {
  const std::string cluster = streaming_cards(1);
  const auto run = [&](const char* command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, kModel.string(), "--cluster", cluster, "--max-utilisation", "lut=1"});
    return millrace(more);
  };
  const auto placements = [](const json::value& plan) {
    std::map<std::string, std::string> out;
    for (const auto& block : plan.at("partitions").at(0).at("blocks").as_array())
      if (const auto* placement = block.as_object().if_contains("weights"))
        out[std::string(block.at("name").as_string())] = std::string(placement->as_string());
    return out;
  };
  const Outcome chosen =
      run("plan", {"--save-plan", file("plan.yaml"), "--html", file("plan.html"), "--json"});
  ASSERT_EQ(chosen.exit_code, 0) << chosen.err;
  const json::value plan = json::parse(chosen.out);
  // gemm_24 has 48,000 of the model's 61,470 weights; the weights of the other layers stay on the chip.
  EXPECT_EQ(placements(plan), (std::map<std::string, std::string>{{"gemm_24", "streamed"}})) << chosen.out;
  const double bytes = plan.at("partitions").at(0).at("memory_bytes").to_number<double>();
  EXPECT_GE(bytes, 48000);  // more, because a line of weights is padded to a power of two of bytes
  EXPECT_LT(bytes, 2 * 48000);
  const Outcome text = run("plan", {"--weights", "auto"});
  for (const char* words : {"weights of 'gemm_24' are streamed from memory, ", ", weights streamed"})
    EXPECT_NE(unwrapped(text.out).find(words), std::string::npos) << text.out;
  EXPECT_NE(
      read_text_file(file("plan.html"))->find("Weights of &#39;gemm_24&#39; are streamed from memory, "),
      std::string::npos);
  // The plan file contains the choice of memory for the weights, and a plan made from the file keeps this choice.
  const Outcome followed = run("plan", {"--plan", file("plan.yaml"), "--json"});
  ASSERT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_EQ(placements(json::parse(followed.out)), placements(plan));
  EXPECT_EQ(rate(json::parse(followed.out)), rate(plan));
  expect_error(run("plan", {"--plan", file("plan.yaml"), "--weights", "baked"}), 2,
               {"'gemm_24'", "its weights are baked, not streamed"});
  expect_error(run("plan", {"--weights", "baked"}), 1, {"what it has too little of is BRAM18"});

  for (const auto& more : {std::vector<std::string>{}, {"--plan", file("plan.yaml")}}) {
    std::vector<std::string> arguments = {"-o", file("d"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome compiled = run("compile", arguments);
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    const Outcome verified = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
    ASSERT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_EQ(json::parse(verified.out).at("mismatches").to_number<int>(), 0);
  }
  // Only the streamed weights are outside the FPGA image.
  EXPECT_TRUE(fs::exists(file("d/rtl/part0/gemm_30_weights.hex")));
  EXPECT_FALSE(fs::exists(file("d/rtl/part0/gemm_24_weights.hex")));
  EXPECT_FALSE(fs::is_empty(file("d/weights")));
}

TEST_F(PlanCommand, MeetsATargetByStreamingWhenSplittingWouldUseMoreCards) {
  const std::string cluster = streaming_cards(3);
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster});
    const Outcome outcome = millrace(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  using Given = std::vector<std::string>;
  const auto given = [](const json::value& plan) {
    Given out;
    const auto& names = plan.at("predicted").at("gap_given").as_array();
    for (const auto& name : names) out.emplace_back(name.as_string());
    return out;
  };
  const json::value enough = json::parse(with({"--target-fps", "500", "--json"}));
  EXPECT_EQ(enough.at("partitions").as_array().size(), 2U);
  EXPECT_TRUE(enough.at("splits").as_array().empty());
  EXPECT_EQ(given(enough), Given{"loader"});
  EXPECT_NE(unwrapped(with({"--target-fps", "500"}))
                .find("among contiguous cuts with space on every card for the unit that loads weights; "),
            std::string::npos);
  // The plan states the gap to the optimum under the restrictions with which the search ran.
  const json::value split = json::parse(with({"--json"}));
  EXPECT_EQ(split.at("partitions").as_array().size(), 3U);
  EXPECT_EQ(given(split), (Given{"weights", "splits"}));
  EXPECT_NE(unwrapped(with({})).find(
                "among contiguous cuts with all weights in the images and 'gemm_24' split in the same way; "),
            std::string::npos);
}

TEST_F(PlanCommand, ErrorNamesTheMemoryIfItsBandwidthIsTooLowForTheTargetRate) {
  const std::string cluster = streaming_cards(1);
  const auto at = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster, "--max-utilisation", "lut=1",
                               "--max-utilisation", "memory=0.005"});
    return millrace(more);
  };
  // The limit on memory bandwidth leaves 10 MB/s for streaming.
  const Outcome most = at({"--objective", "throughput", "--json"});
  ASSERT_EQ(most.exit_code, 0) << most.err;
  const json::value plan = json::parse(most.out);
  EXPECT_NE(plan.at("bottleneck").as_string().find("the memory of fpga0 limits: "), std::string::npos)
      << plan.at("bottleneck");
  EXPECT_NEAR(rate(plan), 1e7 / plan.at("partitions").at(0).at("memory_bytes").to_number<double>(), 0.01);
  expect_error(at({"--target-fps", std::to_string(rate(plan) * 1.05)}), 1, {"memory bandwidth, with "});
}

TEST_F(PlanCommand, WeightLoaderCostsResourcesOnlyIfWeightsAreLoadedOrStreamed) {
  const auto offered = [&](std::vector<std::string> more, const char* kind) {
    return planned(std::move(more), "one-ku060")
        .at("partitions")
        .at(0)
        .at("regions")
        .at(0)
        .at("available")
        .at(kind)
        .to_number<double>();
  };
  const std::vector<std::string> baked{"--weights", "baked"}, loaded{"--weights", "loaded"},
      streamed{"--weights", "streamed"};
  // In kernels/catalog.csv, a weight loader for 25 MB needs 1,361 LUTs, 296 of them as memory, and 1,729 FFs.
  // A plan may use 0.8 of a card.
  for (const auto& [kind, luts] : {std::pair{"lut", 1361}, {"lutram", 296}, {"ff", 1729}})
    for (const auto& placement : {loaded, streamed})
      EXPECT_NEAR(offered(baked, kind) - offered(placement, kind), 0.8 * luts, 0.8 * luts * 0.03) << kind;
  EXPECT_EQ(offered({}, "lut"), offered(baked, "lut"));
  // The cost of a plan that is made from a plan file also includes the weight loader.
  const auto followed = [&](const std::vector<std::string>& placement) {
    std::vector<std::string> more = placement;
    more.insert(more.end(), {"--target-fps", "5000", "--save-plan", file("plan.yaml")});
    planned(more, "one-ku060");
    more = placement;
    more.insert(more.end(), {"--plan", file("plan.yaml")});
    return offered(more, "lut");
  };
  EXPECT_EQ(followed(baked), offered(baked, "lut"));
  EXPECT_EQ(followed(loaded), offered(loaded, "lut"));
}

}  // namespace
}  // namespace millrace::tests::test_plan_layers
