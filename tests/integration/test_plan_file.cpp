// Plan files: what is saved is what is read back, and an edit is judged.

#include "plan_command.hpp"

namespace millrace::tests {
namespace {

TEST_F(PlanCommand, A_saved_plan_reads_back_and_an_edit_is_judged) {
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
  for (const char* words :
       {"the plan file was followed; a search finds 1 card, ", "the file takes 2 cards"}) {
    EXPECT_NE(unwrapped(told.out).find(words), std::string::npos) << told.out;
    EXPECT_NE(read_text_file(file("edited.html"))->find(words), std::string::npos);
  }
  expect_error(edited("card: \"fpga0\"", "card: fpga9"), 2, {"edited.yaml:", "no card 'fpga9'"});
  expect_error(edited("block: \"conv_5\"", "block: conv_99"), 2, {"no block 'conv_99'"});
  expect_error(edited("pe: ", "pe: 7, size: "), 2, {"size"});
  expect_error(edited("multiplier: ", "multiplier: none, memory: "), 2, {"edited.yaml:"});
  expect_error(edited("schema: 1", "schema: 7"), 2, {"schema"});
  expect_error(edited("card: \"fpga0\"", "card: fpga0\n  - card: fpga1"), 2, {"edited.yaml"});
}

TEST_F(PlanCommand, A_plan_file_may_place_the_weights_of_one_layer) {
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
      << "what loads it is not reckoned with";
  expect_error(plan({"--plan", file("plan.yaml"), "--weights", "baked"}, "one-ku060"), 2,
               {"'gemm_30'", "its weights are baked, not loaded"});
  with("maxpool_9", "streamed");
  expect_error(plan({"--plan", file("plan.yaml")}, "one-ku060"), 2,
               {"'maxpool_9'", "cannot be streamed alone"});
}

}  // namespace
}  // namespace millrace::tests
