// Tests `millrace devices --check --deployment`: what it says about cards, cables whose plugs are exchanged or missing, and
// cables with faults. The emulation's option `swap` exchanges plugs, so the cabling differs from the cluster file.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests::test_devices_check {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const fs::path kSource = tests::source_dir();

/// A cluster of three cards in a chain, fpga0/1 - fpga1/0 and fpga1/1 - fpga2/0. `cable` is added to each cable, `last` to
/// the second one.
std::string cluster_text(const std::string& cable, const std::string& last) {
  return "schema: 1\nemulated: true\ncards:\n"
         "  - {name: fpga0, device: ku060}\n  - {name: fpga1, device: ku060}\n  - {name: fpga2, device: "
         "ku060}\n"
         "cables:\n"
         "  - {a: {card: fpga0, connector: 1}, b: {card: fpga1, connector: 0}, gigabits_per_second: 10" +
         cable +
         "}\n"
         "  - {a: {card: fpga1, connector: 1}, b: {card: fpga2, connector: 0}, gigabits_per_second: 10" +
         cable + last + "}\n";
}

class DevicesCheck : public testing::TestWithParam<std::string> {
 protected:
  DevicesCheck() {
    fs::create_directories(file("clusters"));
    fs::create_directory_symlink(kSource / "configs/devices", file("devices"));
  }
  fs::path file(const std::string& name) const { return directory_.path() / name; }

  /// Writes the cluster, and compiles LeNet-5 for its three cards.
  void prepare(const std::string& cable, const std::string& last = "") {
    std::ofstream(file("clusters/chain.yaml")) << cluster_text(cable, last);
    const Outcome compiled =
        run_program({millrace_binary(), "compile", "--partitions", "3", "--cluster",
                     file("clusters/chain.yaml").string(), "-o", file("lenet5").string(), "--quiet",
                     (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string()});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  }
  Outcome check(const std::string& emulation, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"/usr/bin/env",
                                   "MILLRACE_EMULATION_OPTIONS=" + emulation,
                                   millrace_binary(),
                                   "devices",
                                   "--check",
                                   "--deployment",
                                   file("lenet5").string(),
                                   "--cluster",
                                   file("clusters/chain.yaml").string(),
                                   "--timeout-ms",
                                   "2000"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  /// Returns the line of the output that begins with this word.
  static std::string line(const Outcome& outcome, const std::string& word) {
    const auto at = ("\n" + outcome.out).find("\n" + word + " ");
    return at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TemporaryDirectory directory_{"millrace-check"};
};

TEST_P(DevicesCheck, PassesIfCardsAndCablesAreAsTheClusterFileSays) {
  ASSERT_NO_FATAL_FAILURE(prepare(GetParam()));
  const Outcome outcome = check("");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* card : {"fpga0", "fpga1", "fpga2"})
    EXPECT_TRUE(has(line(outcome, card), " ready")) << outcome.out;
  for (const char* cable : {"fpga0-fpga1", "fpga1-fpga2"})
    EXPECT_TRUE(has(line(outcome, cable), " up after ")) << outcome.out;
  EXPECT_TRUE(has(line(outcome, "fpga1"), "n/a (emulated)")) << "host memory: " << outcome.out;
  EXPECT_TRUE(has(outcome.out, "8 frames, every byte right")) << outcome.out;
}

TEST_P(DevicesCheck, NamesTheConnectorsIfTwoPlugsAreExchanged) {
  ASSERT_NO_FATAL_FAILURE(prepare(GetParam()));
  const Outcome outcome = check("swap=1.0/1.1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has(line(outcome, "fpga0-fpga1"),
                  "misplugged: the cable from 'fpga0/1' leads to 'fpga1/1', not to 'fpga1/0'; move that "
                  "plug to 'fpga1/0'"))
      << outcome.out;
  // The last card of the chain sends nothing, so only the receiver's side of its cable can be traced.
  EXPECT_TRUE(has(line(outcome, "fpga1-fpga2"),
                  "misplugged: the cable to 'fpga2/0' comes from 'fpga1/0', not from 'fpga1/1'; move that "
                  "plug to 'fpga1/1'"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "probe frames: skipped")) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "error: cable 'fpga0-fpga1' is misplugged")) << outcome.err;
}

