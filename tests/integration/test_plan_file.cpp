// Tests plan files: a saved plan must read back unchanged, and an edited plan must be checked.

#include "plan_command.hpp"

namespace millrace::tests::test_plan_file {
namespace {

TEST_F(PlanCommand, SavedPlanCanBeReusedAndAnEditedPlanIsChecked) {
  const std::string yaml = file("plan.yaml");
  const auto own = planned({"--save-plan", yaml});
  const auto again = planned({"--plan", yaml});
  EXPECT_DOUBLE_EQ(rate(again), rate(own));
  EXPECT_EQ(again.at("unedited").at("cards").to_number<int>(), 1);

  std::ifstream in(yaml);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const auto at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
    changed.replace(at, from.size(), to);
    std::ofstream(file("edited.yaml")) << changed;
    return plan({"--plan", file("edited.yaml"), "--json"});
  };
  const Outcome moved =
      edited("      - {block: \"gemm_36\"", "  - card: fpga1\n    blocks:\n      - {block: \"gemm_36\"");
  ASSERT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(json::parse(moved.out).at("partitions").as_array().size(), 2U);
  const Outcome told = plan({"--plan", file("edited.yaml"), "--html", file("edited.html")});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  for (const char* words : {"the plan file was followed; a search without the file finds 1 card, ",
                            "the plan file uses 2 cards"}) {
    EXPECT_NE(unwrapped(told.out).find(words), std::string::npos) << told.out;
    // On the page, the text begins with a capital letter, so compare `words` without its first letter.
    EXPECT_NE(read_text_file(file("edited.html"))->find(words + 1), std::string::npos);
  }
  expect_error(edited("card: \"fpga0\"", "card: fpga9"), 2, {"edited.yaml:", "no card 'fpga9'"});
  expect_error(edited("block: \"conv_5\"", "block: conv_99"), 2, {"no block 'conv_99'"});
  expect_error(edited("pe: ", "pe: 7, size: "), 2, {"size"});
  expect_error(edited("multiplier: ", "multiplier: none, memory: "), 2, {"edited.yaml:"});
  expect_error(edited("schema: 1", "schema: 7"), 2, {"schema"});
  expect_error(edited("card: \"fpga0\"", "card: fpga0\n  - card: fpga1"), 2, {"edited.yaml"});
}

/// Returns a plan's JSON without the fields that say how the plan was found.
json::object figures(const json::value& plan) {
  json::object out = plan.as_object();
  for (const char* key :
       {"objective", "targets", "unedited", "exploration_ms", "prediction_ms", "steps", "energy"})
    out.erase(key);
  for (const char* key : {"gap", "gap_given", "exact"}) out["predicted"].as_object().erase(key);
  return out;
}

TEST_F(PlanCommand, SplitsAndHostBlocksAreSavedInThePlanFileAndRestored) {
  const std::string yaml = file("plan.yaml");
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"--split", "gemm_24=2", "--partitions", "3"},
        {"--host", "maxpool_9", "--target-fps", "1000"},
        {"--split", "gemm_24=3", "--host", "gemm_24_part1", "--objective", "throughput"}}) {
    std::vector<std::string> more = asked;
    more.insert(more.end(), {"--save-plan", yaml});
    const auto own = planned(more);
    EXPECT_EQ(figures(planned({"--plan", yaml, "--save-plan", file("again.yaml")})), figures(own))
        << asked[0];
    EXPECT_EQ(*read_text_file(file("again.yaml")), *read_text_file(yaml));
  }
  // Options given with a plan file may repeat its choices but not contradict them.
  EXPECT_EQ(plan({"--plan", yaml, "--split", "gemm_24=3", "--host", "gemm_24_part1"}).exit_code, 0);
  const auto part = planned({"--plan", yaml, "--host", "gemm_24_part1"});
  EXPECT_TRUE(part.at("unedited").is_null());  // a search does not know this part of a split layer
  EXPECT_EQ(part.at("splits").as_array().size(), 1U);
  expect_error(plan({"--plan", yaml, "--host", "gemm_24_part7"}), 2,
               {"--host gemm_24_part7", "edit its 'host'"});
  expect_error(plan({"--plan", yaml, "--split", "gemm_24=2"}), 2, {"--split gemm_24=2", "edit its 'splits'"});
  expect_error(plan({"--plan", yaml, "--host", "gemm_30"}), 2, {"--host gemm_30", "edit its 'host'"});
}

TEST_F(PlanCommand, FollowsAPlanFileWithASplitThatMakesTheModelFit) {
  const std::string cluster = small_cards(3);
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster, "--json"});
    const Outcome outcome = millrace(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  };
  const auto own = with({"--save-plan", file("plan.yaml")});
  ASSERT_EQ(own.at("splits").as_array().size(), 1U);
  const auto followed = with({"--plan", file("plan.yaml")});
  EXPECT_EQ(figures(followed), figures(own));
  EXPECT_EQ(followed.at("unedited").at("cards").to_number<int>(), 3);
}

