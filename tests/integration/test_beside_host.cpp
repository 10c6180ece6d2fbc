// Tests nets with residual connections around layers that the host computes. The tensor of the connection goes through
// the host, or over a cable from card to card. Every output must equal the reference's output, which is computed from
// the model file.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "runtime/base/file.hpp"
#include "served_model.hpp"
#include "small_nets.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/rtl_folder.hpp"

namespace millrace::tests::test_beside_host {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace json = boost::json;

using Words = std::vector<std::string>;

class ResidualAroundHostLayer : public testing::Test {
 protected:
  fs::path write(const SmallNet& net) const {
    fs::path file = directory_.path() / (net.name + ".onnx");
    std::ofstream(file, std::ios::binary) << net.onnx;
    return file;
  }

  /// Writes a cluster of emulated KU060 and returns its file. If `cabled`, cables join the cards in a chain.
  fs::path cards(int count, bool cabled) const {
    fs::path file = write_one_card(directory_.path(), "ku060");  // also makes the folder of devices
    std::ofstream out(file);
    out << "schema: 1\nemulated: true\ncards:\n";
    for (int i = 0; i < count; ++i) out << "  - {name: fpga" << i << ", device: ku060}\n";
    out << "cables:" << (cabled ? "\n" : " []\n");
    for (int i = 0; cabled && i + 1 < count; ++i)
      out << "  - {a: {card: fpga" << i << ", connector: 1}, b: {card: fpga" << i + 1
          << ", connector: 0}, gigabits_per_second: 10}\n";
    return file;
  }

  json::value planned(const fs::path& net, const fs::path& cluster, const Words& more = {}) const {
    Words command = {millrace_binary(), "plan", net.string(), "--cluster", cluster.string(), "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  }

  /// Compiles the net, and compares 64 frames of the pipeline and the served answers with the reference.
  void expect_right(const fs::path& net, const fs::path& cluster, const Words& more = {}) const {
    const fs::path deployment = directory_.path() / "deployment";
    const Outcome compiled = compile_model(net, cluster, deployment, more);
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    const Words where = {"--cluster", cluster.string()};
    const Outcome verified = run_program(
        {millrace_binary(), "verify", deployment, "--cluster", cluster, "--json", "--frames", "64"});
    ASSERT_EQ(verified.exit_code, 0) << verified.err << verified.out;
    EXPECT_EQ(json::parse(verified.out).at("mismatches").to_number<int>(), 0);
    expect_served(deployment, program_of(net), where);
  }

  TemporaryDirectory directory_{"millrace-beside-host"};
};

/// Whether the plan copies a tensor on the host.
bool copies(const json::value& plan) {
  for (const auto& block : plan.at("host").as_array())
    if (std::string_view(block.as_string()).ends_with("_through_host")) return true;
  return false;
}

TEST_F(ResidualAroundHostLayer, OneCardSendsResidualTensorsThroughTheHost) {
  const fs::path cluster = cards(1, false);
  for (const std::uint32_t blocks : {1U, 3U}) {
    SCOPED_TRACE(blocks);
    const fs::path net = write(residual_around_host_net(blocks));
    const json::value plan = planned(net, cluster);
    EXPECT_TRUE(copies(plan));
    EXPECT_EQ(plan.at("partitions").as_array().size(), 1U);
    EXPECT_EQ(json::serialize(plan.at("predicted").at("gap_given")).find("through_host") != std::string::npos,
              true);
    expect_right(net, cluster);
  }
}

TEST_F(ResidualAroundHostLayer, TwoCardsWithoutACableSendResidualTensorsThroughTheHost) {
  const fs::path net = write(residual_around_host_net(1));
  const fs::path cluster = cards(2, false);
  const Words two = {"--partitions", "2"};
  EXPECT_TRUE(copies(planned(net, cluster, two)));
  expect_right(net, cluster, two);
}

TEST_F(ResidualAroundHostLayer, TwoCardsUseTheirCableIfLatencyIsTheObjective) {
  const fs::path net = write(residual_around_host_net(1));
  const fs::path cluster = cards(2, true);
  const Words two = {"--partitions", "2", "--objective", "latency"};
  EXPECT_FALSE(copies(planned(net, cluster, two)));
  expect_right(net, cluster, two);
}

TEST_F(ResidualAroundHostLayer, TheCableCarriesTheTensorIfTheHostHasNoTimeToCopyIt) {
  const fs::path net = write(residual_around_host_net(1));
  const Words two = {"--partitions", "2", "--objective", "latency"};
  const json::value direct = planned(net, cards(2, true), two);
  double between = 0;
  for (const auto& block : direct.at("host_times").as_array())
    between += block.at("between_cards").as_bool() ? 1 : 0;
  ASSERT_GT(between, 0);
  // At this target rate, the host has time for the blocks that only it can compute, but not for another one.
  const double rate = 100, seconds = 1 / (rate * (between + 0.5));
  const Words slow_host = {"--partitions", "2",           "--target-fps",
                           "100",          "--host-time", std::to_string(seconds * 1e6) + "us"};
  const json::value plan = planned(net, cards(2, true), slow_host);
  EXPECT_FALSE(copies(plan));
  EXPECT_EQ(plan.at("partitions").as_array().size(), 2U);
}

TEST_F(ResidualAroundHostLayer, PlannerPrefersOneCardToTwoCardsWithACable) {
  const json::value plan = planned(write(residual_around_host_net(1)), cards(2, true));
  EXPECT_EQ(plan.at("partitions").as_array().size(), 1U);
  EXPECT_TRUE(copies(plan));
}

TEST_F(ResidualAroundHostLayer, FollowingTheSavedPlanGivesTheSameHostBlocksAndRate) {
  const fs::path net = write(residual_around_host_net(1));
  const fs::path cluster = cards(1, false), file = directory_.path() / "plan.yaml";
  const json::value own = planned(net, cluster, {"--save-plan", file});
  const json::value again = planned(net, cluster, {"--plan", file});
  EXPECT_EQ(again.at("host"), own.at("host"));
  EXPECT_EQ(again.at("predicted").at("frames_per_second"), own.at("predicted").at("frames_per_second"));
}

TEST_F(ResidualAroundHostLayer, OutputsOfOneCardAtRtlFidelityEqualTheReference) {
  const fs::path deployment = directory_.path() / "deployment";
  const Outcome compiled = compile_model(write(residual_around_host_net(1)), cards(1, false), deployment);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const Outcome outcome =
      run_program({millrace_binary(), "verify", deployment, "--fidelity", "rtl", "--json", "--frames", "4"},
                  {"MILLRACE_CACHE=" + shared_simulation_cache().string()}, 500s);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  EXPECT_EQ(json::parse(outcome.out).at("mismatches").to_number<int>(), 0);
}

}  // namespace
}  // namespace millrace::tests::test_beside_host
