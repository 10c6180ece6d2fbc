// `millrace serve --repository` over emulated cards: versions are added, swapped, changed and removed under
// load.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "tests/integration/repository_host.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/lenet.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

kernels::Program base() {
  return chain_program(6);
}

/// Clients that send one request after the other and count the outcomes.
class Clients {
 public:
  Clients(const RepositoryHost& host, int count) {
    for (int c = 0; c < count; ++c)
      threads_.emplace_back([this, &host, c](const std::stop_token& stop) {
        HttpConnection connection(host.port());
        for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
          const Answer answer =
              host.ask(connection, host.frame(static_cast<std::uint32_t>(c) * 100 + i % 10));
          ++all;
          if (answer.status != 200) {
            ++failed;
            last_status = answer.status;
            if (answer.status == 0) return;
          } else if (!answer.right) {
            ++wrong;
          }
        }
      });
  }
  void end() {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
  }
  void wait_for(int more) const {
    const int until = all + more;
    while (all < until && failed == 0) std::this_thread::sleep_for(1ms);
  }

  std::atomic<int> all{0}, failed{0}, wrong{0}, last_status{0};

 private:
  std::vector<std::jthread> threads_;
};

void swap_under_load(RepositoryHost& host, const std::string& policy, int swaps) {
  // Load each version once, so that every card involved has its process and its images before descriptors are
  // counted.
  for (const std::string version : {"1", "2", "1"}) ASSERT_EQ(host.load(version, policy).status, 200);
  const auto processes = host.cards();
  const std::size_t descriptors = open_descriptors(host.server().pid());
  Clients clients(host, 3);
  clients.wait_for(20);
  for (int swap = 0; swap < swaps; ++swap) {
    const std::string version = swap % 2 == 0 ? "2" : "1";
    const auto answer = host.load(version, policy);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(host.state(version), "READY");
    clients.wait_for(5);
  }
  clients.end();
  EXPECT_EQ(clients.failed, 0) << "last status " << clients.last_status;
  EXPECT_EQ(clients.wrong, 0);
  EXPECT_EQ(host.cards(), processes);
  EXPECT_TRUE(wait_until([&] { return open_descriptors(host.server().pid()) <= descriptors + 4; }))
      << "the clients' and one more; it has " << open_descriptors(host.server().pid()) << ", and had "
      << descriptors;
  EXPECT_EQ(host.metric("millrace_reloads_total", "outcome=\"success\""), swaps + 3);
  EXPECT_EQ(host.metric("millrace_requests_in_flight"), 0);
  EXPECT_EQ(host.metric("millrace_requests_total", "outcome=\"success\""), clients.all);
}

TEST(Repository, SwapsByDrainUnderLoadFailNoRequest) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  swap_under_load(host, "drain", 12);
}

TEST(Repository, SwapsByOverlapUnderLoadFailNoRequest) {
  RepositoryHost host(6);
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  swap_under_load(host, "overlap", 12);
  // Each version now has cards of its own, which hold its images, so another swap programs no card.
  const double programmed = host.metric("millrace_programmings_total");
  ASSERT_EQ(host.load("2").status, 200);
  ASSERT_EQ(host.load("1").status, 200);
  EXPECT_EQ(host.metric("millrace_programmings_total"), programmed);
}

TEST(Repository, RollingSwapsUnderLoadFailNoRequest) {
  RepositoryHost host(6);
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start({"--replicas", "2"});
  swap_under_load(host, "rolling", 12);
}

TEST(Repository, AMissingReplicaIsRetriedAndNamedInTheIndex) {
  RepositoryHost host(6);
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start({"--replicas", "2"}, {"MILLRACE_EMULATION_OPTIONS=program_time=1000"});
  ASSERT_EQ(host.load("1").status, 200);
  const auto first = host.cards();
  ASSERT_EQ(first.size(), 6U);
  std::jthread loader([&] { EXPECT_EQ(host.load("2", "rolling").status, 200); });
  const auto of_two = [&](const char* series) { return host.metric(series, "version=\"2\""); };
  ASSERT_TRUE(wait_until([&] { return of_two("millrace_replicas") == 1; }));
  // Version 2's second replica is now being programmed on the other cards.
  std::this_thread::sleep_for(150ms);
  ASSERT_EQ(::kill(first[4], SIGKILL), 0);
  loader.join();
  EXPECT_EQ(host.state("2"), "READY");
  EXPECT_TRUE(host.reason("2").starts_with("1 of 2 replicas are up; the rest is tried again: "))
      << host.reason("2");
  EXPECT_EQ(of_two("millrace_replicas_wanted"), 2);
  EXPECT_TRUE(wait_until([&] { return of_two("millrace_replicas_ready") == 2; })) << host.server().err();
  EXPECT_TRUE(wait_until([&] { return host.reason("2").empty(); })) << host.reason("2");
  EXPECT_NE(host.server().err().find("model 'm' version '2' has all its replicas again"), std::string::npos);
  Clients clients(host, 3);
  clients.wait_for(50);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0);
}

