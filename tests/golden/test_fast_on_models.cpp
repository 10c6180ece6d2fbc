// Runs kernels/fast on the shared models. At every SIMD level, every intermediate tensor that an observer receives must
// equal that of kernels/reference.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "kernels/fast/executor.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/golden/models.hpp"

namespace millrace::golden::test_fast_on_models {
namespace {

using kernels::fast::Executor;
using kernels::fast::SimdLevel;
using kernels::reference::Buffer;

struct Net {
  const char* folder;
  const char* file;
  std::vector<const char*> variants;
  std::size_t frames;
};

const std::vector<const char*> kOurs = {"qdq_u8_perch", "qdq_s8_perch",    "qdq_s8_pertensor_sym",
                                        "qdq_s8_pow2",  "qdq_w4_s8_perch", "qop_u8",
                                        "int_u8"};

const Net kNets[] = {
    {"lenet5_mnist", "lenet5", kOurs, 20},
    {"tfc_mnist", "tfc", kOurs, 20},
    {"pttdnn_cifar10", "ptt", kOurs, 10},
    {"mpcnn_gestures", "mpcnn", kOurs, 5},
    {"resnet8_cifar10", "resnet8", {"int8_qdq"}, 1},
    {"kws_dscnn", "kws", {"int8_qdq", "int8_qop"}, 2},
    {"vww_mobilenetv1_025", "vww", {"int8_qdq"}, 1},
};

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512Vnni};

class UnavailableSimdLevel : public ::testing::TestWithParam<SimdLevel> {};

/// The tests FastExecutorOnModels omit the SIMD levels that this CPU lacks. This test reports each omitted level as skipped.
TEST_P(UnavailableSimdLevel, IsReportedAsASkippedTest) {
  if (!kernels::fast::is_available(GetParam()))
    GTEST_SKIP() << "this CPU lacks level " << to_string(GetParam())
                 << ": the shared models were not run at it";
}

INSTANTIATE_TEST_SUITE_P(Zoo, UnavailableSimdLevel, ::testing::ValuesIn(kLevels),
                         [](const auto& level) { return std::string(to_string(level.param)); });

class FastExecutorOnModels : public ::testing::TestWithParam<Net> {};

TEST_P(FastExecutorOnModels, EveryTensorEqualsTheReferenceAtEverySimdLevel) {
  const Net& net = GetParam();
  if (models_directory().empty())
    GTEST_SKIP() << "MILLRACE_MODELS does not name the directory of shared models";
  const auto frames = load_frames(net.folder);
  ASSERT_TRUE(frames) << frames.error().message();
  for (const char* variant : net.variants) {
    const auto compiled =
        compile_model(models_directory() / net.folder / (std::string(net.file) + "_" + variant + ".onnx"));
    ASSERT_TRUE(compiled) << variant << ": " << compiled.error().message();
    const kernels::Program& program = compiled->program;
    std::vector<Buffer> expected(program.tensors.size());
    Buffer output(program.tensors[program.outputs[0]].storage_bytes());
    std::byte* const outputs[] = {output.data()};
    for (std::size_t i = 0; i < std::min(net.frames, frames->count); ++i) {
      Buffer input(frames->elements * sizeof(float));
      std::memcpy(input.data(), frames->frame(i), input.size());
      kernels::reference::run(program, {input},
                              [&](kernels::TensorIndex t, const Buffer& bytes) { expected[t] = bytes; });
      const std::byte* const inputs[] = {input.data()};
      for (const SimdLevel level : kLevels) {
        if (!kernels::fast::is_available(level)) continue;
        Executor(program, level)
            .run(inputs, outputs, [&](kernels::TensorIndex t, std::span<const std::byte> bytes) {
              ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected[t].begin(), expected[t].end()))
                  << variant << ", frame " << i << ", level " << to_string(level) << ", tensor "
                  << program.tensors[t].name;
            });
        ASSERT_EQ(output, expected[program.outputs[0]])
            << variant << ", frame " << i << ", level " << to_string(level);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, FastExecutorOnModels, ::testing::ValuesIn(kNets),
                         [](const auto& net) { return std::string(net.param.file); });

}  // namespace
}  // namespace millrace::golden::test_fast_on_models