TEST_F(PlanCommand, FollowsAPlanFileEvenIfTheSearchFindsNoPlan) {
  // The host block is between two partitions on cards. Each of the two partitions needs a shell (the logic
  // that connects layers to the host).
  const std::string cluster = small_cards(1, true, 0, 9000), yaml = file("plan.yaml");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster, "--weights", "baked"});
    return millrace(more);
  };
  expect_error(with({}), 1, {"gemm_24"});
  const Outcome own = with({"--host", "gemm_24", "--save-plan", yaml, "--json"});
  ASSERT_EQ(own.exit_code, 0) << own.err;
  const Outcome followed = with({"--plan", yaml, "--json"});
  ASSERT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_EQ(figures(json::parse(followed.out)), figures(json::parse(own.out)));
  EXPECT_TRUE(json::parse(followed.out).at("unedited").is_null());
  const Outcome text = with({"--plan", yaml});
  for (const char* words :
       {"as the plan file has it", "the plan file was followed; a search without the file finds no plan"})
    EXPECT_NE(unwrapped(text.out).find(words), std::string::npos) << text.out;
}

TEST_F(PlanCommand, APlanFileOfAFloatModelRequiresTheSameAssumedTypes) {
  if (shared_models().empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", (shared_models() / "dosa_originals/TFC.onnx").string(), "--cluster",
                               (kSource / "configs/clusters/one-ku060.yaml").string()});
    return millrace(more);
  };
  const std::string yaml = file("plan.yaml");
  ASSERT_EQ(with({"--assume", "int8", "--save-plan", yaml}).exit_code, 0);
  EXPECT_NE(read_text_file(yaml)->find("assumed: \"int8\"\n"), std::string::npos);
  EXPECT_EQ(with({"--assume", "int8", "--plan", yaml}).exit_code, 0);
  expect_error(with({"--assume", "int4", "--plan", yaml}), 2,
               {"plan.yaml:4", "assumed", "'int8' differs from the command line: --assume int4"});
  ASSERT_EQ(plan({"--save-plan", file("own.yaml")}).exit_code, 0);
  std::string own = *read_text_file(file("own.yaml"));
  std::ofstream(file("marked.yaml")) << own.insert(own.find("cluster:"), "assumed: int8\n");
  expect_error(plan({"--plan", file("marked.yaml")}), 2,
               {"'int8' differs from the command line: no --assume"});
}

