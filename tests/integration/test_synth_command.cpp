// Tests `millrace synth` with the real Yosys, on the generated SystemVerilog of a small net.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"

namespace millrace::tests::test_synth_command {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kInterval = 800;

class SynthCommand : public testing::Test {
 protected:
  void SetUp() override {
    const auto program = chain_program(1, 2);
    deploy_rtl(program, emulated_ring(1), 1, deployment_, kInterval, program);
  }
  Outcome synth(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {millrace_binary(), "synth", deployment_.string(), "--family", "xcu"};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, {"MILLRACE_CACHE=" + (directory_.path() / "cache").string()},
                       std::chrono::seconds(1000));
  }
  /// Sets the card's resources in design.json to `luts` LUTs and plenty of every other kind.
  void offer(std::int64_t luts) const {
    const fs::path file = deployment_ / "rtl/part0/design.json";
    const auto text = read_text_file(file, 1U << 20U);
    ASSERT_TRUE(text.ok());
    json::value design = json::parse(*text);
    design.as_object()["available"] = {{"lut", luts}, {"lutram", 100000}, {"ff", 100000},
                                       {"dsp", 1000}, {"bram36", 100},    {"uram", 0}};
    std::ofstream(file) << json::serialize(design);
  }

  TemporaryDirectory directory_{"millrace-synth-command"};
  const fs::path deployment_ = directory_.path() / "net";
};

TEST_F(SynthCommand, MeasuresEachInstanceOnceAndComparesTheSumWithTheDevice) {
  const Outcome first = synth({"--json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("synthesised 0 of "), std::string::npos) << first.err;
  const json::value root = json::parse(first.out);
  EXPECT_EQ(root.at("schema").as_int64(), 1);
  EXPECT_NE(root.at("tool").as_string().find("Yosys"), json::string::npos);
  ASSERT_EQ(root.at("partitions").as_array().size(), 1U);
  const auto& part = root.at("partitions").at(0);
  EXPECT_EQ(part.at("partition").as_string(), "part0");
  EXPECT_TRUE(part.at("exceeded").as_array().empty());
  std::int64_t sum = 0;
  for (const auto& instance : part.at("instances").as_array())
    if (!instance.at("shell").as_bool()) sum += instance.at("measured").at("lut").as_int64();
  const std::int64_t luts = part.at("dataflow").at("measured").at("lut").as_int64();
  EXPECT_GT(luts, 0);
  EXPECT_EQ(sum, luts) << "the dataflow is the sum of its instances";
  EXPECT_GT(part.at("shell").at("measured").at("ff").as_int64(), 0);

  // The results of the first run are cached, and the table shows the cached results.
  offer(luts);
  const Outcome again = synth({});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.err.find("synthesised 0 of "), std::string::npos) << again.err;
  EXPECT_NE(again.out.find(std::to_string(luts) + " of " + std::to_string(luts) + " LUT"), std::string::npos)
      << again.out;
  EXPECT_NE(again.out.find("= dataflow"), std::string::npos) << again.out;

  offer(luts - 1);
  for (const char* form : {"--json", "--quiet"}) {
    const Outcome over = synth({form});
    EXPECT_EQ(over.exit_code, 1) << over.err;
    EXPECT_NE(over.err.find("more than the device has: part0 takes " + std::to_string(luts) + " LUT of " +
                            std::to_string(luts - 1)),
              std::string::npos)
        << over.err;
    EXPECT_NE(over.out.find(form == std::string("--json") ? "\"exceeded\":[\"" : "of the region"),
              std::string::npos)
        << over.out;
  }
}

}  // namespace
}  // namespace millrace::tests::test_synth_command
