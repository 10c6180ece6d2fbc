// Checks that every quantised variant of the shared models can be planned, except the models in kRefused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"
#include "tests/golden/models.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::test_plannable {
namespace {

namespace fs = std::filesystem;

/// The models that the importer does not accept yet; each has a part of the error message.
const std::map<std::string, std::string> kRefused = {};

/// Whether the model has no quantisers. All models in the folder of DOSA are float models, whatever their names say.
bool is_float(const fs::path& model) {
  const std::string name = model.stem().string();
  return name.ends_with("_float") || name.ends_with("_fp32") ||
         model.parent_path().filename() == "dosa_originals";
}

/// Returns all quantised models that lie directly in a folder of the shared models.
std::vector<fs::path> quantised_models() {
  std::vector<fs::path> models;
  for (const auto& net : fs::directory_iterator(golden::models_directory())) {
    if (!net.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(net.path()))
      if (file.path().extension() == ".onnx" && !is_float(file.path())) models.push_back(file.path());
  }
  std::sort(models.begin(), models.end());
  return models;
}

TEST(SharedQuantisedModels, EveryModelIsPlannedUnlessListedAsRefused) {
  if (golden::models_directory().empty())
    GTEST_SKIP() << "MILLRACE_MODELS does not name the directory of shared models";
  std::size_t planned = 0, refused = 0;
  for (const fs::path& model : quantised_models()) {
    SCOPED_TRACE(model.string());
    PlanOptions options;
    options.model = model;
    options.cluster = fs::path(tests::source_dir()) / "configs/clusters/four-u280.yaml";
    const auto plan = make_plan(options);
    const auto expected = kRefused.find(model.stem().string());
    if (expected == kRefused.end()) {
      EXPECT_TRUE(plan.ok()) << plan.error().message();
      planned += plan.ok() ? 1 : 0;
      continue;
    }
    ++refused;
    if (plan.ok())
      ADD_FAILURE() << "is planned now: take it off the list";
    else
      EXPECT_NE(plan.error().message().find(expected->second), std::string::npos) << plan.error().message();
  }
  EXPECT_EQ(refused, kRefused.size()) << "a model of the list is not there";
  EXPECT_GE(planned, 38U);
}

}  // namespace
}  // namespace millrace::compiler::test_plannable
