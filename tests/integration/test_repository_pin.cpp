// Tests that a pin keeps a model at one version through restarts, polls and failed loads: `millrace reload --pin` and
// `--unpin`, the file PIN that the server writes, and the reports in log, metrics, index and --check-config.

#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository_pin {
namespace {

namespace fs = std::filesystem;

const kernels::Program kProgram = chain_program(6);

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class RepositoryPin : public testing::Test {
 protected:
  RepositoryPin() {
    host_.add("1", kProgram);
    host_.add("2", trained_again(kProgram));
  }
  /// Starts a server that serves every model of the repository and polls often.
  void start(const std::string& mode, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--repository-mode", mode, "--repository-poll-ms", "50"});
    if (mode == "explicit") more.insert(more.end(), {"--load", "*"});
    host_.start(more);
  }
  void restart(const std::string& mode) {
    ASSERT_EQ(host_.server().stop(SIGTERM), 0);
    start(mode);
  }
  Outcome check_config(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {millrace_binary(), "serve", "--check-config", "--cluster",
                               host_.cluster_file(), "--repository", host_.root()});
    return run_program(more);
  }
  void hold(const std::string& content) { ASSERT_TRUE(write_file_atomically(pin_, content).ok()); }
  /// Truncates the version's FPGA images, as an interrupted copy would.
  void truncate(const std::string& version) {
    for (const auto& image : fs::directory_iterator(host_.root() / "m" / version / "images"))
      fs::resize_file(image, 1000);
  }
  /// Adds a second model, so that the server has a model to serve even if the tested model does not load.
  void add_other(const std::string& version = "1") { host_.add(version, kProgram, {}, "n"); }
  bool log_says(const std::string& text) { return holds(host_.server().err(), text); }
  std::string serving() const {
    HttpConnection connection(host_.port());
    const Answer answer = host_.ask(connection, host_.frame(1));
    EXPECT_TRUE(answer.status != 200 || answer.right);
    return answer.status == 200 ? answer.version : "status " + std::to_string(answer.status);
  }
  double pin_metric(const std::string& version) const {
    return host_.metric("millrace_model_pinned", "model=\"m\",version=\"" + version + "\"");
  }

  RepositoryHost host_{6};
  const fs::path pin_ = host_.root() / "m" / "PIN";
};

