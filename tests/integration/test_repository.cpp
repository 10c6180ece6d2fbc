// Tests `millrace serve --repository` over emulated cards, with versions that load, do not load, change and
// are removed.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/integration/repository_clients.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST(Repository, VersionThatFailsToLoadLeavesTheServingVersionUntouched) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.add("3", base());
  fs::resize_file(*fs::directory_iterator(host.root() / "m" / "2" / "images"), 1000);
  fs::remove(host.root() / "m" / "3" / "CHECKSUMS");
  fs::create_directories(host.root() / "m" / "4");
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  Clients clients(host, 2);
  auto answer = host.load("2");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("truncated or altered"), std::string::npos) << answer.body;
  EXPECT_EQ(host.state("2"), "UNAVAILABLE");
  EXPECT_NE(host.reason("2").find("truncated or altered"), std::string::npos);
  EXPECT_EQ(host.load("3").status, 404);
  EXPECT_EQ(host.load("4").status, 404);
  EXPECT_EQ(host.load("9").status, 404);
  EXPECT_EQ(host.load("", "", "none").status, 404);
  EXPECT_EQ(host.load("", "", "..%2f..%2fetc").status, 404);
  EXPECT_EQ(host.load("0").status, 400);
  EXPECT_EQ(host.load("1", "sideways").status, 400);
  EXPECT_EQ(host.load("1", "rolling").status, 200) << "it serves already";
  EXPECT_EQ(host.post("/v2/repository/models/m/load", "{").status, 400);
  EXPECT_EQ(host.post("/v2/repository/models/m/load", R"({"parameters":{"config":"{}"}})").status, 501);
  EXPECT_EQ(host.post("/v2/repository/index", "[]").status, 400);
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
  EXPECT_EQ(host.state("1"), "READY");
  EXPECT_GE(host.metric("millrace_reloads_total", "outcome=\"failure\""), 1);
  const std::string ready = host.post("/v2/repository/index", R"({"ready":true})").body;
  EXPECT_NE(ready.find("\"version\":\"1\""), std::string::npos);
  EXPECT_EQ(ready.find("\"version\":\"2\""), std::string::npos);
}

/// Limits the address space of a running process to its present size plus `bytes`.
void leave_memory(pid_t pid, std::uint64_t bytes) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t pages = 0;
  file >> pages;
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

TEST(Repository, VersionThatRunsOutOfMemoryLeavesTheServingVersionUntouched) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end a program that is out of memory";
#endif
  RepositoryHost host;
  host.add("1", base());
  host.add("2", with_other_weights(base(), 2));
  host.add_stored("2", with_other_weights(base(), 2));
  const fs::path long_file = host.root() / "m" / "2" / "verify" / "in0.npy";
  fs::copy_file(long_file, host.scratch() / "in0.npy");
  fs::resize_file(long_file, std::uint64_t{1} << 30U);
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  Clients clients(host, 2);
  clients.wait_for(5);
  ASSERT_NO_FATAL_FAILURE(leave_memory(host.server().pid(), 500U << 20U));
  for (int i = 0; i < 3; ++i) {
    const auto answer = host.load("2");
    ASSERT_EQ(answer.status, 429) << answer.body << host.server().err();
    EXPECT_NE(answer.body.find("model 'm' version '2': out of memory"), std::string::npos) << answer.body;
    EXPECT_EQ(host.state("2"), "UNAVAILABLE");
    EXPECT_EQ(host.reason("2"), "out of memory");
    EXPECT_EQ(host.state("1"), "READY");
    clients.wait_for(5);
  }
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"failure\""), 3);
  fs::copy_file(host.scratch() / "in0.npy", long_file, fs::copy_options::overwrite_existing);
  EXPECT_EQ(host.load("2").status, 200) << host.server().err();
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
}