/// Two replicas on six cards. Cards given to end() stop and cannot start again until let_start().
class ReplicasOnCardsThatDoNotStart : public testing::Test {
 protected:
  void begin(std::vector<std::string> more = {}) {
    host_.add("1", base());
    if (more.empty()) host_.add("2", trained_again(base()));
    const fs::path card = host_.scratch() / "card";
    std::ofstream(card) << "#!/bin/sh\n[ -e " << host_.scratch().string() << "/no-$1 ] && exit 1\nexec "
                        << (fs::path(millrace_binary()).parent_path() / "millrace-card").string()
                        << " \"$@\"\n";
    fs::permissions(card, fs::perms::owner_all);
    more.insert(more.end(), {"--replicas", "2"});
    host_.start(more, {"MILLRACE_CARD=" + card.string()});
    ASSERT_EQ(host_.load("1").status, 200);
    ASSERT_EQ(host_.cards().size(), 6U);
  }
  void end(const std::vector<int>& cards) {
    for (const int card : cards) std::ofstream(refusal(card)) << "";
    for (const pid_t process : host_.cards()) {
      std::ifstream file("/proc/" + std::to_string(process) + "/cmdline");
      std::string program, name;
      std::getline(std::getline(file, program, '\0'), name, '\0');
      if (fs::exists(host_.scratch() / ("no-" + name))) ::kill(process, SIGKILL);
    }
  }
  void let_start(const std::vector<int>& cards) {
    for (const int card : cards) fs::remove(refusal(card));
  }
  fs::path refusal(int card) const { return host_.scratch() / ("no-fpga" + std::to_string(card)); }
  bool one_is_missing() const {
    return host_.reason("1").starts_with("1 of 2 replicas are up; the rest is tried again: ");
  }
  int log_says(const std::string& what) {
    int times = 0;
    const std::string log = host_.server().err();
    for (auto at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) ++times;
    return times;
  }
  void expect_both() {
    EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_replicas_ready") == 2; }))
        << host_.server().err();
    EXPECT_TRUE(wait_until([&] { return host_.reason("1").empty(); })) << host_.reason("1");
    EXPECT_EQ(host_.state("1"), "READY");
    Clients clients(host_, 3);
    clients.wait_for(50);
    clients.end();
    EXPECT_EQ(clients.failed + clients.wrong, 0);
  }

  RepositoryHost host_{6};
};

TEST_F(ReplicasOnCardsThatDoNotStart, AreRetriedAfterARollbackUntilTheCardsStart) {
  ASSERT_NO_FATAL_FAILURE(begin());
  end({4});
  EXPECT_NE(host_.load("2", "drain").status, 200);
  EXPECT_EQ(host_.state("1"), "READY") << host_.server().err();
  EXPECT_TRUE(one_is_missing()) << host_.reason("1");
  EXPECT_TRUE(wait_until([&] { return log_says("model 'm' version '1' lacks replicas: ") >= 2; }))
      << host_.server().err();
  EXPECT_TRUE(one_is_missing()) << host_.reason("1");
  EXPECT_EQ(host_.load("1").status, 200) << "it serves";
  EXPECT_TRUE(one_is_missing()) << host_.reason("1");
  EXPECT_EQ(host_.metric("millrace_replicas"), 1);
  EXPECT_EQ(host_.metric("millrace_replicas_wanted"), 2);
  HttpConnection connection(host_.port());
  EXPECT_TRUE(host_.ask(connection, host_.frame(1)).right);
  let_start({4});
  expect_both();
}

TEST_F(ReplicasOnCardsThatDoNotStart, AreRetriedAfterAllWereLostAndOneRecovered) {
  ASSERT_NO_FATAL_FAILURE(begin());
  end({0, 1, 2, 3, 4, 5});
  EXPECT_NE(host_.load("2", "drain").status, 200);
  EXPECT_EQ(host_.state("1"), "UNAVAILABLE");
  let_start({0, 1, 2});
  EXPECT_TRUE(host_.eventually("1", "READY")) << host_.server().err();
  EXPECT_TRUE(wait_until([&] { return one_is_missing(); })) << host_.reason("1");
  let_start({3, 4, 5});
  expect_both();
}

