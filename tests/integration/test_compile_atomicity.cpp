// Tests which files `millrace compile` leaves on disk when it ends, is interrupted or is killed, and how
// often it waits for the disk.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/strace.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_compile_atomicity {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class CompileAtomicity : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(installed({"strace"})); }

  Words compile(const Words& more = {}) const {
    Words command{millrace_binary(),
                  "compile",
                  (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(),
                  "--cluster",
                  (kSource / "configs/clusters/three-ku060.yaml").string(),
                  "--partitions",
                  "3",
                  "--quiet",
                  "-o",
                  target_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  bool is_writing() const {
    const auto names = left();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.starts_with(".net.tmp."); });
  }

  const fs::path kSource = tests::source_dir();
  TemporaryDirectory directory_{"millrace-atomicity"};
  fs::path target_ = directory_.path() / "net";
};

std::vector<std::size_t> lines_with(const std::string& trace, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::size_t> found;
  std::istringstream in(trace);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line); ++number)
    if (std::regex_search(line, expression)) found.push_back(number);
  return found;
}

TEST_F(CompileAtomicity, SyncsAllFilesOnceAndThenRenamesTheDirectory) {
  const TemporaryDirectory outside("millrace-trace");
  const fs::path log = outside.path() / "trace";
  const Outcome outcome = run_program(
      traced({"-o", log.string(), "-e", "trace=openat,fsync,fdatasync,syncfs,sync,sync_file_range,renameat2"},
             compile()));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto files = std::distance(fs::recursive_directory_iterator(target_), {});
  ASSERT_GT(files, 100) << "too few files to tell one wait from many";
  const std::string trace = *read_text_file(log);
  const auto all = lines_with(trace, R"( (fsync|fdatasync|syncfs|sync|sync_file_range)\()");
  const auto whole = lines_with(trace, R"( syncfs\()"), renamed = lines_with(trace, R"( renameat2\()");
  const auto sums = lines_with(trace, R"( openat\(.*/CHECKSUMS", O_WRONLY)");
  ASSERT_EQ(whole.size(), 1U);
  ASSERT_EQ(renamed.size(), 1U);
  ASSERT_EQ(sums.size(), 1U);
  ASSERT_EQ(all.size(), 2U) << "the files' and, after the rename, the parent directory's";
  EXPECT_TRUE(sums[0] < whole[0] && whole[0] < renamed[0] && renamed[0] < all[1]);
}

TEST_F(CompileAtomicity, LeavesNothingBehindWhenASignalInterruptsCompile) {
  for (const int signal : {SIGINT, SIGTERM}) {
    BackgroundProgram program(on_a_slow_disk(compile()));
    ASSERT_TRUE(wait_until([&] { return is_writing(); })) << program.err();
    EXPECT_EQ(program.stop(signal), 128 + signal);
    EXPECT_EQ(program.err(), "millrace compile: error: interrupted; nothing written\n");
    EXPECT_EQ(left(), Words());
  }
}

TEST_F(CompileAtomicity, AnInterruptedCompileKeepsTheOlderDeployment) {
  ASSERT_EQ(run_program(compile()).exit_code, 0);
  const auto before = read_text_file(target_ / "CHECKSUMS");
  BackgroundProgram program(on_a_slow_disk(compile({"--name", "other", "--json"})));
  ASSERT_TRUE(wait_until([&] { return is_writing(); })) << program.err();
  EXPECT_EQ(program.stop(SIGINT), 128 + SIGINT);
  EXPECT_NE(program.err().find(R"("error":"interrupted; nothing written","exit_code":130})"),
            std::string::npos)
      << program.err();
  EXPECT_EQ(left(), Words{"net"});
  EXPECT_EQ(*read_text_file(target_ / "CHECKSUMS"), *before);
}

TEST_F(CompileAtomicity, CompileRemovesFilesOfAKilledCompilerButNotOfARunningCompiler) {
  BackgroundProgram living(on_a_slow_disk(compile()));
  ASSERT_TRUE(wait_until([&] { return is_writing(); })) << living.err();
  const Words of_living = left();
  {
    BackgroundProgram killed(on_a_slow_disk(compile(), 3));
    ASSERT_TRUE(wait_until([&] { return left().size() == 2; })) << killed.err();
    killed.stop(SIGKILL);
  }
  ASSERT_EQ(left().size(), 2U) << "a killed run leaves what it wrote";
  ASSERT_EQ(run_program(compile()).exit_code, 0);
  EXPECT_EQ(left(), (Words{of_living[0], "net"}));
  EXPECT_EQ(living.stop(SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(left(), Words{"net"});
}

}  // namespace
}  // namespace millrace::tests::test_compile_atomicity
