// Compiles every quantised variant of the four nets for one, two and three cards and compares the outputs of the
// emulated cards with the reference byte for byte.

#include <gtest/gtest.h>

#include "compiler/compile.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "tests/golden/models.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::golden::test_on_cards {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFrames = 12;
const fs::path kCluster = fs::path(tests::source_dir()) / "configs/clusters/three-ku060.yaml";

struct Net {
  const char* folder;
  const char* stem;
};
constexpr Net kNets[] = {
    {"lenet5_mnist", "lenet5"}, {"tfc_mnist", "tfc"}, {"pttdnn_cifar10", "ptt"}, {"mpcnn_gestures", "mpcnn"}};
constexpr const char* kVariants[] = {"qdq_u8_perch", "qdq_s8_perch",    "qdq_s8_pertensor_sym",
                                     "qdq_s8_pow2",  "qdq_w4_s8_perch", "qop_u8",
                                     "int_u8"};

using Bytes = std::vector<std::byte>;

Result<std::unique_ptr<runtime::pipeline::Pipeline>> deploy(const fs::path& model, std::uint32_t partitions,
                                                            const fs::path& directory) {
  compiler::CompileOptions options;
  options.model = model;
  options.cluster = kCluster;
  options.output = directory;
  options.partitions = partitions;
  const auto compiled = compiler::compile(options);
  if (!compiled.ok()) return compiled.error();
  MILLRACE_ASSIGN(auto loaded, runtime::plan::load_deployment(directory));
  MILLRACE_ASSIGN(const auto cluster, runtime::plan::load_cluster(kCluster));
  MILLRACE_TRY(runtime::emulator::select_backend(cluster));
  return runtime::pipeline::Pipeline::open(
      std::make_shared<const runtime::plan::LoadedDeployment>(std::move(loaded)), cluster, {});
}

/// Runs frames one at a time and compares each output with `expected`, the reference's outputs of the uncut model.
void expect_reference_bytes(runtime::pipeline::Pipeline& pipeline, const Frames& inputs,
                            const std::vector<Bytes>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Bytes output(expected[i].size());
    runtime::pipeline::Frame frame;
    frame.inputs = {std::as_bytes(std::span(inputs.frame(i), inputs.elements))};
    frame.outputs = {std::span(output)};
    const Status status = pipeline.infer(frame);
    ASSERT_TRUE(status.ok()) << "frame " << i << ": " << status.error().message();
    ASSERT_EQ(output, expected[i]) << "frame " << i;
  }
}

class ModelsOnCards : public ::testing::TestWithParam<std::tuple<Net, const char*>> {};

TEST_P(ModelsOnCards, OutputsOnOneTwoAndThreeCardsEqualTheReference) {
  const auto& [net, variant] = GetParam();
  if (models_directory().empty()) GTEST_SKIP() << "set MILLRACE_MODELS to the folder of shared models";
  const fs::path model = models_directory() / net.folder / (std::string(net.stem) + "_" + variant + ".onnx");
  const auto compiled = compile_model(model);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  log::configure(log::Level::kWarning, false);
  const auto inputs = load_frames(net.folder);
  ASSERT_TRUE(inputs.ok()) << inputs.error().message();

  std::vector<Bytes> expected;
  for (std::size_t i = 0; i < kFrames; ++i) {
    const auto bytes = std::as_bytes(std::span(inputs->frame(i), inputs->elements));
    expected.push_back(kernels::reference::run(compiled->program, {Bytes(bytes.begin(), bytes.end())}).at(0));
  }
  for (std::uint32_t cards = 1; cards <= 3; ++cards) {
    SCOPED_TRACE(std::to_string(cards) + " cards");
    const TemporaryDirectory directory("millrace-on-cards");
    const auto pipeline = deploy(model, cards, directory.path() / "d");
    ASSERT_TRUE(pipeline.ok()) << pipeline.error().message();
    ASSERT_EQ((*pipeline)->status().cards.size(), cards);
    expect_reference_bytes(**pipeline, *inputs, expected);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ModelsOnCards,
                         ::testing::Combine(::testing::ValuesIn(kNets), ::testing::ValuesIn(kVariants)),
                         [](const auto& parameters) {
                           return std::string(std::get<0>(parameters.param).stem) + "_" +
                                  std::get<1>(parameters.param);
                         });

}  // namespace
}  // namespace millrace::golden::test_on_cards