TEST_F(ReplicasOnCardsThatDoNotStart, DelayARollingSwapUntilAllReplicasAreUp) {
  ASSERT_NO_FATAL_FAILURE(
      begin({"--repository-mode", "poll", "--repository-poll-ms", "100", "--swap-policy", "rolling"}));
  end({4});
  host_.add("2", trained_again(base()));
  ASSERT_TRUE(wait_until([&] { return host_.reason("2").starts_with("1 of 2 replicas are up; "); }))
      << host_.server().err();
  host_.add("3", base());
  ASSERT_TRUE(wait_until([&] { return host_.reason("3").find("1 of 2 are up") != std::string::npos; }))
      << host_.reason("3");
  let_start({4});
  EXPECT_TRUE(host_.eventually("3", "READY")) << host_.server().err();
  EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_replicas_ready") == 2; }));
}

TEST(Repository, ASwapProgramsOnlyCardsWhoseImageChanged) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", with_other_weights(base(), 2));
  host.add("3", with_other_weights(base(), 2), "the same images, described in other words");
  host.start();
  ASSERT_EQ(host.load("1").status, 200);
  const auto programmed = [&](const std::string& card) {
    return host.metric("millrace_programmings_total", "card=\"" + card + "\"");
  };
  EXPECT_EQ(host.metric("millrace_programmings_total"), 3);
  ASSERT_EQ(host.load("2").status, 200);
  EXPECT_EQ(programmed("fpga0"), 1);
  EXPECT_EQ(programmed("fpga1"), 2) << "the second of three partitions changed";
  EXPECT_EQ(programmed("fpga2"), 1);
  ASSERT_EQ(host.load("3").status, 200);
  EXPECT_EQ(host.metric("millrace_programmings_total"), 4) << "no image changed";
  EXPECT_EQ(host.state("3"), "READY");
  EXPECT_EQ(host.reason("2"), "replaced by version 3");
  HttpConnection connection(host.port());
  EXPECT_EQ(connection.request("POST", "/v2/models/m/versions/1/infer", host.frame(1))->status, 404);
  EXPECT_EQ(connection.request("GET", "/v2/models/m/versions/3/stats")->status, 200);
  EXPECT_EQ(host.metric("millrace_model_info", "version=\"3\""), 1);
}

TEST(Repository, AVersionThatFailsToLoadLeavesTheServingOneUntouched) {
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

/// Limits a running process to `bytes` more of address space than it has now.
void leave_memory(pid_t pid, std::uint64_t bytes) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t pages = 0;
  file >> pages;
  const rlim_t most = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

TEST(Repository, AVersionThatLacksMemoryLeavesTheServingOneUntouched) {
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
  host.add_stored("2", base());  // another's outputs
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
  host.add_stored("2", base());  // another's outputs
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

TEST(Repository, ACardKilledDuringProgrammingIsProgrammedAgain) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", with_other_weights(base(), 2));
  host.start({}, {"MILLRACE_EMULATION_OPTIONS=program_time=1500"});
  ASSERT_EQ(host.load("1").status, 200);
  Clients clients(host, 2);
  clients.wait_for(5);
  const auto processes = host.cards();
  ASSERT_EQ(processes.size(), 3U);
  std::atomic<int> status{0};
  std::jthread loader([&] { status = host.load("2", "drain").status; });
  // Once both clients wait for the new version, no frame is on the cards, which are being programmed.
  HttpConnection asking(host.port());
  EXPECT_TRUE(wait_until([&] {
    const auto looked = asking.request("GET", "/v2/millrace/status");
    return looked.value().body.find("\"queued\":2,") != std::string::npos;
  }));
  std::this_thread::sleep_for(150ms);  // the old version gives its cards back meanwhile
  ASSERT_EQ(::kill(processes[1], SIGKILL), 0);
  loader.join();
  EXPECT_EQ(status, 200) << host.server().err();
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0) << "they waited; last status " << clients.last_status;
  EXPECT_EQ(host.state("2"), "READY");
  EXPECT_EQ(host.cards().size(), 3U);
}

