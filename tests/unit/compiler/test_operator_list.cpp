// Compares the list of operators in compiler/operators/README.md with the operator table. If the table has changed, run
// MILLRACE_UPDATE_GOLDEN=1 test_compiler_coverage and read the difference.
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "compiler/operators/operators.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::operators::test_operator_list {
namespace {

namespace fs = std::filesystem;

constexpr char kBegin[] = "<!-- the list of operators begins -->\n";
constexpr char kEnd[] = "<!-- the list of operators ends -->\n";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Returns the text of all test programs that compile operators, except this program.
std::string text_of_tests() {
  std::string text;
  for (const char* folder : {"unit/compiler", "golden", "integration", "dialects"})
    for (const auto& entry : fs::directory_iterator(fs::path(tests::source_dir()) / "tests" / folder)) {
      const fs::path type = entry.path().extension();
      if ((type == ".cpp" || type == ".py") && entry.path().filename() != "test_operator_list.cpp")
        text += read(entry.path());
    }
  return text;
}

TEST(OperatorList, ReadmeHasTheOperatorTable) {
  const fs::path path = fs::path(tests::source_dir()) / "compiler/operators/README.md";
  std::string text = read(path);
  const auto begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const auto from = begin + std::string(kBegin).size();
  if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) {
    text.replace(from, end - from, operator_table());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), operator_table())
      << "if the change is intended: MILLRACE_UPDATE_GOLDEN=1 test_compiler_coverage";
}

TEST(OperatorList, EveryOperatorWithHardwareHasATest) {
  const std::string tests = text_of_tests();
  for (const ListedOperator& op : listed_operators())
    if (op.hardware == Computed::kYes) {
      EXPECT_NE(tests.find('"' + op.type + '"'), std::string::npos) << op.type << " has no test";
    }
}

TEST(OperatorList, ContainsEveryOperatorThatTheHostComputes) {
  const auto list = listed_operators();
  for (const std::string_view type : kernels::host::operators())
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [type](const ListedOperator& op) {
      return op.type == type && (op.host || !op.domain.empty());
    })) << type;
}

/// Returns how many inputs the definitions of each ONNX operator allow at most, in the operator sets from 7 on that
/// libonnx knows.
std::map<std::string, int> most_inputs_in_definitions() {
  constexpr int kOldestSet = 7;
  std::map<std::string, std::map<int, int>> versions;  // by operator and the first set that has the version
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history())
    if (schema.domain().empty()) versions[schema.Name()][schema.SinceVersion()] = schema.max_input();
  std::map<std::string, int> most;
  for (const auto& [name, inputs] : versions) {
    auto version = inputs.upper_bound(kOldestSet);
    if (version != inputs.begin()) --version;
    for (; version != inputs.end(); ++version) most[name] = std::max(most[name], version->second);
  }
  return most;
}

TEST(OperatorList, EveryOperatorTakesAsManyInputsAsItsDefinitionsAllow) {
  const std::map<std::string, int> most = most_inputs_in_definitions();
  ASSERT_EQ(most.at("Conv"), 3);
  // Newer operator sets, which libonnx does not know, give Pad and the reductions one more input: their axes.
  const auto has_new_axes = [](const std::string& type) {
    return type == "Pad" || (type.starts_with("Reduce") && type != "ReduceSum");
  };
  std::size_t compared = 0;
  for (const ListedOperator& op : listed_operators()) {
    const auto it = most.find(op.type);
    if (!op.domain.empty() || it == most.end()) continue;
    const auto ours = most_inputs({"", op.type, 13, {}});
    EXPECT_EQ(ours ? static_cast<int>(*ours) : INT_MAX, it->second + (has_new_axes(op.type) ? 1 : 0))
        << op.type;
    ++compared;
  }
  EXPECT_GT(compared, 100U);
}

TEST(OperatorList, TextOfEachLimitFitsACellOfTheReadmeTable) {
  for (const ListedOperator& op : listed_operators()) {
    EXPECT_EQ(op.limits.find_first_of("|\n"), std::string::npos) << op.type;
    EXPECT_FALSE(op.limits.ends_with(".")) << op.type;
  }
}

}  // namespace
}  // namespace millrace::compiler::operators::test_operator_list
