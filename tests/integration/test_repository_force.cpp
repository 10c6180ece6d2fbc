// Tests that a version whose inputs or outputs differ from those of the current version replaces it only if
// the load is forced.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "runtime/base/file.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository_force {
namespace {

namespace fs = std::filesystem;

constexpr char kDifference[] =
    "its inputs and outputs differ from those of version '1', which serves: "
    "output 'y' was FP32 [1,4,4,4], is FP32 [1,4,4,5]";
constexpr char kRemedy[] = "millrace reload --model m --version 2 --force";

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct RepositoryForce : testing::Test {
  RepositoryForce() { host.add("1", chain_program(6)); }
  std::string serving() const {
    HttpConnection connection(host.port());
    const Answer answer = host.ask(connection, host.frame(1));
    EXPECT_TRUE(answer.status != 200 || answer.right);
    return answer.version;
  }
  int times(const std::string& text) {
    const std::string log = host.server().err();
    int count = 0;
    for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }
  /// Waits for two more polls. A newly added model is loaded by the second poll that finds it.
  void expect_polls_go_on() {
    host.add("1", chain_program(6), {}, "n");
    EXPECT_TRUE(host.eventually("1", "READY", "n"));
  }

  RepositoryHost host{6};
};

TEST_F(RepositoryForce, VersionWithDifferentOutputTensorsIsRefusedUnlessForced) {
  host.add("2", chain_program(6, 5));
  host.start();
  ASSERT_EQ(host.reload({"--version", "1"}).exit_code, 0);
  const double programmed = host.metric("millrace_programmings_total");
  Outcome outcome = host.reload({"--version", "2"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(holds(outcome.err, kDifference)) << outcome.err;
  EXPECT_TRUE(holds(outcome.err, kRemedy)) << outcome.err;
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host.metric("millrace_programmings_total"), programmed) << "refused before a card is touched";
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"failure\""), 1);
  EXPECT_TRUE(holds(host.reason("2"), kDifference)) << host.reason("2");

  outcome = host.reload({"--version", "2", "--force"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(serving(), "2");
  EXPECT_TRUE(holds(host.server().err(), std::string("warning models: model 'm' version '2': ") +
                                             kDifference + "; the load is forced"))
      << host.server().err();
  EXPECT_EQ(host.load("1").status, 400) << "the way back is a change as well";
  EXPECT_EQ(host.post("/v2/repository/models/m/load", R"({"parameters":{"version":1,"force":true}})").status,
            200);
  EXPECT_EQ(serving(), "1");
}

TEST_F(RepositoryForce, PollingDoesNotLoadAVersionWithDifferentOutputTensors) {
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  ASSERT_EQ(serving(), "1");
  host.add("2", chain_program(6, 5));
  ASSERT_TRUE(wait_until([&] { return holds(host.server().err(), kDifference); }));
  EXPECT_TRUE(holds(host.server().err(), kRemedy)) << host.server().err();
  ASSERT_TRUE(host.eventually("2", "UNAVAILABLE"));
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host.metric("millrace_model_outdated", "model=\"m\""), 1);
  EXPECT_EQ(host.reload({"--version", "2", "--force"}).exit_code, 0);
  EXPECT_EQ(serving(), "2");
  EXPECT_EQ(host.metric("millrace_model_outdated", "model=\"m\""), 0);
}

TEST_F(RepositoryForce, PollingLogsARefusalAgainWhenTheRefusedVersionIsPinned) {
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  host.add("2", chain_program(6, 5));
  ASSERT_TRUE(wait_until([&] { return times(kDifference) == 1; })) << host.server().err();
  ASSERT_TRUE(write_file_atomically(host.root() / "m" / "PIN", "2").ok());
  EXPECT_TRUE(wait_until([&] { return times(kDifference) == 2; })) << host.server().err();
  expect_polls_go_on();
  EXPECT_EQ(times(kDifference), 2) << "once for the pin, and not at every poll";
  EXPECT_EQ(serving(), "1");
}

TEST_F(RepositoryForce, PollingLogsARefusalAgainWhenTheServingVersionIsDeleted) {
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  host.add("2", chain_program(6, 5));
  ASSERT_TRUE(wait_until([&] { return times(kDifference) == 1; })) << host.server().err();
  fs::remove_all(host.root() / "m" / "1");
  EXPECT_TRUE(wait_until([&] { return times(kDifference) == 2; })) << host.server().err();
  expect_polls_go_on();
  EXPECT_EQ(times(kDifference), 2) << "once for the deletion, and not at every poll";
  EXPECT_EQ(serving(), "1");
}

TEST_F(RepositoryForce, ParametersThatContradictForceAreRefused) {
  host.start();
  const std::string model = "/v2/repository/models/m/";
  for (const auto& [route, parameters] :
       {std::pair{"load", R"("force":"yes")"}, std::pair{"load", R"("force":true,"unpin":true)"},
        std::pair{"unload", R"("force":true)"}})
    EXPECT_EQ(host.post(model + route, std::string(R"({"parameters":{)") + parameters + "}}").status, 400)
        << parameters;
  EXPECT_EQ(host.reload({"--force", "--unpin"}).exit_code, 2);
  EXPECT_EQ(host.reload({"--force", "--unload"}).exit_code, 2);
}

}  // namespace
}  // namespace millrace::tests::test_repository_force