TEST(Repository, AVersionWithWrongOutputsIsRolledBackWithoutFailingARequest) {
  RepositoryHost host;
  const auto changed = trained_again(base());
  host.add("1", base());
  host.add_stored("1", base());
  host.add("2", changed);
  host.add_stored("2", base());  // another version's outputs
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  Clients clients(host, 3);
  clients.wait_for(5);
  const auto answer = host.load("2");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("verification: frame 0, output 'y'"), std::string::npos) << answer.body;
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
  EXPECT_EQ(host.state("1"), "READY");
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"rollback\""), 1);
  HttpConnection connection(host.port());
  EXPECT_EQ(host.ask(connection, host.frame(1)).version, "1");
  host.add_stored("2", changed);
  EXPECT_EQ(host.load("2").status, 200);
  EXPECT_EQ(host.ask(connection, host.frame(1)).version, "2");
}

TEST(Repository, AServingVersionStaysReadyAfterItsDirectoryIsRemoved) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.add_stored("2", base());  // another version's outputs
  host.add("3", base());
  fs::remove(host.root() / "m" / "3" / "deployment.json");
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  const fs::path kept = host.scratch() / "kept";
  fs::rename(host.root() / "m" / "1", kept);
  const auto expect_ready = [&] {
    EXPECT_EQ(host.state("1"), "READY");
    EXPECT_EQ(host.reason("1"), "");
    const std::string ready = host.post("/v2/repository/index", R"({"ready":true})").body;
    EXPECT_NE(ready.find("\"version\":\"1\""), std::string::npos) << ready;
  };
  expect_ready();
  EXPECT_EQ(host.load("3").status, 404);
  expect_ready();
  EXPECT_EQ(host.load("2").status, 400) << "it is rolled back";
  expect_ready();
  fs::rename(kept, host.root() / "m" / "1");
  expect_ready();
  fs::remove_all(host.root() / "m" / "1");
  fs::remove_all(host.root() / "m" / "2" / "verify");
  ASSERT_EQ(host.load("2").status, 200);
  EXPECT_EQ(host.load("3").status, 404);
  EXPECT_EQ(host.state("1"), "") << "it serves no more, and leaves nothing behind";
}

TEST(Repository, ErrorNamesTheModelsThatUseTheCardsIfNoCardIsFree) {
  RepositoryHost host(6);
  for (const std::string model : {"m", "n", "o"}) host.add("1", chain_program(6), {}, model);
  host.start();
  ASSERT_EQ(host.load("", "", "m").status, 200);
  ASSERT_EQ(host.load("", "", "n").status, 200);
  const auto answer = host.load("", "", "o");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("6 in use"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("m has fpga0, fpga1, fpga2; n has fpga3, fpga4, fpga5"), std::string::npos)
      << answer.body;
  EXPECT_EQ(host.post("/v2/repository/models/n/unload").status, 200);
  EXPECT_EQ(host.load("", "", "o").status, 200);
  EXPECT_EQ(host.reason("1", "n"), "unloaded");
  EXPECT_EQ(host.post("/v2/repository/models/n/unload").status, 404);
  HttpConnection connection(host.port());
  EXPECT_EQ(connection.request("GET", "/v2/models/n")->status, 404);
  EXPECT_TRUE(host.ask(connection, host.frame(1)).right);
}

TEST(Repository, ConcurrentLoadsOfOneModelAllSucceed) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  Clients clients(host, 2);
  std::vector<std::jthread> loaders;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i)
    loaders.emplace_back([&, i] { good += host.load(i % 2 == 0 ? "2" : "1").status == 200; });
  loaders.clear();
  EXPECT_EQ(good, 8);
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
  EXPECT_NE(host.state("1") == "READY", host.state("2") == "READY");
}

