// Tests `millrace verify` and `millrace devices`.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>

#include "kernels/program/rearrange.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"

namespace millrace::tests::test_verify {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

const std::string kMillrace = std::string(tests::binary_dir()) + "/bin/millrace";

class Verify : public testing::Test {
 protected:
  Verify() { deploy(program_, emulated_ring(3), 3, deployment_); }

  Outcome run(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {kMillrace, "verify", deployment_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  /// Writes input frames and the reference's outputs. In the first frame, the first `wrong` output elements
  /// are wrong by one step.
  void write_frames(std::uint64_t frames, float input_value, int wrong) const {
    NpyArray in{"<f4", {frames, 8, 8, 2}, {}}, out{"<f4", {frames, 4, 4, 4}, {}};
    for (std::uint64_t f = 0; f < frames; ++f) {
      std::vector<float> x(8 * 8 * 2);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = input_value * static_cast<float>(i % 11) - static_cast<float>(f);
      const auto bytes = std::as_bytes(std::span(x));
      in.data.insert(in.data.end(), bytes.begin(), bytes.end());
      auto y = kernels::reference::run(program_, {{bytes.begin(), bytes.end()}}).front();
      for (int i = 0; f == 0 && i < wrong; ++i) {
        float value = 0;
        std::memcpy(&value, y.data() + static_cast<std::size_t>(i) * 4, 4);
        value += 0.5F;  // the dequantiser's scale
        std::memcpy(y.data() + static_cast<std::size_t>(i) * 4, &value, 4);
      }
      out.data.insert(out.data.end(), y.begin(), y.end());
    }
    ASSERT_TRUE(write_npy(directory_.path() / "in.npy", in).ok());
    ASSERT_TRUE(write_npy(directory_.path() / "out.npy", out).ok());
  }
  std::vector<std::string> files() const {
    return {"--inputs", (directory_.path() / "in.npy").string(), "--expect",
            (directory_.path() / "out.npy").string()};
  }

  TemporaryDirectory directory_{"millrace-verify"};
  const fs::path deployment_ = directory_.path() / "deployment";
  const kernels::Program program_ = skip_program(5);
};

TEST_F(Verify, RandomFramesEqualTheReference) {
  const Outcome outcome = run({"--json", "--frames", "9", "--seed", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("schema").to_number<int>(), 1);
  EXPECT_EQ(document.at("frames").to_number<int>(), 9);
  EXPECT_EQ(document.at("mismatches").to_number<int>(), 0);
  EXPECT_EQ(document.at("cards").to_number<int>(), 3);
}

TEST_F(Verify, TwoPartitionsInOneImageAroundAHostBlockEqualTheReference) {
  const fs::path target = directory_.path() / "interrupted";
  const auto deployed = deploy(interrupted_program(), emulated_ring(3), 1, target);
  ASSERT_EQ(deployed->plan.images.at(0).partitions.size(), 2U);
  const Outcome outcome = run_program({kMillrace, "verify", target.string(), "--json", "--frames", "20"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at("mismatches").to_number<int>(), 0);
}

TEST_F(Verify, OutputsOfGivenFramesAreComparedWithExpectedOutputs) {
  write_frames(4, 0.7F, 0);
  const Outcome right = run(files());
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_NE(right.out.find("4 frames over 3 cards"), std::string::npos) << right.out;
  write_frames(4, 0.7F, 3);
  auto command = files();
  command.emplace_back("--json");
  const Outcome wrong = run(command);
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_EQ(json::parse(wrong.out).at("expect").at("mismatches").to_number<int>(), 3) << wrong.out;
  EXPECT_EQ(json::parse(wrong.out).at("mismatches").to_number<int>(), 0) << wrong.out;
  command.insert(command.end(), {"--tolerance", "1"});
  EXPECT_EQ(run(command).exit_code, 0);
}

/// The base of tests with a program whose scores, in steps of 0.5, pass through floating-point operations on the host.
class VerifyFloatTail : public testing::Test {
 protected:
  void append(const std::string& name, kernels::Operation operation, std::vector<std::uint32_t> shape = {}) {
    const kernels::TensorIndex from = program_.outputs.at(0);
    program_.tensors.push_back(program_.tensors[from]);
    program_.tensors.back().name = name + "_out";
    if (!shape.empty()) program_.tensors.back().shape = std::move(shape);
    program_.outputs = {static_cast<kernels::TensorIndex>(program_.tensors.size() - 1)};
    kernels::Block block;
    block.name = name;
    block.operation = std::move(operation);
    block.inputs = {from};
    block.outputs = program_.outputs;
    program_.blocks.push_back(block);
  }
  /// Returns the program's scores before the operations on the host, an array of shape [4, 4, 4].
  std::vector<float> scores() const {
    const auto bytes = kernels::reference::run(chain_program(2), {input_}).front();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  /// Computes the softmax of the program's scores. Before that, raises each group's first score by `steps` steps.
  std::vector<float> probabilities(int steps) const {
    std::vector<float> values = scores();
    for (std::size_t group = 0; group < values.size(); group += 4) {
      values[group] += 0.5F * static_cast<float>(steps);
      float sum = 0;
      const float most = *std::max_element(&values[group], &values[group] + 4);
      for (std::size_t i = group; i < group + 4; ++i) sum += values[i] = std::exp(values[i] - most);
      for (std::size_t i = group; i < group + 4; ++i) values[i] /= sum;
    }
    return values;
  }
  Outcome verify(const std::vector<float>& expected, const char* tolerance) {
    if (!fs::exists(deployment_)) deploy(program_, emulated_ring(1), 1, deployment_);
    const auto bytes = std::as_bytes(std::span(expected));
    EXPECT_TRUE(write_npy(directory_.path() / "in.npy", {"<f4", {1, 8, 8, 2}, input_}).ok());
    EXPECT_TRUE(
        write_npy(directory_.path() / "out.npy", {"<f4", {1, 4, 4, 4}, {bytes.begin(), bytes.end()}}).ok());
    return run_program({kMillrace, "verify", deployment_.string(), "--inputs",
                        (directory_.path() / "in.npy").string(), "--expect",
                        (directory_.path() / "out.npy").string(), "--tolerance", tolerance});
  }

  TemporaryDirectory directory_{"millrace-verify"};
  const fs::path deployment_ = directory_.path() / "deployment";
  const std::vector<std::byte> input_ = std::vector<std::byte>(8 * 8 * 2 * sizeof(float));
  kernels::Program program_ = chain_program(2);
};

TEST_F(VerifyFloatTail, ToleranceCountsQuantisationStepsBeforeASoftmax) {
  append("softmax", kernels::Softmax{});
  EXPECT_EQ(verify(probabilities(0), "0").exit_code, 0);
  EXPECT_EQ(verify(probabilities(1), "0").exit_code, 1);
  EXPECT_EQ(verify(probabilities(1), "1").exit_code, 0);
  EXPECT_EQ(verify(probabilities(3), "1").exit_code, 1);
  EXPECT_EQ(verify(std::vector<float>(64, 0.0F), "1").exit_code, 1) << "all zeros are no probabilities";
}

TEST_F(VerifyFloatTail, ToleranceCountsQuantisationStepsAfterATranspose) {
  append("layout", kernels::transposition({4, 4, 4}, {2, 0, 1}));
  const std::vector<float> from = scores();
  std::vector<float> expected;
  for (std::size_t channel = 0; channel < 4; ++channel)
    for (std::size_t at = channel; at < from.size(); at += 4) expected.push_back(from[at]);
  EXPECT_EQ(verify(expected, "0").exit_code, 0);
  expected[5] += 0.5F;
  EXPECT_EQ(verify(expected, "0").exit_code, 1);
  EXPECT_EQ(verify(expected, "1").exit_code, 0);
  expected[5] += 0.5F;
  EXPECT_EQ(verify(expected, "1").exit_code, 1);
}

TEST_F(VerifyFloatTail, RefusesAToleranceInStepsForAnOutputThatHasNoQuantisationStep) {
  append("softmax", kernels::Softmax{});
  append("again", kernels::Softmax{});
  const Outcome refused = verify(probabilities(0), "1");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("--tolerance 1: output 'again_out' has no step: "), std::string::npos)
      << refused.err;
  EXPECT_EQ(verify(probabilities(0), "0").exit_code, 1) << "they are compared exactly";
}

TEST_F(Verify, DumpTensorsWritesEveryTensorOfAFrame) {
  const fs::path dump = directory_.path() / "tensors";
  ASSERT_EQ(run({"--frames", "1", "--dump-tensors", dump.string()}).exit_code, 0);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dump)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_TRUE(read_npy(entry.path()).ok()) << entry.path();
  }
  EXPECT_GE(files, program_.tensors.size());
}

TEST_F(Verify, RefusesUnknownFidelitiesAndWrongInputs) {
  const Outcome fidelity = run({"--fidelity", "exact"});
  EXPECT_EQ(fidelity.exit_code, 2);
  EXPECT_NE(fidelity.err.find("functional or rtl"), std::string::npos) << fidelity.err;
  const Outcome stall = run({"--stall", "0.5"});
  EXPECT_EQ(stall.exit_code, 2);
  EXPECT_NE(stall.err.find("--fidelity rtl"), std::string::npos) << stall.err;
  NpyArray array{"|u1", {2, 8, 8, 2}, std::vector<std::byte>(256)};
  ASSERT_TRUE(write_npy(directory_.path() / "in.npy", array).ok());
  const Outcome type = run({"--inputs", (directory_.path() / "in.npy").string()});
  EXPECT_EQ(type.exit_code, 2);
  EXPECT_NE(type.err.find("'x'"), std::string::npos) << type.err;
  array = {"<f4", {2, 8, 8, 1}, std::vector<std::byte>(512)};
  ASSERT_TRUE(write_npy(directory_.path() / "in.npy", array).ok());
  EXPECT_EQ(run({"--inputs", (directory_.path() / "in.npy").string()}).exit_code, 2);
  EXPECT_EQ(run_program({kMillrace, "verify", (directory_.path() / "nothing").string()}).exit_code, 2);
}

TEST_F(Verify, RefusesADamagedImage) {
  for (const auto& entry : fs::directory_iterator(deployment_ / "images")) {
    std::ofstream(entry.path(), std::ios::app) << "more";
    break;
  }
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("images/"), std::string::npos) << outcome.err;
}

TEST(DevicesCommand, ListsAndChecksTheCardsOfAnEmulatedCluster) {
  const std::string cluster = std::string(tests::source_dir()) + "/configs/clusters/three-ku060.yaml";
  const Outcome outcome = run_program({kMillrace, "devices", "--cluster", cluster, "--check", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value document = json::parse(outcome.out);
  ASSERT_EQ(document.at("devices").as_array().size(), 3U);
  EXPECT_EQ(document.at("devices").at(2).at("name"), "fpga2");
  EXPECT_EQ(document.at("devices").at(2).at("state"), "ready");
  EXPECT_EQ(document.at("cables").as_array().size(), 2U);
  EXPECT_TRUE(document.at("emulated").as_bool());
}

TEST(DevicesCommand, ErrorWithoutXrtAdvisesToNameACluster) {
  const Outcome outcome = run_program({"/usr/bin/env", "-u", "XILINX_XRT", kMillrace, "devices"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.err.find("--cluster"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::tests::test_verify
