// Tests the user's choice of how a block is built: as an unrolled layer, by a plugin's module, on the host, or with
// weights streamed from memory. `compile` must build the plan, and every output byte must still equal the reference's.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_generator_choice {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class GeneratorChoice : public ::testing::Test {
 protected:
  Outcome millrace(const std::string& command, std::vector<std::string> more) {
    std::vector<std::string> arguments{millrace_binary(), command, kModel.string(), "--cluster",
                                       (kSource / "configs/clusters/one-ku060.yaml").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  json::value planned(std::vector<std::string> more) {
    more.emplace_back("--json");
    const Outcome outcome = millrace("plan", more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  }
  /// Saves a plan, replaces the folding (the parallelism) of `block` in it, and returns the edited file.
  std::string plan_with(const std::string& block, const std::string& folding,
                        std::vector<std::string> more = {}) {
    const std::string file = (directory_.path() / "plan.yaml").string();
    more.insert(more.end(), {"--target-fps", "20000", "--save-plan", file});
    const Outcome outcome = millrace("plan", more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(*read_text_file(file));
    std::string edited;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"" + block + "\"") != std::string::npos)
        line = "      - {block: \"" + block + "\", " + folding + "}";
      edited += line + "\n";
    }
    std::ofstream(file) << edited;
    return file;
  }
  /// Compiles the model, verifies frames on an emulated card, and returns the deployment's directory.
  fs::path built(std::vector<std::string> more) {
    const fs::path out = directory_.path() / "deployment";
    more.insert(more.end(), {"-o", out.string(), "--quiet"});
    const Outcome compiled = millrace("compile", more);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    const Outcome verified =
        run_program({millrace_binary(), "verify", out.string(), "--frames", "8", "--json"});
    EXPECT_EQ(verified.exit_code, 0) << verified.err << verified.out;
    return out;
  }
  static std::string implementation(const json::value& plan, const std::string& block) {
    for (const auto& part : plan.at("partitions").as_array())
      for (const auto& one : part.at("blocks").as_array())
        if (one.at("name").as_string() == block) return std::string(one.at("implementation").as_string());
    return "";
  }
  static double latency_us(const json::value& plan) {
    return plan.at("predicted").at("latency_us").to_number<double>();
  }

  const fs::path kSource = tests::source_dir();
  const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  const std::string kPlugin = (kSource / "configs/plugins/dense_plugin.py").string();
  TemporaryDirectory directory_{"generator-choice"};
};

TEST_F(GeneratorChoice, APlanFileCanSelectTheUnrolledImplementationOfALayer) {
  const std::string plan = plan_with("gemm_36", "generator: unrolled, pe: 10, simd: 84");
  const auto read = planned({"--plan", plan});
  EXPECT_EQ(implementation(read, "gemm_36").substr(0, 8), "unrolled") << implementation(read, "gemm_36");
  const fs::path out = built({"--plan", plan});
  EXPECT_TRUE(fs::exists(out / "rtl/part0/gemm_36_unrolled.sv"));
  const Outcome wrong =
      millrace("plan", {"--plan", plan_with("gemm_36", "generator: unrolled, pe: 5, simd: 84")});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("PE is 10"), std::string::npos) << wrong.err;
}