/// A swap from version 1 to version 2 while one card hangs. One request is on the cards, one waits for
/// version 2, and the load request waits as well.
class SwapThatHangs : public testing::Test {
 protected:
  void begin(const std::string& drain_ms) {
    host_.add("1", base());
    host_.add("2", with_other_weights(base(), 2));
    host_.start({"--drain-ms", drain_ms}, {"MILLRACE_EMULATION_OPTIONS=call_timeout=600000"});
    ASSERT_EQ(host_.load("1").status, 200);
    HttpConnection asking(host_.port());
    ASSERT_EQ(host_.ask(asking, host_.frame(1)).status, 200);
    cards_ = host_.cards();
    ASSERT_EQ(cards_.size(), 3U);
    ASSERT_EQ(::kill(cards_[1], SIGSTOP), 0);
    held_ = std::async(std::launch::async, [&] { return ask(); });
    ASSERT_TRUE(status_says(asking, "\"in_flight\":1,"));
    loading_ = std::async(std::launch::async, [&] { return host_.load("2", "drain").status; });
    ASSERT_TRUE(wait_until([&] { return host_.state("2") == "LOADING"; }));
    // Version 2 is reported as LOADING shortly before requests start to wait; until then they still go to the
    // cards.
    for (int tries = 0; tries < 20; ++tries) {
      waiting_.push_back(std::async(std::launch::async, [&] { return ask(); }));
      if (status_says(asking, "\"queued\":1,", 500ms)) return;
    }
    FAIL() << "no request waits for version 2: " << asking.request("GET", "/v2/millrace/status")->body;
  }
  void expect_an_end_with_answers(int signal) {
    const auto since = std::chrono::steady_clock::now();
    EXPECT_EQ(host_.server().stop(signal), 0) << host_.server().err();
    EXPECT_LT(std::chrono::steady_clock::now() - since, 20s) << "the card hangs for 10 minutes";
    EXPECT_EQ(held_.get(), 503);
    for (auto& one : waiting_) EXPECT_EQ(one.get(), 503);
    EXPECT_EQ(loading_.get(), 503);
    EXPECT_NE(host_.server().err().find("stopping without waiting for a version"), std::string::npos);
    ::kill(cards_[1], SIGCONT);
    for (const pid_t card : cards_) EXPECT_TRUE(wait_until([&] { return !process_exists(card); })) << card;
  }
  ~SwapThatHangs() override {
    if (cards_.size() == 3) ::kill(cards_[1], SIGCONT);
  }

  RepositoryHost host_;

 private:
  int ask() {
    HttpConnection connection(host_.port(), 120s);
    return host_.ask(connection, host_.frame(2)).status;
  }
  static bool status_says(HttpConnection& connection, const std::string& what,
                          std::chrono::milliseconds patience = 30s) {
    return wait_until(
        [&] {
          const auto status = connection.request("GET", "/v2/millrace/status");
          return status && status->body.find(what) != std::string::npos;
        },
        patience);
  }
  std::vector<pid_t> cards_;
  std::future<int> held_, loading_;
  std::vector<std::future<int>> waiting_;
};

TEST_F(SwapThatHangs, ASecondSignalEndsTheServerAndAnswersEveryClient) {
  ASSERT_NO_FATAL_FAILURE(begin("600000"));
  ASSERT_EQ(::kill(host_.server().pid(), SIGTERM), 0);
  ASSERT_TRUE(wait_until(
      [&] { return host_.server().err().find("a second signal stops at once") != std::string::npos; }));
  EXPECT_TRUE(host_.server().running());
  expect_an_end_with_answers(SIGTERM);
}

TEST_F(SwapThatHangs, TheDrainsBoundEndsTheServerAndAnswersEveryClient) {
  ASSERT_NO_FATAL_FAILURE(begin("300"));
  expect_an_end_with_answers(SIGTERM);
}

