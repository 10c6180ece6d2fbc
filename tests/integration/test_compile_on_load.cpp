// Tests that `millrace serve --repository` compiles ONNX models when it loads them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <fstream>
#include <thread>

#include "tests/integration/repository_clients.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/lenet.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_compile_on_load {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct CompileOnLoad : testing::Test {
  CompileOnLoad() {
    const fs::path source = fs::path(tests::source_dir()) / "tests" / "vectors" / "lenet5_mnist";
    for (const std::string version : {"1", "2"}) {
      const fs::path target = host.root() / "lenet" / version;
      fs::create_directories(target);
      fs::copy_file(source / "lenet5_qdq_s8_pow2.onnx", target / "model.onnx");
      if (version == "2") fs::copy_file(source / "millrace.yaml", target / "millrace.yaml");
    }
  }
  std::vector<pid_t> compilers() { return children_named(host.server().pid(), "millrace"); }
  /// Waits until a compiler process executes the compiler's program, and stops the process with SIGSTOP long
  /// before it is done. A stop before the exec would also block the server, because the server waits for the
  /// exec. Returns the process id, or 0 if no compiler started.
  pid_t hold_up_compiler() {
    pid_t held = 0;
    wait_until([&] {
      for (const pid_t found : compilers()) {
        std::ifstream file("/proc/" + std::to_string(found) + "/cmdline");
        const std::string command((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        if (command.find(std::string("\0compile\0", 9)) == std::string::npos) continue;
        if (::kill(found, SIGSTOP) == 0) held = found;
      }
      return held != 0;
    });
    return held;
  }
  RepositoryHost host;
};

TEST_F(CompileOnLoad, CompilesAModelOnceAndThenUsesTheCache) {
  host.start();
  ASSERT_EQ(host.load("2", "", "lenet").status, 200) << host.server().err();
  EXPECT_EQ(host.state("2", "lenet"), "READY");
  EXPECT_EQ(host.log_says("model 'lenet' version '2': compil"), 2) << host.server().err();
  EXPECT_EQ(host.log_says("model 'lenet' version '2': compiling"), 1) << host.server().err();
  EXPECT_EQ(host.log_says("model 'lenet' version '2': compiled in "), 1) << host.server().err();
  HttpConnection connection(host.port());
  EXPECT_NE(connection.request("GET", "/v2/millrace/models/lenet")->body.find("\"labels\":[\""),
            std::string::npos);
  EXPECT_EQ(host.server().stop(SIGTERM), 0);
  host.start();
  ASSERT_EQ(host.load("2", "", "lenet").status, 200);
  EXPECT_EQ(host.log_says("compiling"), 0) << host.server().err();
  EXPECT_EQ(host.log_says("model 'lenet' version '2': compiled before and reused from "), 1)
      << host.server().err();
}

TEST_F(CompileOnLoad, ObeysMillraceYamlAndReplacesWeightsWithoutReprogrammingCards) {
  const std::string again = lenet_trained_again();
  ASSERT_FALSE(again.empty());
  std::ofstream(host.root() / "lenet" / "2" / "model.onnx", std::ios::binary) << again;
  for (const std::string version : {"1", "2"})
    std::ofstream(host.root() / "lenet" / version / "millrace.yaml")
        << "compile: {weights: loaded, partitions: 1, replicas: 2}\n";
  host.start();
  ASSERT_EQ(host.load("1", "", "lenet").status, 200) << host.server().err();
  EXPECT_EQ(host.metric("millrace_replicas_ready"), 2);
  EXPECT_EQ(host.metric("millrace_programmings_total"), 2);
  const std::string frame(std::size_t{28} * 28 * sizeof(float), '\x3e');
  HttpConnection connection(host.port());
  const std::string raw = "Inference-Header-Content-Length: 0\r\n";
  const auto before = connection.request("POST", "/v2/models/lenet/infer", frame, raw);
  ASSERT_EQ(before->status, 200) << before->body;
  ASSERT_EQ(host.load("2", "", "lenet").status, 200) << host.server().err();
  EXPECT_EQ(host.metric("millrace_programmings_total"), 2) << "the weights alone changed";
  const auto after = connection.request("POST", "/v2/models/lenet/infer", frame, raw);
  ASSERT_EQ(after->status, 200) << after->body;
  EXPECT_NE(after->body, before->body);
}

TEST_F(CompileOnLoad, ErrorNamesTheWrongLineOfMillraceYaml) {
  std::ofstream(host.root() / "lenet" / "2" / "millrace.yaml") << "compile:\n  weights: bakd\n";
  host.start();
  const auto answer = host.load("2", "", "lenet");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("millrace.yaml:2: section compile: weights: 'bakd' is none of"),
            std::string::npos)
      << answer.body;
}

