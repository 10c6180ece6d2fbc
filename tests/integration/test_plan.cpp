// `millrace plan`: what it prints, what it refuses, and that `compile` builds what it says.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class PlanCommand : public ::testing::Test {
 protected:
  Outcome millrace(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), millrace_binary());
    return run_program(arguments);
  }
  Outcome plan(std::vector<std::string> more, const std::string& cluster = "three-ku060") {
    std::vector<std::string> arguments{"plan", kModel.string(), "--cluster",
                                       (kSource / "configs/clusters" / (cluster + ".yaml")).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return millrace(arguments);
  }
  json::value planned(std::vector<std::string> more, const std::string& cluster = "three-ku060") {
    more.emplace_back("--json");
    const Outcome outcome = plan(more, cluster);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  }
  static double rate(const json::value& plan) {
    return plan.at("predicted").at("frames_per_second").to_number<double>();
  }
  /// As it was before it was cut into lines.
  static std::string unwrapped(const std::string& text) {
    std::istringstream words(text);
    std::string out;
    for (std::string word; words >> word;) out += word + " ";
    return out;
  }
  static void expect_error(const Outcome& outcome, int code, const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.err << outcome.out;
    for (const auto& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
  }
  /// A cluster of cards, in a chain, that are smaller than LeNet-5's largest layer.
  std::string small_cards(int count, bool cables = true, int shell_luts = 0, int luts = 4000) const {
    fs::create_directories(directory_.path() / "devices");
    fs::create_directories(directory_.path() / "clusters");
    std::ofstream(file("devices/small.yaml"))
        << "schema: 1\npart: generic\nfamily: xcup\nclock_mhz: 100\n"
           "resources: {lut: "
        << luts
        << ", lutram: 4000, ff: 100000, dsp: 200, bram36: 8}\n"
           "shell: {lut: "
        << shell_luts
        << ", ff: 0, bram36: 0}\nlink: {lut: 100, ff: 100, bram36: 0}\n"
           "memory:\n  - {name: \"DDR[0]\", capacity_bytes: 1073741824, bandwidth_bytes_per_second: "
           "2000000000}\n"
           "connectors: 2\nsources: {part: \"made up for a test\"}\n";
    std::ofstream out(file("clusters/small.yaml"));
    out << "schema: 1\nemulated: true\ncards:\n";
    for (int i = 0; i < count; ++i) out << "  - {name: fpga" << i << ", device: small}\n";
    out << "cables:" << (cables && count > 1 ? "\n" : " []\n");
    for (int i = 0; cables && i + 1 < count; ++i)
      out << "  - {a: {card: fpga" << i << ", connector: 1}, b: {card: fpga" << i + 1
          << ", connector: 0}, gigabits_per_second: 10, latency_ns: 100}\n";
    return file("clusters/small.yaml");
  }
  /// The same with room for what loads constants: some 1,360 LUT.
  std::string streaming_cards(int count) const { return small_cards(count, true, 0, 5370); }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  const fs::path kSource = MILLRACE_SOURCE_DIR;
  const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  TemporaryDirectory directory_{"millrace-plan"};
};

TEST_F(PlanCommand, As_json_it_has_the_keys_scripts_rely_on) {
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

TEST_F(PlanCommand, On_a_terminal_page_no_line_is_longer_than_80_columns_and_none_is_coloured) {
  for (const auto& more : {std::vector<std::string>{}, {"--partitions", "3"}}) {
    const Outcome outcome = plan(more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    EXPECT_NE(outcome.out.find(" limits: "), std::string::npos) << outcome.out;
  }
}

TEST_F(PlanCommand, A_share_given_twice_is_refused_and_so_is_a_rate_beyond_reason) {
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

TEST_F(PlanCommand, Quiet_leaves_the_result_and_takes_the_progress) {
  const Outcome outcome = plan({"--quiet"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
  for (const char* part : {"frames/s", "gemm_36", " limits: "})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
}

TEST_F(PlanCommand, The_page_is_written_whole_or_an_error_says_why_not) {
  const Outcome outcome = plan({"--html", file("report.html"), "--quiet"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto page = read_text_file(file("report.html"));
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("</html>"), std::string::npos);
  EXPECT_NE(page->find("id=\"alternatives\""), std::string::npos);
  expect_error(plan({"--html", file("nowhere/report.html")}), 2,
               {"--html ", "nowhere/report.html", "a directory that is there"});
  expect_error(plan({"--html", directory_.path().string()}), 2, {"--html ", "is a directory"});
  expect_error(plan({"--html", file("report.html/")}), 2, {"--html ", "report.html/"});
  expect_error(plan({"--html", file(std::string(300, 'a'))}), 3, {"--html ", "too long"});
  expect_error(plan({"--save-plan", directory_.path().string()}), 2, {"--save-plan ", "is a directory"});
  const auto root = planned({"--alternatives"});
  EXPECT_GE(root.at("alternatives").as_array().size(), 3U);
  EXPECT_TRUE(planned({}).at("alternatives").as_array().empty());
}

TEST_F(PlanCommand, Nothing_is_written_over_what_is_read_and_no_file_is_two) {
  const fs::path copy = directory_.path() / "model.onnx";
  fs::copy_file(kModel, copy);
  const auto size = fs::file_size(copy);
  const std::string cluster = (kSource / "configs/clusters/three-ku060.yaml").string();
  for (const char* option : {"--html", "--save-plan"})
    expect_error(millrace({"plan", copy.string(), "--cluster", cluster, option, copy.string()}), 2,
                 {option, "would be written over what is read"});
  EXPECT_EQ(fs::file_size(copy), size);
  expect_error(plan({"--html", file("a"), "--save-plan", file("b/../a")}), 2, {"name the same file"});
  EXPECT_FALSE(fs::exists(file("a")));
}

TEST_F(PlanCommand, A_time_that_cannot_be_is_refused_by_its_option) {
  for (const std::string option : {"--host-time", "--max-latency"})
    for (const char* time : {"0", "-1us", "30xs", "us", "nan", "inf", "1e30s", "2e6s", "1e-30us"})
      expect_error(plan({option, time}), 2, {option + " " + time, "give a time from 1ns to 3600s"});
  expect_error(plan({"--host-time", "30us", "--no-host"}), 2, {"--no-host", "--host-time"});
  expect_error(plan({"--host", "nothing"}), 2, {"--host nothing", "it has ", "conv_5"});
}

TEST_F(PlanCommand, A_deployment_holds_its_page_and_may_be_replaced) {
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

TEST_F(PlanCommand, Compile_builds_exactly_what_it_says) {
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

TEST_F(PlanCommand, A_latency_is_kept_as_it_is_played_and_costs_nothing_where_it_is_kept_anyway) {
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
  // As the blocks add up it would be kept; as they are played it is not.
  const std::string yaml = file("plan.yaml");
  (void)planned({"--save-plan", yaml}, "one-ku060");
  expect_error(
      plan({"--plan", yaml, "--max-latency", std::to_string(latency(plain) * 0.95) + "us"}, "one-ku060"), 1,
      {"plan.yaml", "us a frame where", "(--max-latency)"});
  expect_error(plan({"--max-latency", std::to_string(latency(soonest) * 0.9) + "us"}, "one-ku060"), 1,
               {"us a frame where", "are asked for (--max-latency)"});
}

TEST_F(PlanCommand, A_plan_that_joints_made_slower_is_not_called_the_best) {
  const char* shared = std::getenv("MILLRACE_MODELS");
  const std::string model =
      std::string(shared == nullptr ? "" : shared) + "/resnet8_cifar10/resnet8_int8_qdq.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << "no MILLRACE_MODELS";
  const Outcome outcome =
      millrace({"plan", model, "--cluster", (kSource / "configs/clusters/mixed.yaml").string(),
                "--partitions", "1", "--objective", "throughput", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto predicted = json::parse(outcome.out).at("predicted");
  EXPECT_FALSE(predicted.at("exact").as_bool());
  EXPECT_GT(predicted.at("gap").to_number<double>(), 0.01);
}

/// ResNet-8's blocks need 8,192 cycles each at most; joined they need more.
TEST_F(PlanCommand, What_was_promised_of_a_net_with_branches_is_what_is_built) {
  const char* shared = std::getenv("MILLRACE_MODELS");
  const std::string model =
      std::string(shared == nullptr ? "" : shared) + "/resnet8_cifar10/resnet8_int8_qdq.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << "no MILLRACE_MODELS";
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
  // As the blocks add up both would be kept.
  expect_error(millrace({"compile", model, "--cluster", cluster, "--target-fps", "18000", "--max-latency",
                         "80us", "-o", file("e")}),
               1, {"frames/s"});
  EXPECT_FALSE(fs::exists(file("e")));
}

TEST_F(PlanCommand, A_plan_that_is_not_played_is_not_called_the_best_and_compile_plays_it) {
  OnnxModel model;  // too many pixels for plan to play
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
  EXPECT_NE(unwrapped(told.out).find("not played clock by clock: what is built may be slower"),
            std::string::npos)
      << told.out;
  const Outcome compiled = with("compile", {"--json", "-o", file("d")});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const auto built = json::parse(*read_text_file(file("d/rtl/part0/design.json"))).at("predicted");
  EXPECT_NEAR(rate(json::parse(compiled.out)) * built.at("interval_cycles").to_number<double>(), 100e6, 1);
  EXPECT_EQ(read_text_file(file("d/report.html"))->find("not played clock"), std::string::npos);
}

TEST_F(PlanCommand, A_target_out_of_reach_names_what_binds_and_what_could_be_met) {
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

TEST_F(PlanCommand, A_layer_split_over_two_cards_gives_the_same_bytes) {
  const Outcome compiled = millrace({"compile", kModel.string(), "--cluster",
                                     (kSource / "configs/clusters/three-ku060.yaml").string(), "--split",
                                     "gemm_24=2", "--partitions", "3", "-o", file("d"), "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_NE(compiled.out.find("gemm_24_part1"), std::string::npos);
  const Outcome random = millrace({"verify", file("d"), "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  expect_error(plan({"--split", "gemm_24=7"}), 2, {"--split gemm_24=7", "dealt out evenly"});
  expect_error(plan({"--split", "gemm_99=2"}), 2, {"--split gemm_99=2"});
  expect_error(plan({"--split", "gemm_24"}), 2, {"--split gemm_24", "conv_5=2"});
}

TEST_F(PlanCommand, A_layer_too_large_for_a_card_is_split_over_two_and_gives_the_same_bytes) {
  const std::string cluster = small_cards(3);
  const Outcome compiled =
      millrace({"compile", kModel.string(), "--cluster", cluster, "-o", file("d"), "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_NE(compiled.out.find("gemm_24_part1"), std::string::npos);
  // Of 4,000 LUT each cable takes 100; the card in the middle has two.
  for (const auto& [part, luts] : {std::pair{"part0", 3900}, {"part1", 3800}, {"part2", 3900}}) {
    std::ifstream design(file("d/rtl/" + std::string(part) + "/design.json"));
    const json::value root = json::parse(std::string(std::istreambuf_iterator<char>(design), {}));
    EXPECT_EQ(root.at("available").at("lut").to_number<int>(), luts) << part;
  }
  const Outcome random = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  // With its weights in memory it needs no second card for itself, and the model one less.
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
  // Alone, such a card is too small for all of them; the message is about the layers as the model has them.
  expect_error(millrace({"plan", kModel.string(), "--cluster", small_cards(1), "--weights", "baked"}), 1,
               {"the cards are full before layer 'gemm_24'", "what it has too little of is BRAM18, with "});
}

/// Fully connected layers of so many outputs each, of random weights.
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

TEST_F(PlanCommand, Two_layers_too_large_for_a_card_are_split_both_and_give_the_same_bytes) {
  std::ofstream(file("dense.onnx"), std::ios::binary) << dense_model({64, 192, 192, 192, 10});
  const std::string cluster = small_cards(6);
  const Outcome compiled = millrace({"compile", file("dense.onnx"), "--cluster", cluster, "-o", file("d"),
                                     "--target-fps", "1000", "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  for (const char* part : {"dense2_part1", "dense3_part1"})
    EXPECT_NE(compiled.out.find(part), std::string::npos) << part;
  const Outcome random = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
  ASSERT_EQ(random.exit_code, 0) << random.err;
  EXPECT_EQ(json::parse(random.out).at("mismatches").to_number<int>(), 0);
  // With fewer cards the message is about the layers as the model has them.
  expect_error(millrace({"plan", file("dense.onnx"), "--cluster", small_cards(2), "--weights", "baked"}), 1,
               {"'dense2'"});
}

TEST_F(PlanCommand, A_layer_that_fits_but_limits_is_split_for_throughput_and_gives_the_same_bytes) {
  std::ofstream(file("dense.onnx"), std::ios::binary) << dense_model({64, 128, 10});
  const std::string cluster = small_cards(2);
  const auto run = [&](const char* command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, file("dense.onnx"), "--cluster", cluster, "--replicas", "1",
                               "--max-utilisation", "dsp=0.05", "--json"});
    const Outcome outcome = millrace(more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  };
  // All of it fits a card, and each layer a card of its own.
  const json::value one = run("plan", {}), apart = run("plan", {"--partitions", "2"});
  EXPECT_EQ(one.at("partitions").as_array().size(), 1U);
  for (const auto& plan : {one, apart}) EXPECT_TRUE(plan.at("splits").as_array().empty());
  // 8,192 of its 9,472 multiplications are the first layer's.
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

TEST_F(PlanCommand, Of_a_model_too_large_for_the_card_the_layers_that_do_not_fit_are_streamed) {
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
  // 48,000 of 61,470 weights; what fits stays on the chip.
  EXPECT_EQ(placements(plan), (std::map<std::string, std::string>{{"gemm_24", "streamed"}})) << chosen.out;
  const double bytes = plan.at("partitions").at(0).at("memory_bytes").to_number<double>();
  EXPECT_GE(bytes, 48000);  // a line takes a power of two of bytes
  EXPECT_LT(bytes, 2 * 48000);
  const Outcome text = run("plan", {"--weights", "auto"});
  for (const char* words : {"weights of 'gemm_24' are streamed from memory, ", ", weights streamed"})
    EXPECT_NE(unwrapped(text.out).find(words), std::string::npos) << text.out;
  EXPECT_NE(
      read_text_file(file("plan.html"))->find("Weights of &#39;gemm_24&#39; are streamed from memory, "),
      std::string::npos);
  // The file has it too, and is followed.
  const Outcome followed = run("plan", {"--plan", file("plan.yaml"), "--json"});
  ASSERT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_EQ(placements(json::parse(followed.out)), placements(plan));
  EXPECT_EQ(rate(json::parse(followed.out)), rate(plan));
  expect_error(run("plan", {"--plan", file("plan.yaml"), "--weights", "baked"}), 1,
               {"what it has too little of is BRAM18"});

  for (const auto& more : {std::vector<std::string>{}, {"--plan", file("plan.yaml")}}) {
    std::vector<std::string> arguments = {"-o", file("d"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome compiled = run("compile", arguments);
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    const Outcome verified = millrace({"verify", file("d"), "--cluster", cluster, "--frames", "8", "--json"});
    ASSERT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_EQ(json::parse(verified.out).at("mismatches").to_number<int>(), 0);
  }
  // Only what is streamed is outside of the image.
  EXPECT_TRUE(fs::exists(file("d/rtl/part0/gemm_30_weights.hex")));
  EXPECT_FALSE(fs::exists(file("d/rtl/part0/gemm_24_weights.hex")));
  EXPECT_FALSE(fs::is_empty(file("d/weights")));
}

TEST_F(PlanCommand, A_rate_that_neither_the_chip_nor_the_memory_has_room_for_is_refused_by_the_memorys_name) {
  const std::string cluster = streaming_cards(1);
  const auto at = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster, "--max-utilisation", "lut=1",
                               "--max-utilisation", "memory=0.005"});
    return millrace(more);
  };
  // 10 MB/s.
  const Outcome most = at({"--objective", "throughput", "--json"});
  ASSERT_EQ(most.exit_code, 0) << most.err;
  const json::value plan = json::parse(most.out);
  EXPECT_NE(plan.at("bottleneck").as_string().find("the memory of fpga0 limits: "), std::string::npos)
      << plan.at("bottleneck");
  EXPECT_NEAR(rate(plan), 1e7 / plan.at("partitions").at(0).at("memory_bytes").to_number<double>(), 0.01);
  expect_error(at({"--target-fps", std::to_string(rate(plan) * 1.05)}), 1, {"memory bandwidth, with "});
}

TEST_F(PlanCommand, What_loads_constants_is_taken_from_what_a_card_offers_where_any_are_loaded) {
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
  // kernels/catalog.csv: 1,361 LUT, 296 of them memory, and 1,729 FF for 25 MB; 0.8 of a card may be used.
  for (const auto& [kind, luts] : {std::pair{"lut", 1361}, {"lutram", 296}, {"ff", 1729}})
    for (const auto& placement : {loaded, streamed})
      EXPECT_NEAR(offered(baked, kind) - offered(placement, kind), 0.8 * luts, 0.8 * luts * 0.03) << kind;
  EXPECT_EQ(offered({}, "lut"), offered(baked, "lut"));
  // By a plan's file, whoever had it made.
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

TEST_F(PlanCommand, A_rate_that_a_cable_bounds_is_predicted_and_built) {
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
  // Of a second cable one tensor has nothing.
  for (const std::string& cables : {cards, cards + second}) {
    std::ofstream(file("clusters/thin.yaml")) << cables;
    const Outcome outcome =
        millrace({"compile", kModel.string(), "--cluster", file("clusters/thin.yaml"), "--partitions", "2",
                  "--objective", "throughput", "-o", file("d"), "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    // A byte in 0.8 us; the least that passes between two layers is 84 bytes: eleven words and 40 bytes more.
    EXPECT_NEAR(rate(json::parse(outcome.out)), 0.01e9 / 8 / 128, 2);
  }
}

TEST_F(PlanCommand, The_report_says_which_average_may_differ_by_a_step) {
  OnnxModel model;
  model.input("x", {1, 4, 8, 8});
  model.node("AveragePool", {model.pair("x", 0.0625F, 0, "in")}, "mean");
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

TEST_F(PlanCommand, A_cluster_that_cannot_be_is_refused_by_what_is_wrong_with_it) {
  expect_error(plan({"--partitions", "2"}, "one-ku060"), 1, {"has 1 card", "name a larger cluster"});
  const std::string apart = small_cards(2, false);
  expect_error(millrace({"plan", kModel.string(), "--cluster", apart, "--partitions", "2"}), 1,
               {"no two cards are joined by a cable", "add cables to the cluster file"});
  std::ofstream(file("clusters/slow.yaml"))
      << "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: small}\n"
         "cables:\n  - {a: {card: a, connector: 1}, b: {card: b, connector: 0}, gigabits_per_second: 0, "
         "latency_ns: 1}\n";
  expect_error(millrace({"plan", kModel.string(), "--cluster", file("clusters/slow.yaml")}), 2,
               {"slow.yaml:7", "gigabits_per_second", "must be above 0"});
  small_cards(1, true, 5000);
  expect_error(millrace({"plan", kModel.string(), "--cluster", file("clusters/small.yaml")}), 2,
               {"small.yaml", "shell: takes more than the device has", "5000 lut of 4000"});
}

TEST_F(PlanCommand, A_device_that_is_for_plans_only_is_marked_in_every_form) {
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
  EXPECT_NE(unwrapped(text.out).find("'vck5000' is for plans only: " + why), std::string::npos) << text.out;
  EXPECT_NE(read_text_file(file("p.html"))->find("is for plans only: " + why), std::string::npos);
  EXPECT_EQ(json::parse(root.out).at("partitions").at(0).at("plan_only").as_string().find(why), 0U);
  EXPECT_TRUE(planned({}).at("partitions").at(0).at("plan_only").is_null());
}

/// A transposition in mid-net has no hardware.
TEST_F(PlanCommand, An_objective_is_obeyed_where_a_block_has_no_hardware) {
  OnnxModel model;
  model.input("x", {1, 4, 8, 8});
  std::string x = model.pair("x", 0.0625F, 0, "in");
  for (const std::string name : {"first", "second"}) {
    const std::vector<std::int64_t> ones(16, 1);
    x = model.node("Conv", {x, model.weights(name + ".w", {4, 4, 1, 1}, ones, {0.0078125F})}, name);
    x = model.pair(x, 0.0625F, 0, name + ".q");
    if (name == "second") break;
    x = model.node("Transpose", {x}, "turn");
    model.attribute("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    x = model.pair(x, 0.0625F, 0, "turn.q");
  }
  model.output(x);
  std::ofstream(file("turned.onnx"), std::ios::binary) << model.bytes();
  const std::vector<std::string> asked{"plan", file("turned.onnx"), "--cluster",
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

TEST_F(PlanCommand, The_objective_decides_what_the_rest_goes_to) {
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

TEST_F(PlanCommand, Dosas_nets_take_one_card_each_at_5000_frames_a_second) {
  const char* models = std::getenv("MILLRACE_MODELS");
  if (models == nullptr) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const std::string nine = (kSource / "configs/clusters/nine-ku060.yaml").string();
  for (const auto& [net, assumed] : {std::pair{"CERN", "int8"},
                                     {"MPCNN", "int8"},
                                     {"MPCNN", "int4"},
                                     {"TFC", "int8"},
                                     {"MNIST_int8", "int8"},
                                     {"PTTCNN_int8", "int8"}}) {
    const Outcome outcome =
        millrace({"plan", (fs::path(models) / "dosa_originals" / (std::string(net) + ".onnx")).string(),
                  "--cluster", nine, "--assume", assumed, "--target-fps", "5000", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << net << ": " << outcome.err;
    const auto root = json::parse(outcome.out);
    EXPECT_EQ(root.at("assumed").as_string(), assumed);
    EXPECT_EQ(root.at("partitions").as_array().size(), 1U) << net;
    EXPECT_GE(rate(root), 5000) << net;
  }
}

TEST_F(PlanCommand, The_same_nets_quantised_take_one_card_each_at_5000_frames_a_second_too) {
  const char* models = std::getenv("MILLRACE_MODELS");
  if (models == nullptr) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  for (const char* net : {"tfc_mnist/tfc_qdq_s8_pow2", "mpcnn_gestures/mpcnn_qdq_s8_pow2",
                          "pttdnn_cifar10/ptt_qdq_s8_pow2", "jet_hls4ml_16_64_32_32_5/jet_int8_qdq"}) {
    const Outcome outcome =
        millrace({"plan", (fs::path(models) / (std::string(net) + ".onnx")).string(), "--cluster",
                  (kSource / "configs/clusters/nine-ku060.yaml").string(), "--target-fps", "5000", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << net << ": " << outcome.err;
    const auto root = json::parse(outcome.out);
    EXPECT_TRUE(root.at("assumed").is_null()) << net;
    EXPECT_EQ(root.at("partitions").as_array().size(), 1U) << net;
    EXPECT_TRUE(root.at("predicted").at("played").as_bool()) << net;
    EXPECT_GE(rate(root), 5000) << net;
  }
}

}  // namespace
}  // namespace millrace::tests
