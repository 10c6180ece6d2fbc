// Tests that a program with several ctest entries runs the right tests for each of them (tests/support/entries.hpp).

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "runtime/base/process.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests::test_entries {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "tests_runtime";  // contains this test

fs::path folder() {
  return fs::path(binary_dir()) / "tests";
}

/// Returns the full names of the tests that a program would run.
std::set<std::string> tests_of(const std::string& program, const std::string& filter = "*") {
  const auto outcome =
      run_child({(folder() / program).string(), "--gtest_list_tests", "--gtest_filter=" + filter});
  EXPECT_TRUE(outcome.ok() && outcome->ok()) << program;
  std::set<std::string> tests;
  if (!outcome.ok()) return tests;
  std::istringstream lines(outcome->output);
  std::string suite;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("  #"));  // a parameter follows
    if (line.starts_with("  ")) {
      EXPECT_TRUE(tests.insert(suite + line.substr(2)).second) << line;
    } else {
      suite = line;
    }
  }
  return tests;
}

TEST(Entries, EachTestCaseOfASharedTestProgramBelongsToOneCtestEntry) {
  std::set<std::string> tests = tests_of(kProgram);
  EXPECT_TRUE(tests.contains("Entries.EachTestCaseOfASharedTestProgramBelongsToOneCtestEntry"));
  int entries = 0;
  for (const auto& file : fs::directory_iterator(folder())) {
    if (!file.is_symlink() || fs::read_symlink(file) != kProgram) continue;
    ++entries;
    const std::set<std::string> own = tests_of(file.path().filename().string());
    EXPECT_FALSE(own.empty()) << file.path();
    for (const std::string& test : own) EXPECT_EQ(tests.erase(test), 1U) << test << " has another entry too";
  }
  EXPECT_GT(entries, 1);
  for (const std::string& test : tests) ADD_FAILURE() << test << " has no entry";
}

TEST(Entries, AGoogleTestFilterSelectsAmongTheTestCasesOfACtestEntry) {
  const std::set<std::string> digest = tests_of("test_base", "Digest.*:Entries.*");
  EXPECT_EQ(digest, tests_of(kProgram, "Digest.*"));
  const std::set<std::string> fewer = tests_of("test_base", "Digest.*-*Whole");
  EXPECT_EQ(fewer, std::set<std::string>{"Digest.Sha256OfAbcEqualsTheExampleOfTheStandard"});
  EXPECT_TRUE(tests_of("test_base", "Entries.*").empty());
}

}  // namespace
}  // namespace millrace::tests::test_entries