TEST_F(CompileOnLoad, OldVersionKeepsServingIfTheNewModelDoesNotCompile) {
  std::ofstream(host.root() / "lenet" / "2" / "model.onnx") << "no model";
  host.start();
  ASSERT_EQ(host.load("1", "", "lenet").status, 200);
  const auto answer = host.load("2", "", "lenet");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("model.onnx"), std::string::npos) << answer.body;
  EXPECT_EQ(host.state("1", "lenet"), "READY");
  for (const auto& left : fs::directory_iterator(host.scratch() / "cache" / "tmp"))
    ADD_FAILURE() << "left behind: " << left.path();
}

TEST_F(CompileOnLoad, VersionKeepsServingWhileItsChangedModelIsRecompiled) {
  const std::string again = lenet_trained_again();
  ASSERT_FALSE(again.empty());
  host.start();
  ASSERT_EQ(host.load("1", "", "lenet").status, 200) << host.server().err();
  const fs::path model = host.root() / "lenet" / "1" / "model.onnx";
  const auto expect_ready = [&](const std::string& reason) {
    EXPECT_EQ(host.state("1", "lenet"), "READY");
    EXPECT_TRUE(host.reason("1", "lenet").starts_with(reason)) << host.reason("1", "lenet");
    const std::string ready = host.post("/v2/repository/index", R"({"ready":true})").body;
    EXPECT_NE(ready.find("\"version\":\"1\""), std::string::npos) << ready;
    HttpConnection connection(host.port());
    EXPECT_EQ(connection.request("GET", "/v2/models/lenet/versions/1/ready")->status, 200);
  };
  std::ofstream(model, std::ios::binary) << "no model";
  const auto answer = host.load("1", "", "lenet");
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_NE(answer.body.find("model.onnx"), std::string::npos) << answer.body;
  expect_ready("its change was not loaded: compiling: ");

  std::ofstream(model, std::ios::binary) << again;
  ASSERT_EQ(
      host.post("/v2/repository/models/lenet/load", R"({"parameters":{"version":1,"wait":false}})").status,
      202);
  const pid_t held = hold_up_compiler();
  ASSERT_NE(held, 0);
  expect_ready("its change is being loaded: compiling");
  ::kill(held, SIGCONT);
  EXPECT_TRUE(wait_until([&] { return host.reason("1", "lenet").empty(); })) << host.reason("1", "lenet");
  expect_ready("");
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"success\""), 2);
}

TEST_F(CompileOnLoad, PollingCompilesAFailingModelOnlyOnce) {
  const fs::path versions = host.root() / "lenet";
  std::ofstream(versions / "1" / "model.onnx") << "no model";
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  ASSERT_TRUE(host.eventually("2", "READY", "lenet")) << host.server().err();
  // Remove the folder in one step, by renaming it. If a poll saw a half-removed folder, it would try to load
  // the folder and count another failure.
  fs::rename(versions / "2", host.scratch() / "removed");
  const auto failed = [&] { return host.metric("millrace_reloads_total", "outcome=\"failure\""); };
  ASSERT_TRUE(wait_until([&] { return failed() > 0; })) << host.server().err();
  for (int poll = 0; poll < 5; ++poll) ASSERT_TRUE(host.wait_for_poll());
  EXPECT_EQ(failed(), 1) << host.server().err();
  EXPECT_EQ(host.log_says("model 'lenet' version '1': compiling"), 2) << "its start, and its failure";
  EXPECT_EQ(host.state("1", "lenet"), "UNAVAILABLE");
  HttpConnection connection(host.port());
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/versions/2/ready")->status, 200);
  // The server tries to load a failed model again once the model's file has changed.
  std::ofstream(versions / "1" / "model.onnx", std::ios::binary) << lenet_trained_again();
  EXPECT_TRUE(host.eventually("1", "READY", "lenet")) << host.server().err();
}

