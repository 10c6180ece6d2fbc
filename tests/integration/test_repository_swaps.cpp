// Tests how versions in a repository replace each other under load, on emulated cards, and what happens if
// cards die or hang during such a swap.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "tests/integration/repository_clients.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_repository_swaps {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

void swap_under_load(RepositoryHost& host, const std::string& policy, int swaps) {
  // Load each version once, so that every card involved has its process and its images before descriptors are counted.
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

TEST(Repository, VersionSwapsByDrainUnderLoadFailNoRequest) {
  RepositoryHost host;
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  swap_under_load(host, "drain", 12);
}

TEST(Repository, VersionSwapsByOverlapUnderLoadFailNoRequest) {
  RepositoryHost host(6);
  host.add("1", base());
  host.add("2", trained_again(base()));
  host.start();
  swap_under_load(host, "overlap", 12);
  // Each version now has its own cards, which contain its FPGA images, so another swap programs no card.
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

/// A model with two replicas on six cards. end() kills cards, which cannot start again until let_start() permits it.
class ReplicasOnCardsThatDoNotStart : public testing::Test {
 protected:
  void begin(std::vector<std::string> more = {}, const std::string& emulation = "program_time=0") {
    host_.add("1", base());
    if (more.empty()) host_.add("2", trained_again(base()));
    const fs::path card = host_.scratch() / "card";
    std::ofstream(card) << "#!/bin/sh\n[ -e " << host_.scratch().string() << "/no-$1 ] && exit 1\nexec "
                        << (fs::path(millrace_binary()).parent_path() / "millrace-card").string()
                        << " \"$@\"\n";
    fs::permissions(card, fs::perms::owner_all);
    more.insert(more.end(), {"--replicas", "2"});
    host_.start(more, {"MILLRACE_CARD=" + card.string(), "MILLRACE_EMULATION_OPTIONS=" + emulation});
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
  bool one_is_missing(const std::string& version = "1") const {
    return host_.reason(version).starts_with(
        "1 of 2 replicas are running; the server keeps retrying the others: ");
  }
  void expect_both(const std::string& version = "1") {
    EXPECT_TRUE(wait_until([&] { return host_.metric("millrace_replicas_ready") == 2; }))
        << host_.server().err();
    EXPECT_TRUE(wait_until([&] { return host_.reason(version).empty(); })) << host_.reason(version);
    EXPECT_EQ(host_.state(version), "READY");
    Clients clients(host_, 3);
    clients.wait_for(50);
    clients.end();
    EXPECT_EQ(clients.failed + clients.wrong, 0);
  }

  RepositoryHost host_{6};
};

TEST_F(ReplicasOnCardsThatDoNotStart, AreRetriedAfterARollingSwapAndNamedInTheIndex) {
  ASSERT_NO_FATAL_FAILURE(begin({}, "program_time=1000"));
  std::jthread loader([&] { EXPECT_EQ(host_.load("2", "rolling").status, 200); });
  const auto of_two = [&](const char* series) { return host_.metric(series, "version=\"2\""); };
  ASSERT_TRUE(wait_until([&] { return of_two("millrace_replicas") == 1; }));
  end({4});  // while this card and its neighbours open version 2's second replica
  loader.join();
  EXPECT_EQ(host_.state("2"), "READY");
  EXPECT_TRUE(one_is_missing("2")) << host_.reason("2");
  EXPECT_EQ(of_two("millrace_replicas_wanted"), 2);
  let_start({4});
  expect_both("2");
  EXPECT_EQ(host_.log_says("model 'm' version '2' has all its replicas again"), 1);
}

TEST_F(ReplicasOnCardsThatDoNotStart, AreRetriedAfterARollbackUntilTheCardsStart) {
  ASSERT_NO_FATAL_FAILURE(begin());
  end({4});
  EXPECT_NE(host_.load("2", "drain").status, 200);
  EXPECT_EQ(host_.state("1"), "READY") << host_.server().err();
  EXPECT_TRUE(one_is_missing()) << host_.reason("1");
  EXPECT_TRUE(wait_until([&] { return host_.log_says("model 'm' version '1' lacks replicas: ") >= 2; }))
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

TEST_F(ReplicasOnCardsThatDoNotStart, DelayARollingSwapUntilAllReplicasAreRunning) {
  ASSERT_NO_FATAL_FAILURE(
      begin({"--repository-mode", "poll", "--repository-poll-ms", "100", "--swap-policy", "rolling"}));
  end({4});
  host_.add("2", trained_again(base()));
  ASSERT_TRUE(wait_until([&] { return host_.reason("2").starts_with("1 of 2 replicas are running; "); }))
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

/// Whether a card is being programmed. While it is, the memory in which the server passes FPGA images to the
/// card's process is not empty.
bool is_being_programmed(pid_t card) {
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator("/proc/" + std::to_string(card) + "/fd", ignored))
    if (fs::read_symlink(file, ignored).string().find("memfd:millrace-image") != std::string::npos)
      return fs::file_size(file, ignored) > 0;
  return false;
}

TEST(Repository, ACardThatIsKilledDuringProgrammingIsProgrammedAgain) {
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
  pid_t programmed = 0;  // the only card whose partition differs between the versions
  ASSERT_TRUE(wait_until([&] {
    for (const pid_t card : processes)
      if (is_being_programmed(card)) programmed = card;
    return programmed != 0;
  }));
  ASSERT_EQ(::kill(programmed, SIGKILL), 0);
  loader.join();
  EXPECT_EQ(status, 200) << host.server().err();
  clients.wait_for(5);
  clients.end();
  EXPECT_EQ(clients.failed + clients.wrong, 0) << "they waited; last status " << clients.last_status;
  EXPECT_EQ(host.state("2"), "READY");
  EXPECT_EQ(host.cards().size(), 3U);
}

/// The base of tests in which one card hangs during a swap from version 1 to version 2. One request is on the
/// cards, one request waits for version 2, and the load request also waits.
class HungSwap : public testing::Test {
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
    // The server reports version 2 as LOADING shortly before requests begin to wait for version 2. Until
    // then, requests still go to the cards.
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
  ~HungSwap() override {
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

TEST_F(HungSwap, ASecondSignalEndsTheServerAndAnswersEveryClient) {
  ASSERT_NO_FATAL_FAILURE(begin("600000"));
  ASSERT_EQ(::kill(host_.server().pid(), SIGTERM), 0);
  ASSERT_TRUE(wait_until(
      [&] { return host_.server().err().find("a second signal stops at once") != std::string::npos; }));
  EXPECT_TRUE(host_.server().running());
  expect_an_end_with_answers(SIGTERM);
}

TEST_F(HungSwap, ServerEndsAtTheDrainTimeLimitAndAnswersEveryClient) {
  ASSERT_NO_FATAL_FAILURE(begin("300"));
  expect_an_end_with_answers(SIGTERM);
}

}  // namespace
}  // namespace millrace::tests::test_repository_swaps
