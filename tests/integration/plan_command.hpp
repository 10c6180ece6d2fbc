// The base of the tests of `millrace plan`. It runs the command on LeNet-5 and writes clusters of small cards.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

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
  /// Returns the words of the text, each followed by one space, so that line breaks do not matter.
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
  /// Writes a cluster of `count` cards and returns its path. If `cables` is true, cables connect the cards in
  /// a chain. Each card has `luts` LUTs in addition to the shell's; the default is less than LeNet-5's
  /// largest layer needs. The shell includes ports of the usual width.
  std::string small_cards(int count, bool cables = true, int shell_luts = 0, int luts = 4000) const {
    fs::create_directories(directory_.path() / "devices");
    fs::create_directories(directory_.path() / "clusters");
    std::ofstream(file("devices/small.yaml"))
        << "schema: 1\npart: generic\nfamily: xcup\nclock_mhz: 100\n"
           "resources: {lut: "
        << luts + kShell
        << ", lutram: 5000, ff: 108000, dsp: 200, bram36: 8}\n"
           "shell: {lut: "
        << shell_luts + kShell
        << ", lutram: 1000, ff: 8000, bram36: 0}\nlink: {lut: 100, ff: 100, bram36: 0}\n"
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
  /// Like small_cards(), but each card has room for the weight loader, which needs about 1,360 LUTs.
  std::string streaming_cards(int count) const { return small_cards(count, true, 0, 5370); }
  /// The folder of shared models, or an empty path if MILLRACE_MODELS does not name one.
  static fs::path shared_models() {
    const char* models = std::getenv("MILLRACE_MODELS");
    return models != nullptr && fs::is_directory(models) ? fs::path(models) : fs::path();
  }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  static constexpr int kShell = 6000;  // LUTs
  const fs::path kSource = tests::source_dir();
  const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  TemporaryDirectory directory_{"millrace-plan"};
};

}  // namespace millrace::tests
