#include "tests/support/tools.hpp"

#include <filesystem>

#include "runtime/base/process.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests {
namespace {

testing::AssertionResult missing(const std::string& what) {
  return testing::AssertionFailure() << what << " is not installed: run 'tools/setup test'";
}

}  // namespace

testing::AssertionResult installed(std::initializer_list<const char*> programs) {
  for (const char* program : programs) {
    if (!find_program(program)) return missing(program);
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult node_package_installed(const std::string& package) {
  const std::filesystem::path packages = std::string(tests::source_dir()) + "/tests/node/node_modules";
  if (!std::filesystem::exists(packages / package)) return missing("the package " + package);
  return testing::AssertionSuccess();
}

}  // namespace millrace::tests
