// Tests small nets, most of which have wide layers. The tests generate the nets. Each net is compiled for every kind of
// card that can run deployments, then verified and served on emulated cards. Every answer must equal the reference's
// answer, which is computed from the model file.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "served_model.hpp"
#include "small_nets.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests::test_small_nets {
namespace {

namespace fs = std::filesystem;

/// The base of all tests in this file. It writes a net's ONNX file and has a temporary directory for the deployment.
class SmallNets : public testing::Test {
 protected:
  fs::path write(const SmallNet& net) const {
    fs::path file = directory_.path() / (net.name + ".onnx");
    std::ofstream(file, std::ios::binary) << net.onnx;
    return file;
  }
  fs::path cluster(const std::string& device) const { return write_one_card(directory_.path(), device); }
  fs::path deployment() const { return directory_.path() / "deployment"; }

  /// Compiles the net for one card of kind `device`, then verifies and serves it on emulated cards.
  void expect_built_and_served(const SmallNet& net, const std::string& device) const {
    SCOPED_TRACE(net.name + " on " + device);
    const fs::path file = write(net);
    const Outcome compiled = compile_model(file, cluster(device), deployment());
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    expect_verified(deployment());
    expect_served(deployment(), program_of(file));
  }

  TemporaryDirectory directory_{"millrace-small-nets"};
};

/// Returns the names of devices. If `plan_only` is true, these are the devices that are only for plans,
/// otherwise the devices that can run deployments.
std::vector<std::string> devices(bool plan_only) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(tests::source_dir()) / "configs/devices")) {
    std::ifstream in(entry.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    if ((text.find("\nplan_only:") != std::string::npos) == plan_only)
      names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns a net with `width` inputs and outputs and a narrow layer between them.
SmallNet wide_net(std::int64_t width) {
  return dense_net({width, 16, width});
}

class EveryDevice : public SmallNets, public testing::WithParamInterface<std::string> {};

TEST_P(EveryDevice, WideNetsAreCompiledVerifiedAndServed) {
  for (const SmallNet& net : {wide_net(128), wide_net(640), picture_net(64)})
    expect_built_and_served(net, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Deployed, EveryDevice, testing::ValuesIn(devices(false)),
                         [](const auto& param) { return param.param; });

TEST_F(SmallNets, ANetWith1024InputsAndOutputsIsServed) {
  expect_built_and_served(wide_net(1024), "ku060");
}

TEST_F(SmallNets, PlanAcceptsADeviceThatIsForPlanningOnlyAndCompileRefusesIt) {
  const auto names = devices(true);
  ASSERT_FALSE(names.empty());
  for (const std::string& device : names)
    for (const SmallNet& net : {wide_net(128), wide_net(640), wide_net(1024), picture_net(64)}) {
      SCOPED_TRACE(net.name + " on " + device);
      const fs::path file = write(net);
      const Outcome planned = run_program(
          {millrace_binary(), "plan", file.string(), "--cluster", cluster(device).string(), "--json"});
      EXPECT_EQ(planned.exit_code, 0) << planned.err;
      const Outcome compiled = compile_model(file, cluster(device), deployment());
      EXPECT_NE(compiled.exit_code, 0);
      EXPECT_NE(compiled.err.find("can only be used for plans"), std::string::npos) << compiled.err;
      EXPECT_FALSE(fs::exists(deployment()));
    }
}

/// The window of a 3x3 convolution stores two rows of the picture. Rows of 8,192 pixels need 8.4 million bits.
TEST_F(SmallNets, ErrorNamesTheScarceResourceIfANetDoesNotFit) {
  const fs::path file = write(picture_net(64, 4, 8192));
  for (const char* device : {"embedded", "zu3eg"}) {
    const Outcome compiled = compile_model(file, cluster(device), deployment());
    EXPECT_EQ(compiled.exit_code, 1) << compiled.err;
    EXPECT_NE(compiled.err.find("BRAM"), std::string::npos) << compiled.err;
    EXPECT_FALSE(fs::exists(deployment()));
  }
}

/// The host computes the middle of the net. One card computes the layers before and after it.
TEST_F(SmallNets, OptionNoHostRefusesALayerWithoutHardwareAndGivesTheReason) {
  const fs::path file = write(host_layers_net());
  const Outcome refused = run_program(
      {millrace_binary(), "plan", file.string(), "--cluster", cluster("ku060").string(), "--no-host"});
  EXPECT_EQ(refused.exit_code, 1);
  for (const char* part : {"--no-host", "InstanceNormalization runs on the host: no hardware computes it",
                           "and no quantiser follows"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
}

TEST_F(SmallNets, VerifyComparesInt64OutputsWithExpectedIndices) {
  const fs::path file = write(index_net());
  ASSERT_EQ(compile_model(file, cluster("ku060"), deployment()).exit_code, 0);
  const std::vector<std::byte> frame(8 * sizeof(float));
  const std::vector<std::byte> index = kernels::reference::run(program_of(file), {frame}).front();
  ASSERT_EQ(index.size(), sizeof(std::int64_t));
  const fs::path inputs = directory_.path() / "in.npy", outputs = directory_.path() / "out.npy";
  ASSERT_TRUE(write_npy(inputs, {"<f4", {1, 8}, frame}).ok());
  const auto verify = [&](std::byte first) {
    std::vector<std::byte> expected = index;
    expected[0] = first;
    EXPECT_TRUE(write_npy(outputs, {"<i8", {1, 1}, std::move(expected)}).ok());
    return run_program(
        {millrace_binary(), "verify", deployment().string(), "--inputs", inputs, "--expect", outputs});
  };
  const Outcome right = verify(index[0]), wrong = verify(index[0] ^ std::byte{1});
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_EQ(wrong.exit_code, 1) << wrong.err;
}

/// The net ends in a softmax of quantised scores. --tolerance 1 allows a change of each score by one step,
/// not a difference of 1.0 between probabilities.
TEST_F(SmallNets, VerifyWithToleranceOneRefusesAllZeroProbabilities) {
  const fs::path file = write(softmax_net());
  ASSERT_EQ(compile_model(file, cluster("ku060"), deployment()).exit_code, 0);
  const kernels::Program model = program_of(file);
  const kernels::Tensor &in = model.tensors[model.inputs[0]], &out = model.tensors[model.outputs[0]];
  ASSERT_EQ(in.storage_bytes(), in.elements() * sizeof(float));
  const std::vector<std::byte> frame(in.storage_bytes());
  const auto verify = [&](std::vector<std::byte> expected) {
    const fs::path inputs = directory_.path() / "in.npy", outputs = directory_.path() / "out.npy";
    EXPECT_TRUE(write_npy(inputs, {"<f4", {1, in.elements()}, frame}).ok());
    EXPECT_TRUE(write_npy(outputs, {"<f4", {1, out.elements()}, std::move(expected)}).ok());
    return run_program({millrace_binary(), "verify", deployment().string(), "--inputs", inputs, "--expect",
                        outputs, "--tolerance", "1"})
        .exit_code;
  };
  EXPECT_EQ(verify(kernels::reference::run(model, {frame}).front()), 0);
  EXPECT_EQ(verify(std::vector<std::byte>(out.storage_bytes())), 1);
}

/// Models with these operators, types and shapes were once refused or caused an internal error.
const SmallNet kAudited[] = {
    dense_net({128, 4}),
    dense_net({100, 128}),
    convolution_sums_net(),
    matrix_sums_net(),
    quantised_operator_net("QLinearAdd"),
    quantised_operator_net("QLinearAveragePool"),
    softmax_net(),
    host_layers_net(),
};

class RegressionNets : public SmallNets, public testing::WithParamInterface<SmallNet> {};

TEST_P(RegressionNets, NetIsServedOnTwoDeviceTypesWithAndWithoutAClusterFile) {
  const fs::path file = write(GetParam());
  const kernels::Program model = program_of(file);
  for (const char* device : {"ku060", "u280"}) {
    SCOPED_TRACE(device);
    const Outcome compiled = compile_model(file, cluster(device), deployment());
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    const std::vector<std::vector<std::string>> ways = {{}, {"--cluster", cluster(device).string()}};
    for (const auto& way : ways) {
      SCOPED_TRACE(way.empty() ? "cards made to fit" : "the cluster it was compiled for");
      expect_verified(deployment(), way);
      expect_served(deployment(), model, way);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, RegressionNets, testing::ValuesIn(kAudited),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::tests::test_small_nets