TEST(Repository, AModelThatFindsNoFreeCardsIsToldWhichModelsHoldThem) {
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

TEST(Repository, UnloadingCompletesAcceptedRequestsAndRefusesLaterOnes) {
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

TEST(Repository, PollingLoadsNewVersionsOnlyOnceTheyAreComplete) {
  RepositoryHost host;
  host.add("1", base());
  host.add("7", trained_again(base()));
  const fs::path ready = host.scratch() / "ready";
  fs::rename(host.root() / "m" / "7", ready);
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  EXPECT_EQ(host.state("1"), "READY");
  Clients clients(host, 2);
  // Imitate a slow copy: CHECKSUMS comes first, and one image stays truncated until the end.
  const fs::path target = host.root() / "m" / "7";
  fs::create_directories(target / "images");
  fs::copy_file(ready / "CHECKSUMS", target / "CHECKSUMS");
  std::this_thread::sleep_for(120ms);
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

// Models that are compiled when they are loaded.
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
  /// Waits for a compiler process and stops it with SIGSTOP, long before it would be done. The process must
  /// have executed the compiler's program, because until then the server waits for that alone. Returns the
  /// process id, or 0 if there was no compiler.
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

TEST_F(CompileOnLoad, AModelIsCompiledOnceAndThenTakenFromTheCache) {
  host.start();
  ASSERT_EQ(host.load("2", "", "lenet").status, 200) << host.server().err();
  EXPECT_EQ(host.state("2", "lenet"), "READY");
  const auto lines_with = [&](const std::string& text) {
    std::istringstream lines(host.server().err());
    int count = 0;
    for (std::string line; std::getline(lines, line);) count += line.find(text) != std::string::npos;
    return count;
  };
  EXPECT_EQ(lines_with("model 'lenet' version '2': compil"), 2) << host.server().err();
  EXPECT_EQ(lines_with("model 'lenet' version '2': compiling"), 1) << host.server().err();
  EXPECT_EQ(lines_with("model 'lenet' version '2': compiled in "), 1) << host.server().err();
  HttpConnection connection(host.port());
  EXPECT_NE(connection.request("GET", "/v2/millrace/models/lenet")->body.find("\"labels\":[\""),
            std::string::npos);
  EXPECT_EQ(host.server().stop(SIGTERM), 0);
  host.start();
  ASSERT_EQ(host.load("2", "", "lenet").status, 200);
  EXPECT_EQ(lines_with("compiling"), 0) << host.server().err();
  EXPECT_EQ(lines_with("model 'lenet' version '2': compiled before, taken from "), 1) << host.server().err();
}

TEST_F(CompileOnLoad, ObeysMillraceYamlAndSwapsLoadedWeightsWithoutProgramming) {
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

TEST_F(CompileOnLoad, AWrongMillraceYamlIsNamedWithItsLine) {
  std::ofstream(host.root() / "lenet" / "2" / "millrace.yaml") << "compile:\n  weights: bakd\n";
  host.start();
  const auto answer = host.load("2", "", "lenet");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("millrace.yaml:2: section compile: weights: 'bakd' is none of"),
            std::string::npos)
      << answer.body;
}

TEST_F(CompileOnLoad, AModelThatDoesNotCompileLeavesTheOldVersionServing) {
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

TEST_F(CompileOnLoad, AServingVersionWhoseModelChangesServesOnWhileItIsRecompiled) {
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

TEST_F(CompileOnLoad, PollingTriesAModelThatDoesNotCompileOnlyOnce) {
  const fs::path versions = host.root() / "lenet";
  std::ofstream(versions / "1" / "model.onnx") << "no model";
  host.start({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  ASSERT_TRUE(host.eventually("2", "READY", "lenet")) << host.server().err();
  // Rename the folder in one step. A poll that saw half of the folder removed would try to load it and count
  // another failure.
  fs::rename(versions / "2", host.scratch() / "removed");
  const auto failed = [&] { return host.metric("millrace_reloads_total", "outcome=\"failure\""); };
  ASSERT_TRUE(wait_until([&] { return failed() > 0; })) << host.server().err();
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(failed(), 1) << "within twenty polls: " << host.server().err();
  EXPECT_EQ(host.state("1", "lenet"), "UNAVAILABLE");
  HttpConnection connection(host.port());
  EXPECT_EQ(connection.request("GET", "/v2/models/lenet/versions/2/ready")->status, 200);
  // A changed model is tried again.
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

TEST_F(CompileOnLoad, UnloadAndStopDoNotWaitForACompilationOfAnotherProcess) {
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

TEST_F(CompileOnLoad, ModelsAreCompiledInParallelOnlyUpToTheSetting) {
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
      EXPECT_TRUE(host.eventually("1", "READY", "other")) << "the other has a compiler of its own";
    } else {
      std::this_thread::sleep_for(500ms);
      EXPECT_EQ(compilers(), std::vector<pid_t>{held}) << "the other waits";
    }
    EXPECT_EQ(host.state("1", "lenet"), "LOADING");
    ::kill(held, SIGCONT);
    EXPECT_TRUE(host.eventually("1", "READY", "lenet"));
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

TEST_F(CompileOnLoad, AFullDiskFailsTheLoadAndLeavesNoFiles) {
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
  // A version that failed for lack of space is tried again by every poll until there is room.
  in_small({"--repository-mode", "poll", "--repository-poll-ms", "50"});
  ASSERT_TRUE(host.eventually("2", "UNAVAILABLE", "lenet")) << host.server().err();
  ASSERT_EQ(::mount("none", small.c_str(), "tmpfs", MS_REMOUNT, "size=64m,mode=0700"), 0);
  EXPECT_TRUE(host.eventually("2", "READY", "lenet")) << host.server().err();
}

}  // namespace
}  // namespace millrace::tests