class RepositoryPinInMode : public RepositoryPin, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(InMode, RepositoryPinInMode, testing::Values("explicit", "poll"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(RepositoryPinInMode, ARollbackWithAPinSurvivesRestartsUntilThePinIsRemoved) {
  start(GetParam());
  ASSERT_EQ(serving(), "2");
  Outcome outcome = host_.reload({"--version", "1", "--pin"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(holds(outcome.out, "model 'm': version 1 serves; it is pinned to version 1 (")) << outcome.out;
  EXPECT_EQ(*read_text_file(pin_), "1\n");
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(serving(), "1");
    EXPECT_EQ(host_.pinned(), "1");
    EXPECT_EQ(host_.state("1"), "READY");
    EXPECT_EQ(pin_metric("1"), 1);
    EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 0)
        << "the pinned version is the one that should serve";
    EXPECT_TRUE(log_says("model 'm' version '1' is pinned")) << host_.server().err();
    restart(GetParam());
  }
  EXPECT_EQ(host_.reason("2"), "not loaded: the model is pinned to version 1");

  outcome = host_.reload({"--unpin", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(holds(outcome.out, "\"pinned\":\"\"")) << outcome.out;
  EXPECT_FALSE(fs::exists(pin_));
  EXPECT_EQ(host_.pinned(), "");
  EXPECT_EQ(host_.metric("millrace_model_pinned"), 0);
  if (std::string(GetParam()) == "explicit") {
    EXPECT_EQ(serving(), "1") << "removing the pin loads nothing";
    EXPECT_EQ(host_.load("").status, 200);
  }
  EXPECT_TRUE(host_.eventually("2", "READY"));
  EXPECT_EQ(serving(), "2");
  outcome = host_.reload({"--unpin"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(holds(outcome.err, "model 'm' is not pinned")) << outcome.err;
}

TEST_F(RepositoryPin, ModeNoneServesThePinnedVersion) {
  hold("1");
  start("none");
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host_.pinned(), "1");
}

TEST_F(RepositoryPin, PollingLoadsNoVersionNewerThanThePinnedVersion) {
  hold("1");
  start("poll");
  host_.add("3", kProgram);
  ASSERT_TRUE(wait_until([&] { return log_says("model 'm' version '3' is not loaded"); }));
  // Add a second model. Once the server has loaded that model, the polls that could have loaded version 3 are over.
  add_other();
  ASSERT_TRUE(host_.eventually("1", "READY", "n"));
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host_.reason("3"), "not loaded: the model is pinned to version 1");
  EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 0);
  ASSERT_EQ(host_.reload({"--unpin"}).exit_code, 0);
  EXPECT_TRUE(host_.eventually("3", "READY"));
}

TEST_F(RepositoryPin, PollingLoadsTheVersionWrittenIntoThePinFile) {
  start("poll");
  ASSERT_EQ(serving(), "2");
  hold("1");
  ASSERT_TRUE(host_.eventually("1", "READY"));
  hold("2");
  ASSERT_TRUE(host_.eventually("2", "READY"));
  EXPECT_EQ(serving(), "2");
}

TEST_P(RepositoryPinInMode, NoOtherVersionReplacesAPinnedVersionThatDoesNotLoad) {
  hold("2");
  truncate("2");
  add_other();
  start(GetParam());
  EXPECT_EQ(serving(), "status 404") << "version 1 would load";
  EXPECT_EQ(host_.state("1", "n"), "READY");
  EXPECT_EQ(host_.state("2"), "UNAVAILABLE");
  EXPECT_TRUE(
      log_says("model 'm' is pinned, so no other version is loaded in place of '2'; repair that "
               "version, or to unpin the model, run 'millrace reload --model m --unpin'"))
      << host_.server().err();
  EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 1);
  EXPECT_EQ(pin_metric("2"), 1);

  const Outcome checked = check_config({"--repository-mode", GetParam(), "--load", "*"});
  EXPECT_EQ(checked.exit_code, 2);
  EXPECT_TRUE(holds(checked.err, "info serve: model 'm' version '2' is pinned")) << checked.err;
  EXPECT_TRUE(holds(checked.err, "model 'm' version '2' would not load")) << checked.err;
  EXPECT_TRUE(holds(checked.err, "model 'm': no version would be served; to unpin")) << checked.err;
}

TEST_F(RepositoryPin, CheckConfigChecksThePinnedVersionOnly) {
  truncate("2");
  EXPECT_EQ(check_config().exit_code, 2) << "the newest does not load";
  hold("1");
  const Outcome checked = check_config();
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_TRUE(holds(checked.err, "info serve: model 'm' version '1' is pinned")) << checked.err;
  EXPECT_TRUE(holds(checked.err, "model 'm': version '1' would be served")) << checked.err;
  EXPECT_FALSE(holds(checked.err, "version '2'")) << checked.err;
}

TEST_P(RepositoryPinInMode, InvalidPinLoadsNoVersionAndTheErrorNamesTheRemedy) {
  struct Case {
    const char* content;
    std::string said;
  };
  add_other();
  for (const Case& one : {Case{"", "/PIN is empty, so no version is loaded"},
                          Case{"newest", "/PIN holds 'newest', which is no version's number"},
                          Case{"9",
                               "model 'm' is pinned to version '9', which is not in the repository; it has "
                               "1, 2; no other version is loaded"}}) {
    SCOPED_TRACE(one.content);
    hold(one.content);
    const Outcome checked = check_config({"--repository-mode", GetParam(), "--load", "*"});
    EXPECT_EQ(checked.exit_code, 2);
    EXPECT_TRUE(holds(checked.err, one.said)) << checked.err;
    EXPECT_TRUE(holds(checked.err, "'millrace reload --model m --unpin'")) << checked.err;

    start(GetParam());
    EXPECT_EQ(serving(), "status 404");
    EXPECT_EQ(host_.state("1", "n"), "READY") << "the other model is served";
    EXPECT_TRUE(log_says(one.said)) << host_.server().err();
    EXPECT_TRUE(log_says("'millrace reload --model m --unpin'")) << host_.server().err();
    EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 1);
    const std::string version = one.content == std::string("9") ? "9" : "1";
    EXPECT_EQ(host_.state(version), "UNAVAILABLE");
    EXPECT_TRUE(holds(host_.reason(version), one.said)) << host_.reason(version);
    EXPECT_EQ(pin_metric(one.content == std::string("9") ? "9" : ""), 1);
    const auto refused = host_.load("1");
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_TRUE(holds(refused.body, "--unpin")) << refused.body;

    EXPECT_EQ(host_.reload({"--version", "1", "--pin"}).exit_code, 0) << "a good pin takes its place";
    EXPECT_EQ(serving(), "1");
    EXPECT_EQ(*read_text_file(pin_), "1\n");
    ASSERT_EQ(host_.server().stop(SIGTERM), 0);
  }
}

TEST_F(RepositoryPin, AnInvalidPinLeavesTheServingVersionServing) {
  start("poll");
  ASSERT_EQ(serving(), "2");
  hold("9");
  ASSERT_TRUE(wait_until([&] { return log_says("pinned to version '9', which is not in the repository"); }));
  host_.add("3", kProgram);
  add_other();
  ASSERT_TRUE(host_.eventually("1", "READY", "n"));
  EXPECT_EQ(serving(), "2");
  EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 1) << "a restart would serve nothing";
  EXPECT_EQ(host_.state("9"), "UNAVAILABLE");
}