TEST_F(CompileOnLoad, UnloadingCancelsARunningCompilation) {
  host.start();
  ASSERT_EQ(host.load("1", "", "lenet").status, 200);
  HttpResponse answer;
  std::jthread loader([&] { answer = host.load("2", "", "lenet"); });
  ASSERT_NE(hold_up_compiler(), 0);
  EXPECT_EQ(host.state("2", "lenet"), "LOADING");
  EXPECT_NE(host.reason("2", "lenet"), "");
  EXPECT_EQ(host.state("1", "lenet"), "READY") << "it serves meanwhile";
  HttpConnection connection(host.port());
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/versions/1/ready")->status, 200);

  const std::string version_2 = R"({"parameters":{"version":2}})";
  const auto unloaded = host.post("/v2/repository/models/lenet/unload", version_2);
  EXPECT_EQ(unloaded.status, 200) << unloaded.body;
  loader.join();
  EXPECT_EQ(answer.status, 409) << "who waited for the load hears of it: " << answer.body;
  EXPECT_NE(answer.body.find("cancelled"), std::string::npos) << answer.body;
  EXPECT_TRUE(compilers().empty());
  EXPECT_EQ(host.state("2", "lenet"), "UNAVAILABLE");
  EXPECT_EQ(host.reason("2", "lenet"), "its compilation was cancelled");
  EXPECT_EQ(host.state("1", "lenet"), "READY");
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"cancelled\""), 1);
  for (const auto& left : fs::directory_iterator(host.scratch() / "cache" / "tmp"))
    ADD_FAILURE() << "left behind: " << left.path();
  EXPECT_EQ(host.post("/v2/repository/models/lenet/unload", version_2).status, 404)
      << "there is nothing to cancel any more";

  const auto again = host.load("2", "", "lenet");
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(host.state("2", "lenet"), "READY");
}