TEST(Repository, UnloadingCompletesAcceptedRequestsAndRefusesLaterRequests) {
  RepositoryHost host;
  host.add("1", base());
  host.start({"--load", "m"});
  EXPECT_EQ(host.state("1"), "READY");
  std::atomic<int> good{0}, gone{0}, other{0};
  std::vector<std::jthread> clients;
  for (int c = 0; c < 3; ++c)
    clients.emplace_back([&] {
      HttpConnection connection(host.port());
      while (gone + other < 30) {
        const Answer answer = host.ask(connection, host.frame(1));
        (answer.status == 200 && answer.right ? good : answer.status == 404 ? gone : other)++;
      }
    });
  EXPECT_TRUE(wait_until([&] { return good >= 10; }));
  EXPECT_EQ(host.post("/v2/repository/models/m/unload").status, 200);
  clients.clear();
  EXPECT_EQ(other, 0);
  EXPECT_EQ(host.state("1"), "UNAVAILABLE");
  EXPECT_EQ(host.metric("millrace_requests_total", "outcome=\"success\""), good) << "the series stays";
  ASSERT_EQ(host.load("").status, 200);
  HttpConnection connection(host.port());
  EXPECT_TRUE(host.ask(connection, host.frame(2)).right);
}

TEST(Repository, PollingLoadsNewVersionsOnlyWhenComplete) {
  RepositoryHost host;
  host.add("1", base());
  host.add("7", trained_again(base()));
  const fs::path ready = host.scratch() / "ready";
  fs::rename(host.root() / "m" / "7", ready);
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  EXPECT_EQ(host.state("1"), "READY");
  Clients clients(host, 2);
  // Imitate a slow copy: copy CHECKSUMS first, and leave one FPGA image truncated until the end.
  const fs::path target = host.root() / "m" / "7";
  fs::create_directories(target / "images");
  fs::copy_file(ready / "CHECKSUMS", target / "CHECKSUMS");
  ASSERT_TRUE(host.wait_for_poll());
  std::vector<fs::path> images;
  for (const auto& image : fs::directory_iterator(ready / "images")) images.push_back(image.path());
  for (const auto& image : images) fs::copy_file(image, target / "images" / image.filename());
  fs::resize_file(target / "images" / images.front().filename(), 100);
  fs::copy_file(ready / "deployment.json", target / "deployment.json");
  ASSERT_TRUE(host.eventually("7", "UNAVAILABLE")) << "it looked whole for long enough";
  EXPECT_NE(host.reason("7").find("truncated or altered"), std::string::npos) << host.reason("7");
  EXPECT_EQ(host.state("1"), "READY");
  fs::copy_file(images.front(), target / "images" / images.front().filename(),
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(host.eventually("7", "READY"));
  fs::remove_all(target);
  EXPECT_TRUE(host.eventually("1", "READY")) << "the newest that is left";
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
  fs::remove_all(host.root() / "m");
  HttpConnection connection(host.port());
  EXPECT_TRUE(wait_until([&] { return connection.request("GET", "/v2/models/m")->status == 404; }));
}

TEST(Repository, ModeNoneServesTheNewestVersionAndRefusesChanges) {
  RepositoryHost host;
  host.add("2", base());
  host.add("10", trained_again(base()));
  host.start({"--repository-mode", "none"});
  EXPECT_EQ(host.state("10"), "READY");
  EXPECT_EQ(host.state("2"), "UNKNOWN");
  EXPECT_EQ(host.load("2").status, 501);
  EXPECT_EQ(host.post("/v2/repository/models/m/unload").status, 501);
}

TEST(Repository, ReloadPrintsTheServingVersionOrTheError) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  const auto reload = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {millrace_binary(), "reload", "--url", host.url(), "--model", "m"});
    return run_program(more);
  };
  Outcome outcome = reload({"--version", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("version 1 serves"), std::string::npos) << outcome.out;
  outcome = reload({"--policy", "drain", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"serving\":\"2\""), std::string::npos) << outcome.out;
  outcome = reload({"--version", "5"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("has no version '5' in the repository; it has 1, 2"), std::string::npos)
      << outcome.err;
  outcome = reload({"--policy", "overlap", "--version", "1"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("policy overlap"), std::string::npos) << outcome.err;
  outcome = reload({"--unload"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("no version is served"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace millrace::tests::test_repository