TEST_F(GeneratorChoice, APlanFileCanSelectTheHardwareModuleOfAPlugin) {
  const std::string plan =
      plan_with("gemm_36", "generator: plugin, variant: expression", {"--plugins", kPlugin});
  const auto read = planned({"--plan", plan, "--plugins", kPlugin});
  EXPECT_EQ(implementation(read, "gemm_36"), "plugin's expression");
  const fs::path out = built({"--plan", plan, "--plugins", kPlugin});
  EXPECT_TRUE(fs::exists(out / "rtl/part0/gemm_36_plugin.sv"));
  const Outcome without = millrace("plan", {"--plan", plan});
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_NE(without.err.find("name that plugin"), std::string::npos) << without.err;
  const Outcome absent = millrace("plan", {"--plugins", "/nonexistent"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_NE(absent.err.find("there is no file '/nonexistent'"), std::string::npos) << absent.err;
}

TEST_F(GeneratorChoice, RefusesEmptyMissingAndDuplicatePluginsByName) {
  const auto refused = [&](const std::string& option, const std::string& value) {
    const Outcome outcome = millrace("plan", {option, value});
    EXPECT_EQ(outcome.exit_code, 2) << value;
    return outcome.err;
  };
  EXPECT_NE(refused("--plugins", kPlugin + ",").find("an entry is empty"), std::string::npos);
  EXPECT_NE(refused("--plugins", "").find("the value is empty"), std::string::npos);
  EXPECT_NE(refused("--plugins", kPlugin + ",/none").find("no file '/none'"), std::string::npos);
  EXPECT_NE(refused("--plugins", kPlugin + "," + kPlugin).find("named twice"), std::string::npos);
  // --generator-plugin is the old name of --plugins.
  EXPECT_NE(refused("--generator-plugin", "/none").find("no file '/none'"), std::string::npos);
  EXPECT_EQ(millrace("plan", {"--generator-plugin", kPlugin}).exit_code, 0);
}

TEST_F(GeneratorChoice, KillingTheCommandKillsThePluginAndItsChildren) {
  const fs::path script = directory_.path() / "hang", mark = directory_.path() / "mark";
  std::ofstream(script) << "#!/bin/sh\nsleep 1000 &\necho $$ $! > " << mark.string() << ".new\nmv "
                        << mark.string() << ".new " << mark.string() << "\nsleep 1000\n";
  fs::permissions(script, fs::perms::owner_all);
  BackgroundProgram command({millrace_binary(), "plan", kModel.string(), "--cluster",
                             (kSource / "configs/clusters/one-ku060.yaml").string(), "--plugins",
                             script.string()});
  ASSERT_TRUE(wait_until([&] { return fs::exists(mark) || !command.running(); }));
  pid_t plugin = 0, its_child = 0;
  std::ifstream(mark) >> plugin >> its_child;
  ASSERT_GT(plugin, 0) << command.err();
  ASSERT_GT(its_child, 0);
  EXPECT_EQ(command.stop(SIGKILL), 128 + SIGKILL);
  const auto gone = [](pid_t pid) {
    std::ifstream state("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(state, text);
    return text.empty() || text.find(") Z") != std::string::npos || text.find(") X") != std::string::npos;
  };
  EXPECT_TRUE(wait_until([&] { return gone(plugin) && gone(its_child); }));
}

TEST_F(GeneratorChoice, HostBlockBetweenCardsAddsItsTimeToTheLatency) {
  const auto measured = planned({"--host", "maxpool_9"});
  const auto slow = planned({"--host", "maxpool_9", "--host-time", "1ms"});
  EXPECT_EQ(implementation(measured, "maxpool_9"), "");
  EXPECT_LT(latency_us(measured), 900);
  EXPECT_GT(latency_us(slow), latency_us(measured) + 900);
  bool between = false;
  for (const auto& block : slow.at("host_times").as_array())
    if (block.at("block").as_string() == "maxpool_9") {
      between = block.at("between_cards").as_bool();
      EXPECT_DOUBLE_EQ(block.at("us").to_number<double>(), 1000);
    }
  EXPECT_TRUE(between);
  built({"--host", "maxpool_9"});
}

TEST_F(GeneratorChoice, RefusesContradictingHostOptionsAndUnknownBlockNames) {
  const Outcome fine = millrace("plan", {"--no-host", "--quiet"});
  EXPECT_EQ(fine.exit_code, 0) << fine.err;  // the host only converts types in this plan
  const Outcome unknown = millrace("plan", {"--host", "nothing"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("nothing"), std::string::npos) << unknown.err;
  EXPECT_EQ(millrace("plan", {"--host", "maxpool_9", "--no-host"}).exit_code, 2);
  EXPECT_EQ(millrace("plan", {"--host-time", "soon"}).exit_code, 2);
}

TEST_F(GeneratorChoice, StreamedWeightsUseMemoryBandwidthAndChangeNoOutput) {
  const auto baked = planned({}), streamed = planned({"--weights", "streamed"});
  EXPECT_EQ(baked.at("partitions").at(0).at("memory_bytes").to_number<double>(), 0);
  // The two layers with many weights read all their weights from memory once per frame, in whole words. The weights of
  // the other layers are on the FPGA before the first frame, so frames do not read them from memory.
  const double bytes = streamed.at("partitions").at(0).at("memory_bytes").to_number<double>();
  EXPECT_GE(bytes, 48000 + 10080);
  EXPECT_LE(bytes, 1.01 * (48000 + 10080));
  EXPECT_FALSE(streamed.at("partitions").at(0).at("roofline").at("memory").is_null());
  built({"--weights", "streamed"});
}

}  // namespace
}  // namespace millrace::tests::test_generator_choice
