// Checks the measurements of tools/model-forms (forms.json): every shared model compiles, verifies and answers over HTTP on
// one and three emulated cards, and agrees with ONNX Runtime. Runs the script itself on a few small models.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tests/support/readme.hpp"

namespace millrace::tests::test_forms {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

/// The folder of the shared models; empty if MILLRACE_MODELS names none.
fs::path shared_models() {
  const char* folder = std::getenv("MILLRACE_MODELS");
  return folder != nullptr && fs::is_directory(folder) ? fs::path(folder) : fs::path();
}

json::array rows_of(const fs::path& file) {
  const auto text = read_text_file(file);
  if (!text.ok()) return {};
  return json::parse(*text).at("rows").as_array();
}

std::string name_of(const json::value& row) {
  return std::string(row.at("form").as_string());
}

std::uint64_t count(const json::value& row, const char* part, const char* key) {
  return row.at(part).at(key).to_number<std::uint64_t>();
}

const json::object* part(const json::value& row, const char* key) {
  const json::value* found = row.as_object().if_contains(key);
  return found == nullptr ? nullptr : found->if_object();
}

/// The .onnx files of the shared models, without ONNX's node tests, which lie a folder deeper.
std::vector<std::string> shared_forms() {
  std::vector<std::string> forms;
  for (const auto& net : fs::directory_iterator(shared_models())) {
    if (!net.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(net.path()))
      if (file.path().extension() == ".onnx") forms.push_back(file.path().stem().string());
  }
  std::sort(forms.begin(), forms.end());
  return forms;
}

class MeasuredModelForms : public testing::Test {
 protected:
  MeasuredModelForms() : rows_(rows_of(fs::path(source_dir()) / "tests/golden/forms.json")) {}

