// Small QONNX and FINN nets of 1 to 8 bits, made by make_nets.py. Each output byte is compared with what the
// definitions of the operators give (evaluate.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/golden/models.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"

namespace millrace::tests::test_dialects {
namespace {

namespace fs = std::filesystem;

/// The nets that make_nets.py writes. A test fails if make_nets.py writes other nets.
const std::vector<std::string> kNets = {"tfc_w1a1",
                                        "tfc_w1a2",
                                        "tfc_w2a2",
                                        "tfc_w3a3",
                                        "tfc_w4a4",
                                        "cnn_w2a2",
                                        "cnn_w2a4",
                                        "cnn_w3a5",
                                        "cnn_w4a4_pow2",
                                        "cnn_w8a8",
                                        "cnn_w1a1",
                                        "cnn_w1a2",
                                        "cnn_w1a4",
                                        "cnn_w1a1_padded",
                                        "cnn_w1a3_padded",
                                        "mixed",
                                        "channels_last",
                                        "rounding_round",
                                        "rounding_floor",
                                        "rounding_ceil",
                                        "rounding_round_to_zero",
                                        "rounding_up",
                                        "rounding_down",
                                        "rounding_half_even",
                                        "rounding_half_up",
                                        "rounding_half_down",
                                        "truncated",
                                        "truncated_2_signed",
                                        "truncated_2_unsigned",
                                        "gemm",
                                        "finn_w1",
                                        "finn_w2",
                                        "finn_w3",
                                        "finn_w4",
                                        "finn_plain",
                                        "finn_scaled",
                                        "weights_u8"};

/// Makes all nets once for all tests.
class DialectNets : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>("millrace-dialects");
    std::string python;
    ASSERT_TRUE(find_python_with("numpy", python));
    const Outcome made =
        run_program({python, "-B", std::string(source_dir()) + "/tests/dialects/make_nets.py",
                     directory_->path().string()});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { directory_.reset(); }
  static fs::path file(const std::string& suffix) { return directory_->path() / (GetParam() + suffix); }

  static std::unique_ptr<TemporaryDirectory> directory_;
};

std::unique_ptr<TemporaryDirectory> DialectNets::directory_;

TEST_P(DialectNets, EveryOutputMatchesTheOperatorDefinitions) {
  const auto model = golden::compile_model(file(".onnx"));
  ASSERT_TRUE(model.ok()) << model.error().message();
  const auto inputs = golden::load_npy(file(".inputs.npy"));
  ASSERT_TRUE(inputs.ok()) << inputs.error().message();
  const auto wanted = golden::load_npy(file(".outputs.npy"));
  ASSERT_TRUE(wanted.ok()) << wanted.error().message();
  for (const bool fast : {false, true}) {
    const auto run = fast ? golden::run_fast : golden::run_reference;
    const golden::Frames got = run(model->program, *inputs, inputs->count);
    const golden::Agreement a = golden::compare(got, *wanted, inputs->count, 0);
    EXPECT_EQ(a.outputs, wanted->data.size());
    EXPECT_EQ(a.equal, a.outputs) << (fast ? "fast" : "reference") << ": " << a.outputs - a.equal
                                  << " outputs differ, first output " << a.first_difference << ": "
                                  << got.data[a.first_difference] << ", wanted "
                                  << wanted->data[a.first_difference];
  }
}

TEST_P(DialectNets, WeightsOfEveryLayerHaveAtMostEightBits) {
  // A weight that is a uint8 minus its zero point needs nine bits.
  const int most = GetParam() == "weights_u8" ? 9 : 8;
  const auto model = golden::compile_model(file(".onnx"));
  ASSERT_TRUE(model.ok()) << model.error().message();
  std::size_t layers = 0;
  for (const kernels::Block& block : model->program.blocks)
    if (const auto* layer = std::get_if<kernels::Convolution>(&block.operation)) {
      ++layers;
      EXPECT_LE(layer->weight_type.bits, most) << block.name;
    }
  EXPECT_GE(layers, 2U);
}

INSTANTIATE_TEST_SUITE_P(Made, DialectNets, testing::ValuesIn(kNets),
                         [](const auto& param) { return param.param; });

TEST(DialectNetList, HasAnEntryForEachNetThatTheScriptGenerates) {
  const TemporaryDirectory directory("millrace-dialects");
  std::string python;
  ASSERT_TRUE(find_python_with("numpy", python));
  const Outcome made = run_program(
      {python, "-B", std::string(source_dir()) + "/tests/dialects/make_nets.py", directory.path().string()});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  std::size_t models = 0;
  for (const auto& entry : fs::directory_iterator(directory.path()))
    models += entry.path().extension() == ".onnx" ? 1U : 0U;
  EXPECT_EQ(models, kNets.size());
}

}  // namespace
}  // namespace millrace::tests::test_dialects
