// Compiles the shared models whole, runs them with kernels/reference and kernels/fast, and compares the
// outputs with the golden files and with ONNX Runtime.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <vector>

#include "tests/golden/models.hpp"

namespace millrace::golden::test_models {
namespace {

/// How closely the outputs must agree with the golden file.
enum class Rule {
  kExact,      // every output is equal
  kQuantised,  // at least 99 % are equal, 99.9 % within one step, none off by more than two steps
  kFloatTail,  // the model ends in a float32 softmax: outputs differ by at most 1e-6
  kSoftmax,    // the model ends in a quantised softmax, which magnifies a difference of one step
};

/// How closely the outputs must agree with ONNX Runtime on all supplied inputs. ONNX Runtime runs with its
/// default optimisations, which fuse QDQ graphs.
enum class Fused {
  kExact,   // QOperator models, integer models, power-of-two scales, and QDQ graphs that are fused completely
  kNearly,  // one layer stays in float, such as an average: 99.9 % are equal, all within one step
  kUnlike,  // not compared: a softmax at the end, or averages that float32 rounds to a tie
};

struct Model {
  const char* net;
  const char* name;
  Rule rule;
  Fused fused;
};

std::ostream& operator<<(std::ostream& out, const Model& m) {
  return out << m.name;
}

constexpr Model kModels[] = {
    {"lenet5_mnist", "lenet5_qdq_s8_pow2", Rule::kExact, Fused::kExact},
    {"lenet5_mnist", "lenet5_qdq_u8_perch", Rule::kQuantised, Fused::kExact},
    {"lenet5_mnist", "lenet5_qdq_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"lenet5_mnist", "lenet5_qdq_s8_pertensor_sym", Rule::kQuantised, Fused::kNearly},
    {"lenet5_mnist", "lenet5_qdq_w4_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"lenet5_mnist", "lenet5_qop_u8", Rule::kQuantised, Fused::kExact},
    {"lenet5_mnist", "lenet5_int_u8", Rule::kQuantised, Fused::kExact},
    {"tfc_mnist", "tfc_qdq_s8_pow2", Rule::kExact, Fused::kExact},
    {"tfc_mnist", "tfc_qdq_u8_perch", Rule::kQuantised, Fused::kExact},
    {"tfc_mnist", "tfc_qdq_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"tfc_mnist", "tfc_qdq_s8_pertensor_sym", Rule::kQuantised, Fused::kNearly},
    {"tfc_mnist", "tfc_qdq_w4_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"tfc_mnist", "tfc_qop_u8", Rule::kQuantised, Fused::kExact},
    {"tfc_mnist", "tfc_int_u8", Rule::kQuantised, Fused::kExact},
    {"pttdnn_cifar10", "ptt_qdq_s8_pow2", Rule::kExact, Fused::kExact},
    {"pttdnn_cifar10", "ptt_qdq_u8_perch", Rule::kQuantised, Fused::kExact},
    {"pttdnn_cifar10", "ptt_qdq_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"pttdnn_cifar10", "ptt_qdq_s8_pertensor_sym", Rule::kQuantised, Fused::kNearly},
    {"pttdnn_cifar10", "ptt_qdq_w4_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"pttdnn_cifar10", "ptt_qop_u8", Rule::kQuantised, Fused::kExact},
    {"pttdnn_cifar10", "ptt_int_u8", Rule::kQuantised, Fused::kExact},
    {"mpcnn_gestures", "mpcnn_qdq_s8_pow2", Rule::kExact, Fused::kExact},
    {"mpcnn_gestures", "mpcnn_qdq_u8_perch", Rule::kQuantised, Fused::kExact},
    {"mpcnn_gestures", "mpcnn_qdq_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"mpcnn_gestures", "mpcnn_qdq_s8_pertensor_sym", Rule::kQuantised, Fused::kNearly},
    {"mpcnn_gestures", "mpcnn_qdq_w4_s8_perch", Rule::kQuantised, Fused::kNearly},
    {"mpcnn_gestures", "mpcnn_qop_u8", Rule::kQuantised, Fused::kExact},
    {"mpcnn_gestures", "mpcnn_int_u8", Rule::kQuantised, Fused::kExact},
    {"kws_dscnn", "kws_int8_qdq", Rule::kQuantised, Fused::kExact},
    {"kws_dscnn", "kws_int8_qop", Rule::kQuantised, Fused::kExact},
    {"vww_mobilenetv1_025", "vww_int8_qdq", Rule::kQuantised, Fused::kExact},
    {"vww_mobilenetv1_025", "vww_int8_qop", Rule::kQuantised, Fused::kExact},
    {"ad_autoencoder", "ad01_int8_qdq", Rule::kQuantised, Fused::kExact},
    {"ad_autoencoder", "ad01_int8_qop", Rule::kQuantised, Fused::kExact},
    {"jet_hls4ml_16_64_32_32_5", "jet_int8_qdq", Rule::kFloatTail, Fused::kUnlike},
    {"jet_hls4ml_16_64_32_32_5", "jet_qkeras6b.qonnx", Rule::kFloatTail, Fused::kUnlike},
    {"micro_kws_ortquant", "micro_kws_m_static_qdq", Rule::kQuantised, Fused::kUnlike},
    {"micro_kws_ortquant", "micro_kws_m_static_qoperator", Rule::kSoftmax, Fused::kUnlike},
    {"resnet8_cifar10", "resnet8_int8_qdq", Rule::kSoftmax, Fused::kUnlike},
    {"resnet8_cifar10", "resnet8_int8_qop", Rule::kSoftmax, Fused::kUnlike},
};

class SharedModel : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    if (models_directory().empty())
      GTEST_SKIP() << "MILLRACE_MODELS does not name the directory of shared models";
  }
  std::filesystem::path directory() const { return models_directory() / GetParam().net; }
  std::filesystem::path onnx() const { return directory() / (std::string(GetParam().name) + ".onnx"); }
};

double percent(std::size_t part, std::size_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

TEST_P(SharedModel, OutputsAgreeWithTheGoldenFile) {
  const auto compiled = compile_model(onnx());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  const auto inputs = load_frames(GetParam().net);
  ASSERT_TRUE(inputs.ok()) << inputs.error().message();
  // ONNX Runtime cannot run QONNX. The outputs of such a model come from an evaluator of its operators.
  std::filesystem::path file = directory() / (std::string(GetParam().name) + ".golden_ort.npy");
  if (!std::filesystem::exists(file))
    file = directory() / (std::string(GetParam().name) + ".golden_qref.npy");
  const auto golden = load_npy(file);
  ASSERT_TRUE(golden.ok()) << golden.error().message();

  // kernels/reference is slow on the larger nets, so it runs only the first frames; kernels/fast runs all frames.
  const std::size_t slow = 3;
  const Frames all = run_fast(compiled->program, *inputs, golden->count);
  const Frames some = run_reference(compiled->program, *inputs, std::min(slow, golden->count));
  const Agreement same = compare(some, all, some.count, 0);
  EXPECT_EQ(same.equal, same.outputs)
      << "reference and fast differ, first at output " << same.first_difference;

  ASSERT_EQ(all.elements, golden->elements);
  const Agreement a = compare(all, *golden, golden->count, output_step(compiled->program));
  std::printf("%s: %zu frames, %.4f %% of %zu outputs equal, %.4f %% within one step, worst %g\n",
              GetParam().name, golden->count, percent(a.equal, a.outputs), a.outputs,
              percent(a.within_one, a.outputs), a.worst_steps);
  switch (GetParam().rule) {
    case Rule::kExact:
      EXPECT_EQ(a.equal, a.outputs) << "first at output " << a.first_difference;
      break;
    case Rule::kQuantised:
      EXPECT_GE(percent(a.equal, a.outputs), 99.0);
      EXPECT_GE(percent(a.within_one, a.outputs), 99.9);
      EXPECT_LT(a.worst_steps, 2.5);
      break;
    case Rule::kFloatTail:
      EXPECT_LT(a.worst_steps, 1e-6);
      break;
    case Rule::kSoftmax:
      EXPECT_LT(a.worst_steps * output_step(compiled->program), 0.09);
      break;
  }
}

const kernels::Requantise* requantise_of(const kernels::Operation& operation) {
  if (const auto* c = std::get_if<kernels::Convolution>(&operation))
    return c->requantise ? &*c->requantise : nullptr;
  if (const auto* p = std::get_if<kernels::SumPool>(&operation)) return &p->requantise;
  if (const auto* r = std::get_if<kernels::Rescale>(&operation)) return &r->requantise;
  return nullptr;
}

/// A test of the models whose scales are all powers of two.
class PowerOfTwoModel : public SharedModel {};

TEST_P(PowerOfTwoModel, RequantisesWithShiftsAndWithoutThresholds) {
  const auto compiled = compile_model(onnx());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  std::size_t requantised = 0;
  for (const kernels::Block& block : compiled->program.blocks) {
    const kernels::Requantise* r = requantise_of(block.operation);
    if (r == nullptr) continue;
    ++requantised;
    EXPECT_NE(r->form, kernels::Requantise::Form::kThresholds) << block.name;
    for (const std::int32_t m : r->multiplier) EXPECT_LE(m, 1) << block.name;
  }
  EXPECT_GT(requantised, 3U);
}

/// A test of the models that are compared with ONNX Runtime. Other models are compared only with their golden files.
class ComparedModel : public SharedModel {};

TEST_P(ComparedModel, OutputsAgreeWithOnnxRuntimeOnAllSuppliedInputs) {
  const auto compiled = compile_model(onnx());
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  const auto inputs = load_frames(GetParam().net);
  ASSERT_TRUE(inputs.ok()) << inputs.error().message();
  const Status installed = onnxruntime_is_installed();
  ASSERT_TRUE(installed.ok()) << installed.error().message();
  const auto wanted = run_onnxruntime(onnx(), *inputs, compiled->info.inputs[0].shape);
  ASSERT_TRUE(wanted.ok()) << wanted.error().message();
  const Frames got = run_fast(compiled->program, *inputs, inputs->count);
  ASSERT_EQ(got.data.size(), wanted->data.size());
  const Agreement a = compare(got, *wanted, inputs->count, output_step(compiled->program));
  std::printf("%s: %zu frames, %zu outputs, %zu differ\n", GetParam().name, inputs->count, a.outputs,
              a.outputs - a.equal);
  if (GetParam().fused == Fused::kExact) {
    EXPECT_EQ(a.equal, a.outputs) << "first at output " << a.first_difference;
  } else {
    EXPECT_GE(percent(a.equal, a.outputs), 99.9);
    EXPECT_EQ(a.within_one, a.outputs);
  }
}

template <class Wanted>
std::vector<Model> models_that(Wanted wanted) {
  std::vector<Model> models;
  std::copy_if(std::begin(kModels), std::end(kModels), std::back_inserter(models), wanted);
  return models;
}

std::string name_of(const ::testing::TestParamInfo<Model>& model) {
  std::string name = model.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, SharedModel, ::testing::ValuesIn(kModels), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, PowerOfTwoModel, ::testing::ValuesIn(models_that([](const Model& m) {
                           return std::string_view(m.name).find("pow2") != std::string_view::npos;
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, ComparedModel, ::testing::ValuesIn(models_that([](const Model& m) {
                           return m.fused != Fused::kUnlike;
                         })),
                         name_of);

TEST(OnnxRuntime, AFailedRunIsReportedAsAnError) {
  const Status installed = onnxruntime_is_installed();
  ASSERT_TRUE(installed.ok()) << installed.error().message();
  const Frames frames{1, 4, {1, 2, 3, 4}};
  const auto failed = run_onnxruntime("no-such-model.onnx", frames, {1, 4});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kInternal) << failed.error().message();
}

class RefusedModel : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RefusedModel, ErrorNamesTheReasonOrTheRemedy) {
  if (models_directory().empty())
    GTEST_SKIP() << "MILLRACE_MODELS does not name the directory of shared models";
  const auto compiled = compile_model(models_directory() / GetParam().first);
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(compiled.error().message().find(GetParam().second), std::string::npos)
      << compiled.error().message();
}

INSTANTIATE_TEST_SUITE_P(Zoo, RefusedModel,
                         ::testing::Values(std::pair("lenet5_mnist/lenet5_float.onnx", "millrace quantize"),
                                           std::pair("tfc_mnist/tfc_float.onnx", "millrace quantize"),
                                           std::pair("pttdnn_cifar10/ptt_float.onnx", "millrace quantize"),
                                           std::pair("mpcnn_gestures/mpcnn_float.onnx", "millrace quantize"),
                                           std::pair("kws_dscnn/kws_float.onnx", "millrace quantize")));

}  // namespace
}  // namespace millrace::golden::test_models