/// Each cable between two cards costs the hardware of one link, even if one cable would suffice.
TEST_F(PlanCommand, EachCableBetweenTwoCardsCostsTheHardwareOfOneLink) {
  const auto luts = [&](int cables) {
    const std::string cluster = small_cards(2, true, 0, 30000);
    if (cables == 2)
      std::ofstream(cluster, std::ios::app)
          << "  - {name: second, a: {card: fpga0, connector: 0}, b: {card: fpga1, connector: 1}, "
             "gigabits_per_second: 10, latency_ns: 100}\n";
    const Outcome outcome =
        millrace({"plan", kModel.string(), "--cluster", cluster, "--partitions", "2", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto part = json::parse(outcome.out).at("partitions").at(1);
    EXPECT_TRUE(json::parse(outcome.out).at("predicted").at("played").as_bool());
    return std::pair(part.at("blocks"), part.at("regions").at(0).at("used").at("lut").to_number<int>());
  };
  const auto one = luts(1), two = luts(2);
  ASSERT_EQ(one.first, two.first);
  EXPECT_EQ(two.second, one.second + 100);
}

TEST_F(PlanCommand, ErrorNamesTheLineOfAnImpossibleSplitOrHostBlockInThePlanFile) {
  (void)planned({"--split", "gemm_24=2", "--save-plan", file("plan.yaml")});
  const std::string own = *read_text_file(file("plan.yaml"));
  const auto with = [&](const std::string& splits, const std::string& host = "") {
    std::string text = own;
    const std::string was = "splits:\n  - {block: \"gemm_24\", parts: 2}\n";
    const auto at = text.find(was);
    EXPECT_NE(at, std::string::npos) << text;
    text.replace(at, was.size(), splits + host);
    std::ofstream(file("edited.yaml")) << text;
    return plan({"--plan", file("edited.yaml")});
  };
  const std::string kept = "splits:\n  - {block: gemm_24, parts: 2}\n";
  EXPECT_EQ(with(kept).exit_code, 0);
  expect_error(with(""), 2, {"edited.yaml:", "the model has no block 'gemm_24_part0'"});
  expect_error(with("splits:\n  - {block: gemm_99, parts: 2}\n"), 2,
               {"edited.yaml:6", "the model has no block 'gemm_99'"});
  expect_error(with("splits:\n  - {block: gemm_24, parts: 7}\n"), 2,
               {"edited.yaml:6", "'gemm_24'", "cannot be split into 7 parts"});
  expect_error(with("splits:\n  - {block: gemm_24, parts: 1}\n"), 2,
               {"edited.yaml:6", "parts", "2 to 64 are allowed"});
  expect_error(with("splits:\n  - {block: gemm_24, parts: 2, pe: 1}\n"), 2, {"edited.yaml:6", "pe"});
  expect_error(with(kept + "  - {block: gemm_24, parts: 2}\n"), 2,
               {"edited.yaml:7", "'gemm_24' is split twice"});
  expect_error(with(kept, "host: [gemm_24]\n"), 2, {"edited.yaml:7", "no block 'gemm_24'", "it is split"});
  expect_error(with(kept, "host:\n  - nothing\n"), 2, {"edited.yaml:8", "no block 'nothing'"});
  expect_error(with(kept, "host: [conv_5, conv_5]\n"), 2, {"edited.yaml:7", "'conv_5' is listed twice"});
  expect_error(with(kept, "host:\n  - {block: conv_5}\n"), 2, {"edited.yaml:8", "names of blocks"});
  expect_error(with(kept, "host: [conv_5]\n"), 2, {"edited.yaml:", "'conv_5' runs on the host"});
}

TEST_F(PlanCommand, RefusesAPlanFileThatDoesNotFitOnceFifosAndForksAreAdded) {
  const std::string cluster = (kSource / "configs/clusters/one-ku060.yaml").string(),
                    yaml = file("plan.yaml");
  const auto own = planned({"--save-plan", yaml}, "one-ku060");
  const auto& region = own.at("partitions").at(0).at("regions").at(0);
  const auto of = [&](const char* what) { return region.at(what).at("lut").to_number<double>(); };
  // By default, a plan may use 80 % of a card. The blocks alone, without the FIFOs and forks between them, need 3 %
  // less than the whole plan.
  const double most = 0.8 * of("used") / of("available");
  for (const auto& [share, fits] : {std::pair{most * 1.001, true}, {most * 0.99, false}})
    for (const char* command : {"plan", "compile"}) {
      std::vector<std::string> arguments{command,
                                         kModel.string(),
                                         "--cluster",
                                         cluster,
                                         "--plan",
                                         yaml,
                                         "--quiet",
                                         "--max-utilisation",
                                         "lut=" + std::to_string(share)};
      if (std::string(command) == "compile") arguments.insert(arguments.end(), {"-o", file("d")});
      const Outcome outcome = millrace(arguments);
      if (fits)
        EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      else
        expect_error(outcome, 1,
                     {"plan.yaml: put together, it does not fit", "card 'fpga0', region 'all': ",
                      std::to_string(static_cast<int>(of("used"))) + " LUT are needed"});
    }
}

TEST_F(PlanCommand, PlanFileCanChooseWhereASingleLayerStoresItsWeights) {
  const std::string cluster = (kSource / "configs/clusters/one-ku060.yaml").string();
  ASSERT_EQ(
      plan({"--target-fps", "20000", "--save-plan", file("plan.yaml"), "--quiet"}, "one-ku060").exit_code, 0);
  const std::string own = *read_text_file(file("plan.yaml"));
  const auto with = [&](const std::string& block, const std::string& placement) {
    std::string text = own;
    const std::size_t line = text.find("\"" + block + "\"");
    text.replace(text.find("weights: baked", line), 14, "weights: " + placement);
    std::ofstream(file("plan.yaml")) << text;
  };
  with("gemm_30", "loaded");
  const Outcome compiled = millrace({"compile", kModel.string(), "--cluster", cluster, "--plan",
                                     file("plan.yaml"), "-o", file("d"), "--quiet"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_EQ(millrace({"verify", file("d"), "--frames", "8"}).exit_code, 0);
  const auto luts = [](const json::value& plan) {
    return plan.at("partitions").at(0).at("regions").at(0).at("available").at("lut").to_number<double>();
  };
  EXPECT_GT(luts(planned({"--target-fps", "20000"}, "one-ku060")),
            luts(planned({"--plan", file("plan.yaml")}, "one-ku060")) + 1000)
      << "the loader's cost is missing";
  expect_error(plan({"--plan", file("plan.yaml"), "--weights", "baked"}, "one-ku060"), 2,
               {"'gemm_30'", "its weights are baked, not loaded"});
  with("maxpool_9", "streamed");
  expect_error(plan({"--plan", file("plan.yaml")}, "one-ku060"), 2,
               {"'maxpool_9'", "cannot be streamed for this block alone"});
}

}  // namespace
}  // namespace millrace::tests::test_plan_file