TEST_P(DevicesCheck, FindsThePlugThatIsInAnEmptyConnector) {
  ASSERT_NO_FATAL_FAILURE(prepare(GetParam()));
  const Outcome outcome = check("swap=2.0/2.1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has(line(outcome, "fpga0-fpga1"), " up after ")) << outcome.out;
  EXPECT_TRUE(has(line(outcome, "fpga1-fpga2"),
                  "misplugged: the cable from 'fpga1/1' leads to 'fpga2/1', not to 'fpga2/0'"))
      << outcome.out;
}

TEST_P(DevicesCheck, SaysWhichEndHasNoSignal) {
  ASSERT_NO_FATAL_FAILURE(prepare(GetParam()));
  const Outcome outcome = check("swap=2.0/0.0");  // fpga0 has no receiving port, so it cannot answer there
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has(line(outcome, "fpga1-fpga2"),
                  "down: no signal at 'fpga2/0'; plug the cable into 'fpga1/1' and 'fpga2/0'"))
      << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Cables, DevicesCheck, testing::Values("", ", protocol: udp"),
                         [](const auto& tested) { return tested.param.empty() ? "Aurora" : "Udp"; });

TEST_F(DevicesCheck, NamesTheNetworkIfNoDatagramPasses) {
  ASSERT_NO_FATAL_FAILURE(prepare(", protocol: udp", ", faults: {outage: true}"));
  const Outcome outcome = check("", {"--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const json::value document = json::parse(outcome.out.substr(0, outcome.out.find('\n')));
  EXPECT_EQ(document.at("cables").at(0).at("state"), "up");
  EXPECT_EQ(document.at("cables").at(1).at("state"), "down");
  EXPECT_TRUE(has(std::string(document.at("cables").at(1).at("problem").as_string()),
                  "no datagram passes between 'fpga1/1' and 'fpga2/0'; check both ports of the switch"));
  EXPECT_TRUE(document.at("cables").at(1).at("up_after_ms").is_null());
  EXPECT_EQ(document.at("probe").at("state"), "skipped");
}

TEST_F(DevicesCheck, CallsACableDegradedThatLosesDatagrams) {
  ASSERT_NO_FATAL_FAILURE(prepare(", protocol: udp", ", faults: {loss: 0.4}"));
  const Outcome outcome = check("");
  EXPECT_EQ(outcome.exit_code, 0) << "the link repairs what the cable loses: " << outcome.out << outcome.err;
  EXPECT_FALSE(has(line(outcome, "fpga0-fpga1"), "degraded")) << outcome.out;
  EXPECT_TRUE(has(line(outcome, "fpga1-fpga2"), ", degraded: ")) << outcome.out;
}

TEST_F(DevicesCheck, WaitsForTheCablesOfCardsWithTheMannersOfHardware) {
  ASSERT_NO_FATAL_FAILURE(prepare(""));
  const Outcome outcome = check("manners=hardware program_time=50 cable_time=600", {"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const json::value document = json::parse(outcome.out);
  for (const json::value& cable : document.at("cables").as_array()) {
    EXPECT_EQ(cable.at("state"), "up");
    EXPECT_GT(cable.at("up_after_ms").to_number<int>(), 100) << "the cores of a cable hold their reset";
  }
  EXPECT_EQ(document.at("probe").at("state"), "right");
}

TEST_F(DevicesCheck, ListsCardsAndCablesThatTheDeploymentDoesNotUse) {
  ASSERT_NO_FATAL_FAILURE(prepare(""));
  const Outcome compiled =
      run_program({millrace_binary(), "compile", "--partitions", "1", "--cluster",
                   file("clusters/chain.yaml").string(), "-o", file("lenet5").string(), "--quiet",
                   (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string()});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const Outcome outcome = check("swap=1.0/1.1");
  EXPECT_EQ(outcome.exit_code, 0) << "no cable is used: " << outcome.out << outcome.err;
  EXPECT_TRUE(has(line(outcome, "fpga0"), " ready")) << outcome.out;
  EXPECT_TRUE(has(line(outcome, "fpga1"), " unused")) << outcome.out;
  EXPECT_TRUE(has(line(outcome, "fpga1-fpga2"), " unused")) << outcome.out;
}

TEST_F(DevicesCheck, RefusesWrongUse) {
  const Outcome alone = run_program({millrace_binary(), "devices", "--deployment", "x"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_TRUE(has(alone.err, "--check")) << alone.err;
  const Outcome nothing =
      run_program({millrace_binary(), "devices", "--check", "--deployment", file("nothing").string()});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(has(nothing.err, "nothing")) << nothing.err;
}

}  // namespace
}  // namespace millrace::tests::test_devices_check
