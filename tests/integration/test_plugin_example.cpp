// Tests the example of a plugin in runtime/plugins/example: runs the commands of its guide, on emulated cards at both
// fidelities and over HTTP.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "onnx_model.hpp"
#include "plan_command.hpp"
#include "tests/support/http.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_plugin_example {
namespace {

constexpr int kElements = 16;

/// The model beside the example: low, high = CompareExchange(a, b), then a fully connected layer with weights 1 and -1
/// that adds up the first and the second half of `high`.
OnnxModel example_model() {
  OnnxModel m;
  m.input("a", {1, kElements});
  m.input("b", {1, kElements});
  const std::string a = m.pair("a", 0.0625F, 0, "aq"), b = m.pair("b", 0.0625F, 0, "bq");
  m.node("CompareExchange", {a, b}, "low", "org.example");
  m.last().set_name("exchange");
  m.last().add_output("high");
  auto& opset = *m.proto().add_opset_import();
  opset.set_domain("org.example");
  opset.set_version(1);
  for (const char* name : {"low", "high"}) {
    auto& value = *m.proto().mutable_graph()->add_value_info();
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int extent : {1, kElements}) type.mutable_shape()->add_dim()->set_dim_value(extent);
  }
  m.output(m.pair("low", 0.0625F, 0, "smaller"));
  const std::string high = m.pair("high", 0.0625F, 0, "larger");
  std::vector<std::int64_t> weights;
  for (int i = 0; i < 2 * kElements; ++i)
    weights.push_back((i < kElements) == (i % kElements < kElements / 2) ? 1 : -1);
  m.node("MatMul", {high, m.weights("w", {kElements, 2}, weights, {1.0F})}, "sums");
  m.output(m.pair("sums", 0.5F, 0, "score"));
  return m;
}

class PluginExample : public PlanCommand {
 protected:
  const fs::path kFolder = kSource / "runtime/plugins/example";
  const std::string kPlugin = EXAMPLE_PLUGIN;
  const std::string kDeployment = file("deployment");

  /// Runs a command with a cache of its own, so that no other test's permission lets a plugin run.
  Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), millrace_binary());
    return run_program(arguments, {"MILLRACE_CACHE=" + file("cache")});
  }
  Outcome compiled(const std::string& cluster, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{
        "compile",   (kFolder / "model.onnx").string(),
        "--cluster", (kSource / "configs/clusters" / (cluster + ".yaml")).string(),
        "--plugins", kPlugin,
        "--name",    "exchange",
        "-o",        kDeployment};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(PluginExample, ModelFileOfTheExampleIsUpToDate) {
  const std::string path = (kFolder / "model.onnx").string(), bytes = example_model().bytes();
  if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file_atomically(path, bytes).ok());
  }
  const auto stored = read_text_file(path);
  ASSERT_TRUE(stored.ok()) << stored.error().message();
  EXPECT_TRUE(*stored == bytes) << "if the change is intended, run with MILLRACE_UPDATE_GOLDEN=1";
}

TEST_F(PluginExample, OutputsOfFunctionalAndRtlSimulationEqualTheReference) {
  const Outcome made = compiled("one-ku060");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome refused = run({"verify", kDeployment});
  expect_error(refused, 2, {"the code of plugins", "--allow-plugins"});
  const Outcome functional = run({"verify", kDeployment, "--allow-plugins", "--json"});
  EXPECT_EQ(functional.exit_code, 0) << functional.err << functional.out;
  const Outcome rtl = run({"verify", kDeployment, "--allow-plugins", "--fidelity", "rtl", "--json"});
  EXPECT_EQ(rtl.exit_code, 0) << rtl.err << rtl.out;
  const Outcome stalled =
      run({"verify", kDeployment, "--allow-plugins", "--fidelity", "rtl", "--stall", "0.3", "--json"});
  EXPECT_EQ(stalled.exit_code, 0) << stalled.err << stalled.out;
  EXPECT_TRUE(fs::exists(fs::path(kDeployment) / "rtl/part0/exchange_plugin.sv"));
}

TEST_F(PluginExample, PlannerChoosesTheImplementationThatReachesTheTarget) {
  // At 156.25 MHz, only the candidate with all 16 lanes computes a frame in each cycle.
  const Outcome planned = run({"plan", (kFolder / "model.onnx").string(), "--cluster",
                               (kSource / "configs/clusters/one-ku060.yaml").string(), "--plugins", kPlugin,
                               "--target-fps", "150000000", "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_NE(planned.out.find("plugin's lanes16\""), std::string::npos) << planned.out;
}

TEST_F(PluginExample, ServerRunsThePluginForHttpRequestsIfTheUserAllowsPlugins) {
  ASSERT_EQ(compiled("one-ku060").exit_code, 0);
  const Outcome refused = run({"serve", "--deployment", kDeployment, "--http", "127.0.0.1:0"});
  expect_error(refused, 2, {"the code of plugins", "--allow-plugins"});
  BackgroundProgram server(
      {millrace_binary(), "serve", "--deployment", kDeployment, "--http", "127.0.0.1:0", "--allow-plugins"},
      {"MILLRACE_CACHE=" + file("cache")});
  const auto address = server.wait_for_line("listening http ", std::chrono::seconds(60));
  ASSERT_TRUE(address.has_value()) << server.err();
  HttpConnection connection(*address);
  json::array a, b;
  for (int i = 0; i < kElements; ++i) {
    a.emplace_back(0.0625 * (i * 7 % 16));
    b.emplace_back(0.0625 * (i * 5 % 16));
  }
  const auto input = [](const char* name, const json::array& data) {
    return json::object{{"name", name}, {"datatype", "FP32"}, {"shape", {1, kElements}}, {"data", data}};
  };
  const auto answer =
      connection.request("POST", "/v2/models/exchange/infer",
                         json::serialize(json::object{{"inputs", {input("a", a), input("b", b)}}}),
                         "Content-Type: application/json\r\n");
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->status, 200) << answer->body;
  const json::value parsed = json::parse(answer->body);
  const json::array& low = parsed.at("outputs").at(0).at("data").as_array();
  ASSERT_EQ(low.size(), static_cast<std::size_t>(kElements));
  for (std::size_t i = 0; i < low.size(); ++i)
    EXPECT_DOUBLE_EQ(low[i].to_number<double>(), std::min(a[i].as_double(), b[i].as_double())) << i;
  EXPECT_EQ(server.stop(SIGTERM), 0);
}

TEST_F(PluginExample, HostCannotRunTheBlockOfThePlugin) {
  expect_error(compiled("one-ku060", {"--host", "exchange"}), 2,
               {"block 'exchange' belongs to plugin 'compare_exchange'", "on cards only",
                "leave --host exchange out"});
}

TEST_F(PluginExample, CoverageShowsThePlugin) {
  const Outcome covered =
      run({"coverage", (kFolder / "model.onnx").string(), "--plugins", kPlugin, "--json"});
  ASSERT_EQ(covered.exit_code, 0) << covered.err;
  const json::value parsed = json::parse(covered.out);
  for (const auto& node : parsed.at("nodes").as_array())
    if (node.at("operator").as_string() == "CompareExchange") {
      EXPECT_EQ(node.at("place").as_string(), "hardware");
      EXPECT_EQ(json::serialize(node.at("generators")), "[\"plugin\"]");
      return;
    }
  FAIL() << covered.out;
}

}  // namespace
}  // namespace millrace::tests::test_plugin_example
