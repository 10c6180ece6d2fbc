// What `millrace serve --repository` serves when it starts over versions that are empty or broken, and what
// log, metrics and index say of it.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;

const kernels::Program kProgram = chain_program(6);

class RepositoryStart : public testing::TestWithParam<const char*> {
 protected:
  /// Over every model of the root, polling often.
  void start(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--repository-mode", GetParam(), "--repository-poll-ms", "100"});
    if (explicit_mode()) more.insert(more.end(), {"--load", "*"});
    host_.start(more);
  }
  bool explicit_mode() const { return std::string(GetParam()) == "explicit"; }
  bool log_says(const std::string& text) { return host_.server().err().find(text) != std::string::npos; }
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

TEST_P(RepositoryStart, SkipsVersionsThatHoldNothing) {
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

TEST_P(RepositoryStart, CountsAModelWithoutAnythingToServeAsUnavailable) {
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

  // The copy that was late comes to its end.
  fs::remove(host_.root() / "n" / "3");
  host_.add("3", kProgram, {}, "n");
  if (explicit_mode()) {
    EXPECT_EQ(host_.load("", "", "n").status, 200);
  }
  if (std::string(GetParam()) == "none") return;
  EXPECT_TRUE(host_.eventually("3", "READY", "n"));
  EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_repository_models_unavailable") == 0; }));
}

TEST(RepositoryAtStart, IsNotReadyWhereNothingIsServed) {
  RepositoryHost host;
  host.add("1", kProgram);
  fs::remove(host.root() / "m" / "1" / "deployment.json");
  host.start({"--repository-mode", "none"});
  HttpConnection connection(host.port());
  EXPECT_NE(connection.request("GET", "/metrics")->body.find("\nmillrace_ready 0\n"), std::string::npos);
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 503);
}

TEST(RepositoryAtStart, CountsAModelThatIsNotThereAsUnavailable) {
  RepositoryHost host;
  host.add("1", kProgram);
  host.start({"--load", "m", "--load", "absent"});
  EXPECT_NE(host.server().err().find("the repository has no model 'absent'"), std::string::npos);
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 1);
  EXPECT_EQ(host.metric("millrace_model_wanted", "model=\"absent\""), 1);
  EXPECT_EQ(host.load("", "", "misspelt").status, 404);
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 1)
      << "a client's mistake is nobody's wish";
  EXPECT_EQ(host.post("/v2/repository/models/absent/unload").status, 404) << "nothing was loaded";
  EXPECT_EQ(host.metric("millrace_repository_models_unavailable"), 0) << "but nobody wants it any more";
}

}  // namespace
}  // namespace millrace::tests
