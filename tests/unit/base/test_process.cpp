#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>

#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"

namespace millrace::test_process {
namespace {

TEST(Process, RunChildReturnsBothOutputsAndTheExitCode) {
  const auto outcome = run_child({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->output, "out\nerr\n");
  EXPECT_EQ(outcome->exit_code, 7);
  EXPECT_FALSE(outcome->ok());
}

TEST(Process, RunChildReturnsTheSignalThatEndedTheProgram) {
  const auto outcome = run_child({"/bin/sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->signal, SIGKILL);
  EXPECT_FALSE(outcome->ok());
}

TEST(Process, RunChildUsesTheGivenDirectoryAndPassesNoDescriptors) {
  const TemporaryDirectory directory("millrace-process");
  const auto where = run_child({"/bin/pwd", "-P"}, directory.path());
  ASSERT_TRUE(where.ok());
  EXPECT_EQ(where->output, std::filesystem::canonical(directory.path()).string() + "\n");
  const auto open = run_child({"/bin/ls", "/proc/self/fd"});
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->output, "0\n1\n2\n3\n");  // descriptor 3 is the one with which ls reads the directory
}

TEST(Process, AMissingProgramOrDirectoryIsReportedAsAnErrorOfTheEnvironment) {
  EXPECT_FALSE(find_program("millrace-no-such-program").has_value());
  ASSERT_TRUE(find_program("sh").has_value());
  EXPECT_FALSE(find_program("/etc/passwd").has_value());
  const auto outcome = run_child({"/nothing/here"});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(outcome.error().message().find("/nothing/here"), std::string::npos);
  const auto folder = run_child({"/bin/pwd"}, "/nothing/here");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code(), ErrorCode::kEnvironment);
}

TEST(Process, RunChildKeepsTheEndOfALongOutput) {
  const auto outcome = run_child({"/bin/sh", "-c", "yes | head -c 5000000; echo last"});
  ASSERT_TRUE(outcome.ok());
  EXPECT_LE(outcome->output.size(), 1U << 20);
  EXPECT_TRUE(outcome->output.ends_with("last\n"));
}

}  // namespace
}  // namespace millrace::test_process
