// Tests the output of `millrace plan` and the requests that the command refuses.

#include "onnx_model.hpp"
#include "plan_command.hpp"

namespace millrace::tests::test_plan {
namespace {

TEST_F(PlanCommand, JsonHasTheKeysThatScriptsRelyOn) {
  const auto root = planned({"--target-fps", "5000"});
  EXPECT_EQ(root.at("schema").as_int64(), 1);
  EXPECT_EQ(root.at("kind").as_string(), "plan");
  EXPECT_GE(rate(root), 5000);
  EXPECT_GT(root.at("predicted").at("latency_us").to_number<double>(), 0);
  EXPECT_GT(root.at("exploration_ms").to_number<double>(), 0);
  ASSERT_EQ(root.at("partitions").as_array().size(), 1U);
  const auto& region = root.at("partitions").at(0).at("regions").at(0);
  for (const char* kind : {"lut", "lutram", "ff", "dsp", "bram18", "uram"})
    EXPECT_LE(region.at("used").at(kind).to_number<double>(),
              region.at("available").at(kind).to_number<double>())
        << kind;
  EXPECT_EQ(root.at("partitions").at(0).at("blocks").as_array().size(), 7U);
  EXPECT_TRUE(root.at("assumed").is_null());
  EXPECT_FALSE(root.at("bottleneck").as_string().empty());
}

TEST_F(PlanCommand, TerminalOutputKeepsTo80ColumnsWithoutColours) {
  for (const auto& more :
       {std::vector<std::string>{}, {"--partitions", "3", "--comm", "--load", "50%,200%"}}) {
    const Outcome outcome = plan(more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    EXPECT_NE(outcome.out.find(" limits: "), std::string::npos) << outcome.out;
  }
}

TEST_F(PlanCommand, OptionCommListsEveryMessageAndTheLoadOfTheCables) {
  EXPECT_FALSE(planned({"--partitions", "3"}).as_object().contains("communication"));
  const auto root = planned({"--partitions", "3", "--comm"});
  const auto& communication = root.at("communication");
  EXPECT_TRUE(communication.at("fault").is_null());
  // LeNet-5 is cut between its fully connected layers, which have 120, 84 and 10 results.
  std::map<std::string, std::int64_t> bytes;
  for (const auto& message : communication.at("messages").as_array())
    if (message.at("between_cards").as_bool()) {
      bytes[std::string(message.at("from_card").as_string()) + ">" +
            std::string(message.at("to_card").as_string())] = message.at("bytes").to_number<std::int64_t>();
      EXPECT_EQ(message.at("packets").to_number<int>(), 1);
      EXPECT_EQ(message.at("credits").to_number<int>(), 2);  // for two frames
      EXPECT_EQ(message.at("buffer_bytes"), 2 * message.at("bytes").to_number<std::int64_t>());
    }
  EXPECT_EQ(bytes, (std::map<std::string, std::int64_t>{{"fpga0>fpga1", 120}, {"fpga1>fpga2", 84}}));
  // A packet has a header of 32 bytes, a payload in words of 8 bytes, and a CRC of 8 bytes.
  const auto& loads = communication.at("loads").as_array();
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(loads[0].at("wire_bytes"), 32 + 120 + 8);
  EXPECT_EQ(loads[1].at("wire_bytes"), 32 + 88 + 8);
  EXPECT_NEAR(loads[0].at("gigabits_per_second").to_number<double>(), rate(root) * 160 * 8e-9, 1e-9);
  const Outcome text = plan({"--partitions", "3", "--comm"});
  EXPECT_NE(text.out.find("no deadlock: "), std::string::npos) << text.out;
}

TEST_F(PlanCommand, OptionLoadPrintsTheSustainedRateAndTheLatenciesWithQueueing) {
  EXPECT_FALSE(planned({"--partitions", "3"}).as_object().contains("load"));
  const auto root = planned({"--partitions", "3", "--load", "1%,90%", "--load", "1e9"});
  const auto& load = root.at("load");
  const auto number = [](const json::value& value) { return value.to_number<double>(); };
  EXPECT_NEAR(number(load.at("sustained_frames_per_second")), rate(root), 0.01 * rate(root));
  EXPECT_EQ(load.at("bottleneck"), "part0 on fpga0");
  const auto& runs = load.at("runs").as_array();
  ASSERT_EQ(runs.size(), 3U);
  const double alone = number(root.at("predicted").at("latency_us"));
  EXPECT_NEAR(number(runs[0].at("latency_us").at("p50")), alone, 0.001 * alone);
  EXPECT_GT(number(runs[1].at("latency_us").at("p99")), 1.5 * alone);
  EXPECT_TRUE(runs[1].at("keeps_up").as_bool());
  EXPECT_FALSE(runs[2].at("keeps_up").as_bool());
  EXPECT_TRUE(runs[2].at("latency_us").at("p50").is_null());
  const Outcome text = plan({"--partitions", "3", "--load", "60%"});
  EXPECT_NE(text.out.find("limited by part0 on fpga0"), std::string::npos) << text.out;
  for (const char* wrong : {"0", "-5", "60 %", "x", "1e13", "nan"})
    expect_error(plan({"--load", wrong}), 2, {"--load " + std::string(wrong), "such as 20000 or 60%"});
}

TEST_F(PlanCommand, RefusesADuplicateMaxUtilisationAndAnImpossibleFrameRate) {
  expect_error(plan({"--max-utilisation", "dsp=0.5", "--max-utilisation", "dsp=0.6"}), 2,
               {"--max-utilisation dsp=0.6", "dsp was given before"});
  expect_error(plan({"--max-utilisation", "0.5", "--max-utilisation", "0.5"}), 2,
               {"--max-utilisation 0.5", "the share of all kinds was given before"});
  expect_error(plan({"--target-fps", "1e300"}), 2, {"--target-fps", "at most 1e12"});
  const auto one = plan({"--max-utilisation", "0.7", "--max-utilisation", "lut=0.05", "--json"});
  const auto other = plan({"--max-utilisation", "lut=0.05", "--max-utilisation", "0.7", "--json"});
  const auto all = plan({"--max-utilisation", "0.7", "--json"});
  ASSERT_EQ(one.exit_code + other.exit_code + all.exit_code, 0) << one.err << other.err << all.err;
  const auto rate = [](const Outcome& outcome) {
    return json::parse(outcome.out).at("predicted").at("frames_per_second").to_number<double>();
  };
  EXPECT_EQ(rate(one), rate(other));
  EXPECT_LT(rate(one), rate(all));
}

TEST_F(PlanCommand, OptionQuietPrintsTheResultButNoProgress) {
  const Outcome outcome = plan({"--quiet"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
  for (const char* part : {"frames/s", "gemm_36", " limits: "})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
}

TEST_F(PlanCommand, WritesTheHtmlReportOrReportsWhyWritingFailed) {
  const Outcome outcome = plan({"--html", file("report.html"), "--quiet"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto page = read_text_file(file("report.html"));
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("</html>"), std::string::npos);
  EXPECT_NE(page->find("id=\"alternatives\""), std::string::npos);
  expect_error(plan({"--html", file("nowhere/report.html")}), 2,
               {"--html ", "nowhere/report.html", "an existing directory"});
  expect_error(plan({"--html", directory_.path().string()}), 2, {"--html ", "is a directory"});
  expect_error(plan({"--html", file("report.html/")}), 2, {"--html ", "report.html/"});
  expect_error(plan({"--html", file(std::string(300, 'a'))}), 3, {"--html ", "too long"});
  expect_error(plan({"--save-plan", directory_.path().string()}), 2, {"--save-plan ", "is a directory"});
  const auto root = planned({"--alternatives"});
  EXPECT_GE(root.at("alternatives").as_array().size(), 3U);
  EXPECT_TRUE(planned({}).at("alternatives").as_array().empty());
}

TEST_F(PlanCommand, RefusesToOverwriteItsInputsOrToWriteOneFileTwice) {
  const fs::path copy = directory_.path() / "model.onnx";
  fs::copy_file(kModel, copy);
  const auto size = fs::file_size(copy);
  const std::string cluster = (kSource / "configs/clusters/three-ku060.yaml").string();
  for (const char* option : {"--html", "--save-plan"})
    expect_error(millrace({"plan", copy.string(), "--cluster", cluster, option, copy.string()}), 2,
                 {option, "is an input file, which would be overwritten"});
  EXPECT_EQ(fs::file_size(copy), size);
  expect_error(plan({"--html", file("a"), "--save-plan", file("b/../a")}), 2, {"name the same file"});
  EXPECT_FALSE(fs::exists(file("a")));
}

TEST_F(PlanCommand, RefusesImpossibleTimeValuesAndNamesTheOption) {
  for (const std::string option : {"--host-time", "--max-latency"})
    for (const char* time : {"0", "-1us", "30xs", "us", "nan", "inf", "1e30s", "2e6s", "1e-30us"})
      expect_error(plan({option, time}), 2, {option + " " + time, "give a time from 1ns to 3600s"});
  expect_error(plan({"--host-time", "30us", "--no-host"}), 2, {"--no-host", "--host-time"});
  expect_error(plan({"--host", "nothing"}), 2, {"--host nothing", "it has ", "conv_5"});
}

TEST_F(PlanCommand, CompileReplacesADeploymentUnlessItContainsForeignFiles) {
  const std::vector<std::string> compile{
      "compile",   kModel.string(),
      "--cluster", (kSource / "configs/clusters/three-ku060.yaml").string(),
      "--quiet",   "-o",
      file("d")};
  ASSERT_EQ(millrace(compile).exit_code, 0);
  const auto first = read_text_file(file("d/report.html"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->find("Explored in"), std::string::npos);
  const Outcome again = millrace(compile);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(*read_text_file(file("d/report.html")), *first);
  std::ofstream(file("d/notes.html")) << "mine";
  expect_error(millrace(compile), 2, {"notes.html"});
}

TEST_F(PlanCommand, UnreachableTargetErrorNamesTheLimitAndTheBestPossibleRate) {
  expect_error(plan({"--target-fps", "500000"}, "one-ku060"), 1,
               {"it would fit on 2 cards of 'ku060' as 2 replicas"});
  expect_error(plan({"--target-fps", "50000000"}, "one-ku060"), 1,
               {"layer '", "this cluster reaches", "frames/s"});
  expect_error(plan({"--max-latency", "10ns"}, "one-ku060"), 1, {"the least latency found is"});
  expect_error(plan({"--target-fps", "-1"}), 2, {"--target-fps must be above 0"});
  expect_error(plan({"--max-latency", "soon"}), 2, {"--max-latency soon", "500us"});
  expect_error(plan({"--max-utilisation", "dsp=2"}), 2, {"--max-utilisation dsp=2"});
  expect_error(plan({"--max-utilisation", "gold=0.5"}), 2, {"the kinds are lut"});
  expect_error(plan({"--objective", "fun"}), 2, {"--objective"});
  expect_error(plan({"--assume", "int8"}), 2, {"is quantised already"});
  expect_error(plan({"--assume", "int99"}), 2, {"int2 to int8"});
}

TEST_F(PlanCommand, ReportSaysThatAnAveragePoolMayDifferByOneQuantisationStep) {
  OnnxModel model;
  model.input("x", {1, 4, 8, 8});
  model.node("AveragePool", {model.pair("x", 0.1F, 0, "in")}, "mean");
  model.attribute("kernel_shape", std::vector<std::int64_t>{3, 3});
  model.output(model.pair("mean", 0.0625F, 0, "out"));
  std::ofstream(file("mean.onnx"), std::ios::binary) << model.bytes();
  const Outcome compiled =
      millrace({"compile", file("mean.onnx"), "--cluster",
                (kSource / "configs/clusters/one-ku060.yaml").string(), "-o", file("d"), "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const json::value root = json::parse(compiled.out);
  ASSERT_EQ(root.at("notes").as_array().size(), 1U);
  const std::string note(root.at("notes").at(0).as_string());
  EXPECT_EQ(note.substr(0, 6), "mean: ") << note;
  EXPECT_NE(note.find("may differ by one step"), std::string::npos) << note;
  std::ifstream page(file("d/report.html"));
  const std::string html(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(html.find("Noted: " + note), std::string::npos);
}

TEST_F(PlanCommand, UsesNoMoreCardsThanNeededWhenTheHostLimitsTheRate) {
  const std::vector<std::string> asked{"--host", "maxpool_9", "--objective", "throughput", "--alternatives"};
  const auto root = planned(asked, "nine-ku060");
  ASSERT_EQ(root.at("bottleneck").as_string().find("the host limits"), 0U);
  EXPECT_EQ(root.at("replicas").as_array().size(), 1U);
  EXPECT_EQ(root.at("partitions").as_array().size(), 2U);
  EXPECT_EQ(root.at("predicted").at("gap").to_number<double>(), 0);
  EXPECT_TRUE(root.at("predicted").at("exact").as_bool());
  for (const auto& way : root.at("alternatives").as_array()) {
    const auto frames = way.at("frames_per_second").to_number<double>();
    EXPECT_LE(frames, rate(root) * (1 + 1e-9)) << way;
    EXPECT_TRUE(way.at("cards").to_number<int>() > 1 || frames < rate(root)) << way;
  }
}

TEST_F(PlanCommand, RefusesAnUnusableClusterAndNamesTheMistake) {
  expect_error(plan({"--partitions", "2"}, "one-ku060"), 1, {"has 1 card", "name a larger cluster"});
  const std::string apart = small_cards(2, false);
  expect_error(millrace({"plan", kModel.string(), "--cluster", apart, "--partitions", "2"}), 1,
               {"no two cards are joined by a cable", "add cables to the cluster file"});
  // With cables, three cards would have room for the model: with whole layers if a card has 5,000 LUTs, with
  // a split layer if it has 4,000. No single card has room for the model.
  const auto apart_of = [&](int luts) {
    return millrace({"plan", kModel.string(), "--cluster", small_cards(3, false, 0, luts)});
  };
  for (const int luts : {4000, 5000})
    expect_error(apart_of(luts), 1,
                 {"no two of its 3 cards are joined by a cable, and ", "add cables to the cluster file"});
  expect_error(millrace({"plan", kModel.string(), "--cluster", small_cards(8, false, 0, 5000)}), 1,
               {"no two of its 8 cards are joined by a cable, and 3 connected cards would be enough"});
  expect_error(apart_of(500), 1, {"layer 'conv_5' needs"});
  EXPECT_EQ(apart_of(500).err.find("add cables"), std::string::npos);
  std::ofstream(file("clusters/slow.yaml"))
      << "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: small}\n"
         "cables:\n  - {a: {card: a, connector: 1}, b: {card: b, connector: 0}, gigabits_per_second: 0, "
         "latency_ns: 1}\n";
  expect_error(millrace({"plan", kModel.string(), "--cluster", file("clusters/slow.yaml")}), 2,
               {"slow.yaml:7", "gigabits_per_second", "must be above 0"});
  small_cards(1, true, 5000);
  expect_error(millrace({"plan", kModel.string(), "--cluster", file("clusters/small.yaml")}), 2,
               {"small.yaml", "shell: takes more than the device has", "11000 lut of 10000"});
}

TEST_F(PlanCommand, SaysInTextHtmlAndJsonThatADeviceIsForPlanningOnly) {
  fs::create_directories(directory_.path() / "clusters");
  fs::copy(kSource / "configs/devices", directory_.path() / "devices");
  std::ofstream(file("clusters/versal.yaml"))
      << "schema: 1\nemulated: true\ncards:\n  - {name: fpga0, device: vck5000}\n";
  const std::vector<std::string> asked{"plan", kModel.string(), "--cluster", file("clusters/versal.yaml")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), asked.begin(), asked.end());
    return millrace(more);
  };
  const std::string why = "costs are not calibrated for Versal";
  const Outcome text = with({"--html", file("p.html")}), root = with({"--json"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  ASSERT_EQ(root.exit_code, 0) << root.err;
  EXPECT_NE(unwrapped(text.out).find("'vck5000' can only be used for plans: " + why), std::string::npos)
      << text.out;
  EXPECT_NE(read_text_file(file("p.html"))->find("can only be used for plans: " + why), std::string::npos);
  EXPECT_EQ(json::parse(root.out).at("partitions").at(0).at("plan_only").as_string().find(why), 0U);
  EXPECT_TRUE(planned({}).at("partitions").at(0).at("plan_only").is_null());
}

}  // namespace
}  // namespace millrace::tests::test_plan