TEST_F(RepositoryPin, PinnedModelRefusesOtherVersionsUntilThePinChanges) {
  hold("1");
  start("explicit");
  const auto refused = host_.load("2");
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(holds(refused.body,
                    "model 'm' is pinned to version '1', so version '2' is not loaded; load this "
                    "version with 'pin' (--pin) to pin the model to it instead"))
      << refused.body;
  EXPECT_EQ(host_.reload({"--version", "2"}).exit_code, 1);
  EXPECT_EQ(host_.load("").status, 200) << "without a number it is the pinned version";
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host_.reload({"--version", "2", "--pin"}).exit_code, 0);
  EXPECT_EQ(serving(), "2");
  EXPECT_EQ(host_.pinned(), "2");
  EXPECT_EQ(host_.reload({"--unload"}).exit_code, 0);
  EXPECT_EQ(host_.pinned(), "2") << "an unload leaves the pin";
  EXPECT_EQ(host_.load("").status, 200);
  EXPECT_EQ(serving(), "2");
}

TEST_F(RepositoryPin, ThePinIsWrittenOnlyIfTheVersionLoads) {
  host_.add("3", kProgram);
  start("explicit");
  ASSERT_EQ(serving(), "3");
  truncate("2");
  EXPECT_EQ(host_.reload({"--version", "2", "--pin"}).exit_code, 1);
  EXPECT_FALSE(fs::exists(pin_));
  fs::create_directory(pin_);
  const Outcome outcome = host_.reload({"--version", "1", "--pin"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(holds(outcome.err, "PIN is a folder and not a file; remove the folder")) << outcome.err;
  EXPECT_EQ(serving(), "3") << "the pin is checked before anything is loaded";
}

TEST_F(RepositoryPin, ReloadExitsWith3WhenTheServerCannotWriteThePin) {
  add_other();
  fs::remove_all(host_.root() / "m");
  fs::create_directory_symlink("/proc/sys", host_.root() / "m");  // not even root can write into this folder
  start("explicit");
  EXPECT_EQ(host_.post("/v2/repository/models/m/load", R"({"parameters":{"version":1,"pin":true}})").status,
            500);
  const Outcome outcome = host_.reload({"--version", "1", "--pin"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_TRUE(holds(outcome.err, "model 'm' cannot be pinned: the server may not write")) << outcome.err;
}

TEST_F(RepositoryPin, ContradictingPinParametersAreRefused) {
  start("explicit");
  const std::string model = "/v2/repository/models/m/";
  struct Case {
    const char *route, *parameters, *said;
  };
  for (const Case& one : {Case{"load", R"("pin":true)", "needs the parameter 'version'"},
                          Case{"load", R"("pin":1,"version":"1")", "'pin' is neither true nor false"},
                          Case{"load", R"("unpin":true,"version":"1")", "loads nothing"},
                          Case{"load", R"("unpin":true,"pin":true,"version":"1")", "loads nothing"},
                          Case{"unload", R"("unpin":true)", "belong to a load"},
                          Case{"unload", R"("pin":true,"version":"1")", "belong to a load"}}) {
    const auto answer =
        host_.post(model + one.route, std::string(R"({"parameters":{)") + one.parameters + "}}");
    EXPECT_EQ(answer.status, 400) << one.parameters;
    EXPECT_TRUE(holds(answer.body, one.said)) << answer.body;
  }
  EXPECT_EQ(host_.post("/v2/repository/models/absent/load", R"({"parameters":{"unpin":true}})").status, 404);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--pin"},
                                                {"--pin", "--unpin", "--version", "1"},
                                                {"--unpin", "--version", "1"},
                                                {"--unpin", "--unload"}})
    EXPECT_EQ(host_.reload(wrong).exit_code, 2) << wrong[0];
  EXPECT_FALSE(fs::exists(pin_));
}

}  // namespace
}  // namespace millrace::tests::test_repository_pin