  json::array rows_;
};

TEST_F(MeasuredModelForms, EverySharedModelIsMeasuredOnOneAndThreeCards) {
  if (shared_models().empty()) GTEST_SKIP() << "MILLRACE_MODELS names no models";
  std::map<std::string, std::vector<std::int64_t>> cards;
  for (const json::value& row : rows_) cards[name_of(row)].push_back(row.at("cards").as_int64());
  for (const std::string& form : shared_forms())
    EXPECT_EQ(cards[form], (std::vector<std::int64_t>{1, 3})) << form << ": run tools/model-forms";
  EXPECT_EQ(cards.size(), shared_forms().size()) << "forms.json has forms that are no shared models";
}

TEST_F(MeasuredModelForms, AllOutputBytesEqualTheReferenceAndNoNodeIsUnsupported) {
  ASSERT_FALSE(rows_.empty());
  for (const json::value& row : rows_) {
    EXPECT_EQ(count(row, "verified", "mismatches"), 0U) << name_of(row);
    EXPECT_GE(count(row, "verified", "frames"), 8U) << name_of(row);
    EXPECT_EQ(count(row, "coverage", "nowhere"), 0U) << name_of(row);
  }
}

TEST_F(MeasuredModelForms, HostComputesOnlyBeforeTheFirstAndAfterTheLastCard) {
  for (const json::value& row : rows_)
    for (const json::value& block : row.at("host").as_array()) {
      const std::string partition(block.at("partition").as_string());
      EXPECT_TRUE(partition == "input" || partition == "output") << name_of(row) << ": " << partition;
    }
}

TEST_F(MeasuredModelForms, AccuracyEqualsThatOfOnnxRuntime) {
  std::size_t labelled = 0;
  for (const json::value& row : rows_) {
    const json::object& answers = row.at("answers").as_object();
    const json::value* right = answers.if_contains("right");
    if (right == nullptr) continue;
    ++labelled;
    const auto frames = count(row, "answers", "frames");
    const auto ours = right->to_number<std::int64_t>(),
               theirs = answers.at("right_in_onnxruntime").to_number<std::int64_t>();
    EXPECT_LE(std::abs(ours - theirs), std::max<std::int64_t>(1, static_cast<std::int64_t>(frames) / 1000))
        << name_of(row);
  }
  EXPECT_GE(labelled, 80U);
}

TEST_F(MeasuredModelForms, OutputsOfExactModelFormsEqualThoseOfOnnxRuntime) {
  std::size_t exact = 0;
  for (const json::value& row : rows_) {
    const std::string name = name_of(row);
    const bool is_exact = name.ends_with("_pow2") || name.find("_qop") != std::string::npos ||
                          name.find("_int_u8") != std::string::npos;
    // In resnet8_int8_qop, an average pool rounds some results halfway between two steps otherwise than ONNX Runtime
    // does, because its scale is no power of two (README.md). The layers behind the pool magnify the difference.
    if (!is_exact || name == "resnet8_int8_qop") continue;
    ++exact;
    EXPECT_EQ(count(row, "onnxruntime", "equal"), count(row, "onnxruntime", "outputs")) << name;
  }
  EXPECT_GE(exact, 32U);
}

std::string percent_of(std::uint64_t some, std::uint64_t all) {
  char text[32];
  std::snprintf(text, sizeof text, some == all ? "all" : "%.3f %%",
                100.0 * static_cast<double>(some) / static_cast<double>(all));
  return text;
}

/// Returns the largest difference between our outputs and ONNX Runtime's: in steps if the output is quantised,
/// otherwise as an absolute number.
std::string largest_difference(const json::object& agreement) {
  if (agreement.at("equal") == agreement.at("outputs")) return "none";
  char text[32];
  if (const json::value* steps = agreement.if_contains("largest_steps"); steps != nullptr)
    std::snprintf(text, sizeof text, "%.0f steps", steps->to_number<double>());
  else
    std::snprintf(text, sizeof text, "%.0e", agreement.at("largest").to_number<double>());
  return text;
}

/// Returns the names of the operators that run on the host, with their counts.
std::string host_operators(const json::value& row) {
  std::map<std::string, int> counts;
  for (const json::value& op : row.at("coverage").at("host").as_array())
    ++counts[std::string(op.as_string())];
  std::string text;
  for (const auto& [op, n] : counts)
    text += (text.empty() ? "" : ", ") + op + (n > 1 ? " (" + std::to_string(n) + ")" : "");
  return text.empty() ? "none" : text;
}

/// Returns the line of README.md that describes a model form. `row` is the form's row of forms.json for one card.
std::string line_of(const json::value& row) {
  const json::object* agreement = part(row, "onnxruntime");
  if (agreement == nullptr) agreement = part(row, "stored");
  const json::object& answers = row.at("answers").as_object();
  const bool labelled = answers.contains("right");
  const auto text = [&](const char* key) { return grouped(answers.at(key).to_number<std::uint64_t>()); };
  return table_row({"`" + name_of(row) + "`", host_operators(row), text("frames"),
                    percent_of(agreement->at("equal").to_number<std::uint64_t>(),
                               agreement->at("outputs").to_number<std::uint64_t>()),
                    largest_difference(*agreement), labelled ? text("right") : "",
                    labelled ? text("right_in_onnxruntime") : "", text("same_as_onnxruntime")});
}

TEST_F(MeasuredModelForms, ReadmeHasALineForEachModelForm) {
  for (const json::value& row : rows_) {
    if (row.at("cards").as_int64() != 1) continue;
    EXPECT_TRUE(has_line("tests/golden/README.md", line_of(row))) << "tests/golden/README.md lacks the line\n"
                                                                  << line_of(row);
  }
}

/// Runs the script tools/model-forms on a few inputs. The script must succeed today, as it did when it wrote
/// forms.json.
class ModelFormsScript : public testing::TestWithParam<std::string> {};

TEST_P(ModelFormsScript, OutputsOnOneAndThreeCardsEqualOnnxRuntime) {
  if (shared_models().empty()) GTEST_SKIP() << "MILLRACE_MODELS names no models";
  const TemporaryDirectory work("millrace-forms");
  std::string python;
  ASSERT_TRUE(find_python_with("numpy", python));
  const fs::path build = fs::path(millrace_binary()).parent_path().parent_path();
  const Outcome done =
      run_program({python, std::string(source_dir()) + "/tools/model-forms", "--forms", GetParam(), "--limit",
                   "40", "--output", (work.path() / "forms.json").string(), "--work",
                   (work.path() / "work").string(), "--build", build.string()});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(rows_of(work.path() / "forms.json").size(), 2U) << done.err;
}

INSTANTIATE_TEST_SUITE_P(Quick, ModelFormsScript,
                         testing::Values("jet_qkeras6b.qonnx", "mpcnn_float", "tfc_int_u8",
                                         "micro_kws_m_static_qoperator", "MNIST_int8"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace millrace::tests::test_forms
