#include "tests/support/entries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tests {
namespace {

using Files = std::vector<std::string_view>;

/// Whether the test is in one of the files, whose paths start at the source folder. The compiler may know the file by a
/// longer path.
bool is_in(const testing::TestInfo& test, const Files& files) {
  return std::any_of(files.begin(), files.end(), [&](std::string_view file) {
    std::string_view path = test.file();
    if (!path.ends_with(file)) return false;
    path.remove_suffix(file.size());
    return path.empty() || path.ends_with('/');
  });
}

/// Returns a filter of GoogleTest that matches exactly the tests in the files or, if `inside` is false, all others.
std::string filter_of(const Files& files, bool inside) {
  std::string filter;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    std::string names;
    bool whole = true;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (is_in(test, files) != inside) {
        whole = false;
      } else {
        names += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
    filter += whole ? std::string(suite.name()) + ".*:" : names;
  }
  return filter;
}

}  // namespace

int run_entry(int count, char** arguments, std::span<const EntryFile> files) {
  testing::InitGoogleTest(&count, arguments);
  const std::string entry = std::filesystem::path(arguments[0]).filename().string();
  Files wanted;
  for (const EntryFile& file : files) {
    if (file.entry == entry) wanted.push_back(file.file);
  }
  if (wanted.empty()) return RUN_ALL_TESTS();

  const std::string inside = filter_of(wanted, true);
  if (inside.empty()) {
    std::cerr << entry << ": its files contain no test; the first is " << wanted.front() << "\n";
    return 1;
  }
  std::string filter = GTEST_FLAG_GET(filter);
  if (filter == "*") {
    filter = inside;
  } else {
    filter += filter.find('-') == std::string::npos ? "-" : ":";
    filter += filter_of(wanted, false);
  }
  GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}

}  // namespace millrace::tests
