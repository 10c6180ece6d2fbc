// A test environment that belongs to one source file. Several test files are linked into one program, and the global
// environments of GoogleTest would be set up for all of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>

namespace millrace::tests {

/// Sets up `environment` only if a test of the source file `file` runs.
class FileEnvironment : public testing::Environment {
 public:
  FileEnvironment(std::string_view file, std::unique_ptr<testing::Environment> environment)
      : file_(file), environment_(std::move(environment)) {}

  void SetUp() override {
    if (runs()) environment_->SetUp();
  }
  void TearDown() override {
    if (runs()) environment_->TearDown();
  }

 private:
  bool runs() const {
    const testing::UnitTest& program = *testing::UnitTest::GetInstance();
    for (int i = 0; i < program.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *program.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count(); ++j)
        if (suite.GetTestInfo(j)->should_run() && suite.GetTestInfo(j)->file() == file_) return true;
    }
    return false;
  }

  std::string_view file_;
  std::unique_ptr<testing::Environment> environment_;
};

/// Registers an Environment for the tests of `file`, which is the caller's __FILE__. Call it before main(). GoogleTest
/// owns the result.
template <class Environment>
testing::Environment* add_file_environment(const char* file) {
  return testing::AddGlobalTestEnvironment(new FileEnvironment(file, std::make_unique<Environment>()));
}

}  // namespace millrace::tests