TEST_F(CompileOnLoad, UnloadAndStopDoNotWaitForAnotherProcessThatCompiles) {
  host.start();
  ASSERT_EQ(host.load("1", "", "lenet").status, 200) << host.server().err();
  ASSERT_EQ(host.server().stop(SIGTERM), 0);
  const fs::path cache = host.scratch() / "cache";
  ASSERT_GT(fs::remove_all(cache / "deployments"), 0U);
  struct Locked {
    explicit Locked(const fs::path& path) : file(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {}
    Locked(const Locked&) = delete;
    ~Locked() { ::close(file); }
    const int file;
  };
  std::vector<std::unique_ptr<Locked>> locks;
  for (const auto& entry : fs::directory_iterator(cache / "locks")) {
    locks.push_back(std::make_unique<Locked>(entry.path()));
    ASSERT_EQ(::flock(locks.back()->file, LOCK_EX | LOCK_NB), 0);
  }
  ASSERT_FALSE(locks.empty());
  host.start();
  const std::string quietly = R"({"parameters":{"version":1,"wait":false}})";
  ASSERT_EQ(host.post("/v2/repository/models/lenet/load", quietly).status, 202);
  ASSERT_TRUE(host.eventually("1", "LOADING", "lenet"));
  EXPECT_EQ(host.post("/v2/repository/models/lenet/unload").status, 200);
  EXPECT_EQ(host.state("1", "lenet"), "UNAVAILABLE");
  EXPECT_EQ(host.reason("1", "lenet"), "its compilation was cancelled");
  ASSERT_EQ(host.post("/v2/repository/models/lenet/load", quietly).status, 202);
  ASSERT_TRUE(host.eventually("1", "LOADING", "lenet"));
  EXPECT_EQ(host.server().stop(SIGTERM, 20s), 0) << host.server().err();
  locks.clear();
  host.start();
  EXPECT_EQ(host.load("1", "", "lenet").status, 200) << host.server().err();
}

TEST_F(CompileOnLoad, CompilesAtMostTheConfiguredNumberOfModelsInParallel) {
  fs::copy(host.root() / "lenet", host.root() / "other", fs::copy_options::recursive);
  for (const bool two : {false, true}) {
    SCOPED_TRACE(two ? "two at once" : "one, by default");
    host.start(two ? std::vector<std::string>{"--compilations", "2", "--compile-cache",
                                              (host.scratch() / "another").string()}
                   : std::vector<std::string>{});
    const std::string quietly = R"({"parameters":{"version":1,"wait":false}})";
    ASSERT_EQ(host.post("/v2/repository/models/lenet/load", quietly).status, 202);
    const pid_t held = hold_up_compiler();
    ASSERT_NE(held, 0);
    ASSERT_EQ(host.post("/v2/repository/models/other/load", quietly).status, 202);
    if (two) {
      EXPECT_TRUE(host.eventually("1", "READY", "other")) << "the other model has a compiler of its own";
      EXPECT_EQ(host.state("1", "lenet"), "LOADING");
    }
    ::kill(held, SIGCONT);
    EXPECT_TRUE(host.eventually("1", "READY", "lenet"));
    EXPECT_TRUE(host.eventually("1", "READY", "other"));
    const std::string log = host.server().err();
    EXPECT_EQ(
        log.find("model 'other' version '1': compiling") < log.find("'lenet' version '1': compiled in "), two)
        << log;
    EXPECT_EQ(host.server().stop(SIGTERM), 0) << host.server().err();
  }
}

TEST_F(CompileOnLoad, ARequestForAModelThatIsBeingLoadedGets503WithRetryAfter) {
  host.start();
  ASSERT_EQ(
      host.post("/v2/repository/models/lenet/load", R"({"parameters":{"version":2,"wait":false}})").status,
      202);
  ASSERT_NE(hold_up_compiler(), 0);
  HttpConnection connection(host.port());
  for (const std::string target : {"/v2/models/lenet/infer", "/v2/models/lenet/versions/2/infer"}) {
    const auto answer = connection.request("POST", target, "{}");
    EXPECT_EQ(answer->status, 503) << answer->body;
    EXPECT_EQ(answer->headers.at("retry-after"), "1") << target;
    EXPECT_NE(answer->body.find("model 'lenet' is being loaded: "), std::string::npos) << answer->body;
  }
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/ready")->status, 503);
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet")->status, 503);
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/versions/1/ready")->status, 404) << "nobody loads it";
  EXPECT_EQ(connection.request("GET", "/v2/models/other/ready")->status, 404);
  EXPECT_EQ(host.post("/v2/repository/models/lenet/unload").status, 200);
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/ready")->status, 404);
}

TEST_F(CompileOnLoad, FullDiskFailsTheLoadAndLeavesNoFiles) {
  const fs::path small = host.scratch() / "small";
  fs::create_directories(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0)
    GTEST_SKIP() << "mounting a small file system needs root";
  struct Unmounted {
    const fs::path& path;
    ~Unmounted() { ::umount2(path.c_str(), MNT_DETACH); }
  } const unmounted{small};
  const auto in_small = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--compile-cache", small.string()});
    host.start(more);
  };
  in_small({});
  const auto answer = host.load("1", "", "lenet");
  EXPECT_EQ(answer.status, 429) << answer.body;
  EXPECT_NE(answer.body.find("disk is full"), std::string::npos) << answer.body;
  EXPECT_EQ(host.state("1", "lenet"), "UNAVAILABLE");
  for (const auto& left : fs::directory_iterator(small / "tmp"))
    ADD_FAILURE() << "left behind: " << left.path();
  EXPECT_EQ(host.server().stop(SIGTERM), 0);
  // If a version failed to load for lack of space, every poll tries it again until there is enough space.
  in_small({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  ASSERT_TRUE(host.eventually("2", "UNAVAILABLE", "lenet")) << host.server().err();
  ASSERT_EQ(::mount("none", small.c_str(), "tmpfs", MS_REMOUNT, "size=64m,mode=0700"), 0);
  EXPECT_TRUE(host.eventually("2", "READY", "lenet")) << host.server().err();
}

}  // namespace
}  // namespace millrace::tests::test_compile_on_load
