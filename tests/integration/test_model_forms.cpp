// Compiles, verifies and serves every quantised form of the models in tests/vectors and, if the variable
// MILLRACE_MODELS names a folder, of the models in it. Each runs on one emulated card, and every answer must
// equal the reference's.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/base/file.hpp"
#include "served_model.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests::test_model_forms {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForms[] = {"qdq_s8_pow2",  "qdq_s8_pertensor_sym", "qdq_s8_perch",
                                  "qdq_u8_perch", "qdq_w4_s8_perch",      "qop_u8",
                                  "int_u8"};

struct Net {
  const char* folder;
  const char* prefix;
};
constexpr Net kNets[] = {
    {"lenet5_mnist", "lenet5"}, {"tfc_mnist", "tfc"}, {"pttdnn_cifar10", "ptt"}, {"mpcnn_gestures", "mpcnn"}};

/// Returns the paths of all model forms, relative to tests/vectors or to the folder MILLRACE_MODELS.
std::vector<std::string> all_forms() {
  std::vector<std::string> out;
  for (const Net& net : kNets)
    for (const char* form : kForms)
      out.push_back(std::string(net.folder) + "/" + net.prefix + "_" + form + ".onnx");
  return out;
}

/// Returns the model's path in tests/vectors or in the folder MILLRACE_MODELS, or an empty path if neither
/// contains the model.
fs::path find(const std::string& model) {
  const fs::path own = fs::path(tests::source_dir()) / "tests/vectors" / model;
  if (fs::exists(own)) return own;
  const char* shared = std::getenv("MILLRACE_MODELS");
  if (shared == nullptr || !fs::exists(fs::path(shared) / model)) return {};
  return fs::path(shared) / model;
}

class ModelFormats : public testing::TestWithParam<std::string> {};

TEST_P(ModelFormats, ModelIsCompiledVerifiedAndServedOnOneCard) {
  const fs::path model = find(GetParam());
  if (model.empty())
    GTEST_SKIP() << GetParam() << " is not there: set MILLRACE_MODELS to the folder of shared models";
  const TemporaryDirectory directory("millrace-forms");
  const fs::path deployment = directory.path() / "deployment";
  const Outcome compiled = compile_model(model, write_one_card(directory.path(), "ku060"), deployment);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  expect_verified(deployment);
  expect_served(deployment, program_of(model));
}

INSTANTIATE_TEST_SUITE_P(Ours, ModelFormats, testing::ValuesIn(all_forms()),
                         [](const auto& param) { return fs::path(param.param).stem().string(); });

}  // namespace
}  // namespace millrace::tests::test_model_forms
