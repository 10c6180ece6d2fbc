// Tests which versions `millrace serve --repository` serves when some versions are empty or broken at its
// start, and what log, metrics and index report.

#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/repository_host.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository_start {
namespace {

namespace fs = std::filesystem;

const kernels::Program kProgram = chain_program(6);

class RepositoryStart : public testing::TestWithParam<const char*> {
 protected:
  /// Starts a server that serves every model of the repository and polls often.
  void start(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--repository-mode", GetParam(), "--repository-poll-ms", "100"});
    if (explicit_mode()) more.insert(more.end(), {"--load", "*"});
    host_.start(more);
  }
  bool explicit_mode() const { return std::string(GetParam()) == "explicit"; }
  Outcome serve(std::vector<std::string> more) const {
    more.insert(more.begin(), {millrace_binary(), "serve"});
    return run_program(more, {"MILLRACE_CACHE=" + (host_.scratch() / "cache").string()});
  }
  bool log_says(const std::string& text) { return host_.server().err().find(text) != std::string::npos; }
  /// Truncates the version's FPGA images, as an interrupted copy would.
  void truncate(const std::string& version, const std::string& model = "m") {
    for (const auto& image : fs::directory_iterator(host_.root() / model / version / "images"))
      fs::resize_file(image, 1000);
  }
  std::string serving() const {
    HttpConnection connection(host_.port());
    const Answer answer = host_.ask(connection, host_.frame(1));
    EXPECT_TRUE(answer.status != 200 || answer.right);
    return answer.status == 200 ? answer.version : "status " + std::to_string(answer.status);
  }

  RepositoryHost host_{6};
};

INSTANTIATE_TEST_SUITE_P(InMode, RepositoryStart, testing::Values("none", "explicit", "poll"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(RepositoryStart, SkipsEmptyVersions) {
  host_.add("1", kProgram);
  fs::create_directories(host_.root() / "m" / "2");
  start();
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host_.state("1"), "READY");
  EXPECT_EQ(host_.reason("2"), "holds neither deployment.json nor model.onnx");
  EXPECT_TRUE(log_says("warning models: model 'm' version '2' is skipped: ")) << host_.server().err();
  EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 0);
  EXPECT_EQ(host_.metric("millrace_model_wanted", "model=\"m\""), 1);
  EXPECT_EQ(host_.metric("millrace_ready"), 1);
}

TEST_P(RepositoryStart, CountsAModelWithOnlyEmptyVersionsAsUnavailable) {
  host_.add("1", kProgram);
  fs::create_directories(host_.root() / "n" / "3");
  start();
  EXPECT_EQ(serving(), "1") << "the other model is served";
  EXPECT_TRUE(
      log_says("warning models: model 'n' has nothing to serve: of its versions (3) each holds neither "
               "deployment.json nor model.onnx"))
      << host_.server().err();
  EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 1);
  EXPECT_EQ(host_.metric("millrace_model_wanted", "model=\"n\""), 1);
  EXPECT_EQ(host_.metric("millrace_model_ready", "model=\"n\""), 0);

  // Now the interrupted copy of version 3 is completed.
  fs::remove(host_.root() / "n" / "3");
  host_.add("3", kProgram, {}, "n");
  if (explicit_mode()) {
    EXPECT_EQ(host_.load("", "", "n").status, 200);
  }
  if (std::string(GetParam()) == "none") return;
  EXPECT_TRUE(host_.eventually("3", "READY", "n"));
  EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_repository_models_unavailable") == 0; }));
}

TEST_P(RepositoryStart, FallsBackToTheNewestVersionThatLoads) {
  for (const char* version : {"1", "2", "3", "4"}) host_.add(version, with_other_weights(kProgram, 5));
  host_.add("2", kProgram);
  truncate("3");
  fs::remove(host_.root() / "m" / "4" / "CHECKSUMS");
  start();
  EXPECT_EQ(serving(), "2");
  EXPECT_NE(host_.reason("3").find("truncated or altered"), std::string::npos) << host_.reason("3");
  EXPECT_EQ(host_.state("4"), "UNAVAILABLE");
  EXPECT_EQ(host_.state("1"), "UNKNOWN");
  EXPECT_TRUE(
      log_says("warning models: model 'm': version '3' did not load, so version '2' is loaded in its "
               "place"))
      << host_.server().err();
  EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 1);
  EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 0);
  EXPECT_EQ(host_.metric("millrace_reloads_total", "outcome=\"failure\""), 2);

  fs::remove_all(host_.root() / "m" / "4");
  host_.add("4", kProgram);
  if (explicit_mode()) {
    EXPECT_EQ(host_.load("4").status, 200);
  }
  if (std::string(GetParam()) == "none") return;
  EXPECT_TRUE(host_.eventually("4", "READY"));
  EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_model_outdated") == 0; }));
}

TEST_P(RepositoryStart, RemovingABrokenNewestVersionClearsTheMetricForOutdatedModels) {
  for (const char* version : {"1", "2"}) host_.add(version, kProgram);
  truncate("2");
  start();
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 1);
  fs::remove_all(host_.root() / "m" / "2");
  EXPECT_EQ(host_.metric("millrace_model_outdated", "model=\"m\""), 0) << "without a load";
}

