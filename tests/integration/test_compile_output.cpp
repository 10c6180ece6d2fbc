// Tests what `millrace compile` and `millrace inspect` print: the JSON keys that scripts rely on, and the
// table for people.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests::test_compile_output {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class CompileOutput : public ::testing::Test {
 protected:
  Outcome compile(std::vector<std::string> more) {
    std::vector<std::string> command{
        millrace_binary(),
        "compile",
        (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(),
        "--cluster",
        (kSource / "configs/clusters/three-ku060.yaml").string(),
        "-o",
        target_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  Outcome inspect(const fs::path& what, bool as_json) {
    std::vector<std::string> command{millrace_binary(), "inspect", what.string()};
    if (as_json) command.emplace_back("--json");
    return run_program(command);
  }
  static std::int64_t sum(const json::value& partitions, const char* key) {
    std::int64_t total = 0;
    for (const auto& partition : partitions.as_array()) total += partition.at(key).to_number<std::int64_t>();
    return total;
  }
  static void expect(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  const fs::path kSource = tests::source_dir();
  TemporaryDirectory directory_{"millrace-compile-output"};
  fs::path target_ = directory_.path() / "net";
};

TEST_F(CompileOutput, JsonHasTheKeysThatScriptsRelyOn) {
  const Outcome outcome = compile({"--json", "--name", "digits", "--partitions", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value root = json::parse(outcome.out);
  EXPECT_EQ(root.at("schema").as_int64(), 1);
  EXPECT_EQ(root.at("model").at("name").as_string(), "digits");
  EXPECT_EQ(root.at("model").at("labels").as_array().size(), 10U);
  EXPECT_GE(root.at("exploration_ms").to_number<double>(), 0);
  EXPECT_GT(root.at("total_ms").to_number<double>(), 0);
  EXPECT_GT(root.at("steps").as_array().size(), 5U);
  const auto& partitions = root.at("partitions");
  ASSERT_EQ(partitions.as_array().size(), 4U);  // the input, two cards and the output
  EXPECT_EQ(sum(partitions, "layers"), 5);
  EXPECT_EQ(sum(partitions, "weight_bytes"), 61470);  // the number of LeNet-5's weights in the MANIFEST
  EXPECT_EQ(sum(partitions, "multiply_accumulates"), 416520);
  EXPECT_EQ(root.at("images").as_array().size(), 2U);
}

TEST_F(CompileOutput, StatesTheAccumulatorWidthOfEachLayer) {
  const Outcome outcome = compile({"--json", "--partitions", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value root = json::parse(outcome.out);
  std::string table = inspect(target_, false).out;
  std::size_t layers = 0;
  for (const auto& partition : root.at("partitions").as_array())
    for (const auto& accumulator : partition.at("accumulators").as_array()) {
      ++layers;
      const std::string block(accumulator.at("block").as_string()), type(accumulator.at("type").as_string());
      ASSERT_EQ(type.substr(0, 3), "int") << type;
      // A sum of 400 products of 8-bit values, the most in LeNet-5, needs at most 25 bits, whatever the weights are.
      EXPECT_GT(std::stoi(type.substr(3)), 10) << block;
      EXPECT_LE(std::stoi(type.substr(3)), 25) << block;
      // The accumulators in the generated hardware must have the width that the report states.
      std::ifstream file(target_ / "rtl" / std::string(partition.at("name").as_string()) / "design.json");
      const json::value design = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
      std::size_t units = 0;
      for (const auto& instance : design.at("instances").as_array()) {
        if (instance.at("block").as_string() != block || instance.at("module").as_string() != "mr_mvu")
          continue;
        ++units;
        EXPECT_EQ("int" + std::to_string(instance.at("parameters").at("ACCBITS").to_number<int>()), type)
            << block;
      }
      EXPECT_GT(units, 0U) << block;
      EXPECT_NE(table.find("  " + block + " "), std::string::npos) << table;
      EXPECT_NE(table.find(type + "\n"), std::string::npos) << table;
    }
  EXPECT_EQ(layers, 5U);
}

TEST_F(CompileOutput, CompileAndInspectDescribeTheSameDeployment) {
  const Outcome compiled = compile({"--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const Outcome inspected = inspect(target_, true);
  ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
  const json::value a = json::parse(compiled.out), b = json::parse(inspected.out);
  for (const char* key : {"digest", "model", "partitions", "channels", "images"})
    EXPECT_EQ(a.at(key), b.at(key)) << key;
}

TEST_F(CompileOutput, TerminalTableShowsTheContentsOfEachCard) {
  const Outcome outcome = compile({"--partitions", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"model lenet5_qdq_s8_pow2", "part2", "card2", "gemm_36", "aurora", "predicted", " limits: ", "wrote"})
    expect(outcome.out, part);
  expect(inspect(target_, false).out, "all checksums hold");
}

TEST_F(CompileOutput, QuietOptionPrintsOnlyTheLineThatNamesTheOutput) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--variants", "2"}}) {
    fs::remove_all(target_);
    std::vector<std::string> words{"--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = compile(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.empty()) << outcome.err;
    EXPECT_TRUE(outcome.out.starts_with("wrote " + target_.string() + " ")) << outcome.out;
    EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1) << outcome.out;
  }
}

TEST_F(CompileOutput, InspectShowsASingleImage) {
  ASSERT_EQ(compile({"--quiet", "--partitions", "2"}).exit_code, 0);
  const Outcome outcome = inspect(target_ / "images/image1.xclbin", true);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value root = json::parse(outcome.out);
  EXPECT_EQ(root.at("kind").as_string(), "xclbin");
  EXPECT_EQ(root.at("checksum").as_string(), "verified");
  EXPECT_EQ(root.at("partitions").as_array().size(), 1U);
  EXPECT_EQ(root.at("partitions").at(0).at("ports").at(0).at("kind").as_string(), "link_receive");
  expect(inspect(target_ / "images/image1.xclbin", false).out, "checksum  verified");
}

TEST_F(CompileOutput, OptionDumpAfterPrintsTheGraphAfterACompilerStepAndRefusesUnknownSteps) {
  const Outcome good = compile({"--quiet", "--dump-after", "import"});
  ASSERT_EQ(good.exit_code, 0) << good.err;
  expect(good.err, "--- after import");
  const Outcome bad = compile({"--quiet", "--dump-after", "improt"});
  EXPECT_EQ(bad.exit_code, 2);
  expect(bad.err, "there is no such step; the steps are import");
}

TEST_F(CompileOutput, CompileRefusesAModelNameWithASlash) {
  const Outcome outcome = compile({"--name", "a/b"});
  EXPECT_EQ(outcome.exit_code, 2);
  expect(outcome.err, "of the characters A-Z a-z 0-9 _ - . with --name");
}

}  // namespace
}  // namespace millrace::tests::test_compile_output