TEST_P(RepositoryStart, ServesTheOtherModelsIfOneModelCannotBeLoaded) {
  host_.add("1", kProgram);
  for (const char* version : {"1", "2"}) host_.add(version, kProgram, {}, "n");
  truncate("1", "n");
  truncate("2", "n");
  start();
  EXPECT_EQ(serving(), "1") << "the other model is served";
  for (const char* version : {"1", "2"}) EXPECT_EQ(host_.state(version, "n"), "UNAVAILABLE") << version;
  EXPECT_EQ(host_.metric("millrace_repository_models_unavailable"), 1);
  EXPECT_EQ(host_.metric("millrace_model_outdated"), 0) << "nothing of it serves";
}

TEST_P(RepositoryStart, StrictModeEndsTheServerUnlessEverythingLoads) {
  host_.add("1", kProgram);
  host_.add("2", kProgram);
  truncate("2");
  fs::create_directories(host_.root() / "n" / "1");
  const std::vector<std::string> strict = {
      "--repository-strict", "--repository-mode",  GetParam(), "--load",      "*",
      "--cluster",           host_.cluster_file(), "--http",   "127.0.0.1:0", "--repository",
      host_.root()};
  const auto outcome = serve(strict);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find(
                "repository.strict: some models that should be served are not: model 'm' version '2': "),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("; model 'n' has nothing to serve: "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out.find("listening"), std::string::npos) << outcome.out;

  fs::remove_all(host_.root() / "m" / "2");
  fs::remove_all(host_.root() / "n");
  start({"--repository-strict"});
  EXPECT_EQ(serving(), "1");
}

TEST_P(RepositoryStart, CheckConfigPredictsWhatAStartWouldServe) {
  host_.add("1", kProgram);
  fs::create_directories(host_.root() / "m" / "2");
  const std::vector<std::string> check = {
      "--check-config", "--repository-mode",  GetParam(),     "--load",    "*",
      "--cluster",      host_.cluster_file(), "--repository", host_.root()};
  Outcome outcome = serve(check);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("info serve: model 'm': version '1' would be served"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("warning serve: model 'm' version '2' would be skipped: "), std::string::npos)
      << outcome.err;

  host_.add("3", kProgram);
  truncate("3");
  outcome = serve(check);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("warning serve: model 'm' version '3' would not load: "), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("info serve: model 'm': version '1' would be served"), std::string::npos)
      << outcome.err;
  EXPECT_NE(
      outcome.err.find("1 model version that the server should serve from the repository does not load"),
      std::string::npos)
      << outcome.err;

  fs::remove_all(host_.root() / "m" / "3");
  fs::create_directories(host_.root() / "n" / "1");
  outcome = serve(check);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("model 'n' has nothing to serve"), std::string::npos) << outcome.err;
}

TEST(RepositoryAtStart, FallsBackToAnOlderVersionIfTheNewestDoesNotCompile) {
  RepositoryHost host;
  const fs::path model =
      fs::path(tests::source_dir()) / "tests" / "vectors" / "lenet5_mnist" / "lenet5_qdq_s8_pow2.onnx";
  for (const char* version : {"1", "2"}) fs::create_directories(host.root() / "lenet" / version);
  fs::copy_file(model, host.root() / "lenet" / "1" / "model.onnx");
  std::ofstream(host.root() / "lenet" / "2" / "model.onnx") << "no model";
  host.start({"--load", "lenet"});
  EXPECT_TRUE(host.eventually("1", "READY", "lenet")) << host.server().err();
  EXPECT_EQ(host.state("2", "lenet"), "UNAVAILABLE");
  EXPECT_EQ(host.metric("millrace_model_outdated", "model=\"lenet\""), 1);
  ASSERT_EQ(host.server().stop(SIGTERM), 0);
  fs::remove_all(host.root() / "lenet" / "2");
  host.start({"--load", "lenet", "--repository-strict"});
  EXPECT_EQ(host.state("1", "lenet"), "READY") << "a strict start waits for compilations";
}

TEST(RepositoryAtStart, ServerIsNotReadyIfNoModelServes) {
  RepositoryHost host;
  host.add("1", kProgram);
  fs::remove(host.root() / "m" / "1" / "deployment.json");
  host.start({"--repository-mode", "none"});
  HttpConnection connection(host.port());
  EXPECT_NE(connection.request("GET", "/metrics")->body.find("\nmillrace_ready 0\n"), std::string::npos);
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 503);
}

TEST(RepositoryAtStart, CountsARequestedModelThatIsMissingAsUnavailable) {
  RepositoryHost host;
  host.add("1", kProgram);
  host.start({"--load", "m", "--load", "absent"});
  EXPECT_NE(host.server().err().find("the repository has no model 'absent'"), std::string::npos);
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 1);
  EXPECT_EQ(host.metric("millrace_model_wanted", "model=\"absent\""), 1);
  EXPECT_EQ(host.load("", "", "misspelt").status, 404);
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 1)
      << "a misspelt name in a request adds no wanted model";
  EXPECT_EQ(host.post("/v2/repository/models/absent/unload").status, 404) << "nothing was loaded";
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 0) << "the unload withdraws the wish";
}

}  // namespace
}  // namespace millrace::tests::test_repository_start
