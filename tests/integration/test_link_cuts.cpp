// Cuts the UDP cables of a server under load, again and again: requests in flight fail with a named error, and the server
// recovers by itself. Also tests `millrace devices --impair`, which cuts cables from the command line.
//
// The environment variable MILLRACE_REPETITIONS sets the number of cuts (default 10). The test prints how long the first
// error after a cut and the first answer after the cable's return took.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/ranks_job.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/metrics_page.hpp"
#include "tests/support/process.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_link_cuts {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kOutage = 2s;
const std::string kFirst = "fpga0-fpga1", kSecond = "fpga1-fpga2";  // the cables of the cluster

std::size_t threads_of(pid_t process) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task"))
    ++count;
  return count;
}

/// Clients that ask without a pause, each on a connection of its own.
class Load {
 public:
  Load(std::string address, const Digits& digits) : address_(std::move(address)), digits_(digits) {
    for (std::size_t client = 0; client < 3; ++client)
      clients_.emplace_back([this, client](const std::stop_token& stop) { ask(client, stop); });
  }

  std::atomic<int> served{0}, failed{0};
  std::atomic<int> wrong{0};  // answers with wrong bytes, or with another status than 200 and 503

 private:
  void ask(std::size_t client, const std::stop_token& stop) {
    HttpConnection connection(address_);
    for (std::size_t frame = client * 30; !stop.stop_requested(); ++frame) {
      const int status = RanksJob::ask(connection, digits_, frame);
      ++(status == 200 ? served : status == 503 ? failed : wrong);
    }
  }

  const std::string address_;
  const Digits& digits_;
  std::vector<std::jthread> clients_;
};

class LinkCuts : public testing::Test {
 protected:
  void SetUp() override {
    digits_ = read_digits();
    ASSERT_FALSE(digits_.inputs.empty());
    const Outcome compiled =
        run_program({millrace_binary(), "compile",
                     (source_dir() / fs::path("tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx")).string(),
                     "--cluster", cluster_, "--partitions", "3", "--name", "lenet", "-o", deployment_});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  }

  void serve(const std::vector<std::string>& more = {}, const std::vector<std::string>& environment = {}) {
    std::vector<std::string> words{millrace_binary(), "serve",  "--deployment", deployment_,
                                   "--cluster",       cluster_, "--http",       "127.0.0.1:0"};
    words.insert(words.end(), more.begin(), more.end());
    server_.emplace(words, environment);
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    address_ = *address;
  }

  void impair(const std::string& cable, bool outage) const {
    HttpConnection connection(address_);
    const auto answer =
        connection.request("POST", "/v2/millrace/cables",
                           "{\"cable\": \"" + cable + "\", \"outage\": " + (outage ? "true" : "false") + "}");
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->status, 200) << answer->body;
  }

  /// Returns the sum of all series of a metric, or 0 if there is none.
  double sum_of(const std::string& metric) const {
    HttpConnection connection(address_);
    const auto page = connection.request("GET", "/metrics");
    return page ? metric_in(page->body, metric).value_or(0) : -1;
  }

  Outcome impair_by_command(const std::string& what, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{millrace_binary(), "devices",           "--impair", what,
                                   "--url",           "http://" + address_};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  TemporaryDirectory directory_{"millrace-cuts"};
  const std::string deployment_ = (directory_.path() / "d").string();
  const std::string cluster_ = (source_dir() / fs::path("configs/clusters/three-ku060-udp.yaml")).string();
  Digits digits_;
  std::optional<BackgroundProgram> server_;
  std::string address_;
};

milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

void print(const char* what, std::vector<milliseconds> times) {
  std::sort(times.begin(), times.end());
  std::printf("%s: median %ld ms, longest %ld ms, %zu cuts\n", what,
              static_cast<long>(times[times.size() / 2].count()), static_cast<long>(times.back().count()),
              times.size());
}

TEST_F(LinkCuts, EachCutCableFailsRequestsWithAnErrorUntilTheServerRecovers) {
  const int cuts = repetitions(10);
  serve();
  const auto cards = children_named(server_->pid(), "millrace-card");
  ASSERT_EQ(cards.size(), 3U);
  Load load(address_, digits_);
  ASSERT_TRUE(wait_until([&] { return load.served > 100; }));
  std::vector<milliseconds> errors, recoveries;
  std::set<std::size_t> descriptors, threads;  // of the server and its cards together, after each cut
  for (int cut = 0; cut < cuts; ++cut) {
    const std::string& cable = cut % 2 == 0 ? kFirst : kSecond;
    const int failed = load.failed;
    const auto begin = Clock::now();
    ASSERT_NO_FATAL_FAILURE(impair(cable, true));
    ASSERT_TRUE(wait_until([&] { return load.failed > failed; })) << server_->err();
    errors.push_back(since(begin));
    std::this_thread::sleep_until(begin + kOutage);  // the length of the outage, not a wait for an event
    const int served = load.served;
    const auto back = Clock::now();
    ASSERT_NO_FATAL_FAILURE(impair(cable, false));
    ASSERT_TRUE(wait_until([&] { return load.served > served; })) << server_->err();
    recoveries.push_back(since(back));
    ASSERT_TRUE(wait_until([&] { return load.served > served + 100; })) << server_->err();
    std::size_t open = open_descriptors(server_->pid()), running = threads_of(server_->pid());
    for (const pid_t card : cards) {
      open += open_descriptors(card);
      running += threads_of(card);
    }
    descriptors.insert(open);
    threads.insert(running);
  }
  print("first error after a cut", errors);
  print("first answer after the cable's return", recoveries);
  EXPECT_EQ(load.wrong, 0);
  // These time limits are longer than necessary, because the machine may be busy. runtime/link/README.md has
  // measured times.
  EXPECT_LT(*std::max_element(errors.begin(), errors.end()), 1s);
  EXPECT_LT(*std::max_element(recoveries.begin(), recoveries.end()), 1s);
  // Nothing accumulates: neither descriptors nor threads, and no card was started again.
  // (A request of this test may still have a descriptor and a thread when they are counted.)
  EXPECT_LE(*descriptors.rbegin(), *descriptors.begin() + 4);
  EXPECT_LE(*threads.rbegin(), *threads.begin() + 4);
  EXPECT_EQ(children_named(server_->pid(), "millrace-card"), cards);
  EXPECT_NE(server_->err().find("does not answer"), std::string::npos) << server_->err();
}

TEST_F(LinkCuts, CardThatLosesOnlyALinkIsNeitherResetNorReprogrammed) {
  serve({"--manners", "hardware"},
        {"MILLRACE_EMULATION_OPTIONS=program_time=20 cable_time=30 reset_time=10"});
  Load load(address_, digits_);
  ASSERT_TRUE(wait_until([&] { return load.served > 100; }));
  const auto programmed = sum_of("millrace_programmings_total");
  for (int cut = 0; cut < 4; ++cut) {
    const int failed = load.failed;
    ASSERT_NO_FATAL_FAILURE(impair(kFirst, true));
    ASSERT_TRUE(wait_until([&] { return load.failed > failed + 10; })) << server_->err();
    const int served = load.served;
    ASSERT_NO_FATAL_FAILURE(impair(kFirst, false));
    ASSERT_TRUE(wait_until([&] { return load.served > served + 100; })) << server_->err();
  }
  EXPECT_EQ(load.wrong, 0);
  EXPECT_EQ(sum_of("millrace_card_resets_total"), 0);
  EXPECT_EQ(sum_of("millrace_programmings_total"), programmed);
}

TEST_F(LinkCuts, ImpairCommandCutsACableOrReportsWhyNot) {
  const std::string tokens = (directory_.path() / "tokens").string();
  std::ofstream(tokens) << "operator admin a-token-of-the-operator\nreader read a-token-of-a-reader-1\n";
  ASSERT_EQ(::chmod(tokens.c_str(), 0600), 0);
  serve({"--tokens", tokens});
  const auto token = [&](const std::string& text) {
    const std::string file = (directory_.path() / "token").string();
    std::ofstream(file) << text << '\n';
    EXPECT_EQ(::chmod(file.c_str(), 0600), 0);
    return std::vector<std::string>{"--token-file", file};
  };
  const auto refused = [&](const Outcome& outcome, int exit_code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  const auto admin = token("a-token-of-the-operator");
  const Outcome cut = impair_by_command(kFirst + ":outage", admin);
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  EXPECT_EQ(cut.out, "cable '" + kFirst + "' changed\n");
  EXPECT_EQ(impair_by_command(kFirst, admin).exit_code, 0);
  refused(impair_by_command("other:outage", admin), 2, "has no cable 'other'; `millrace devices");
  refused(impair_by_command(kFirst + ":bit_errors=0.7", admin), 2,
          "'bit_errors' must be a probability of 0 to 0.5");
  refused(impair_by_command(kFirst + ":gigabits_per_second=0", admin), 2, "'gigabits_per_second' must be");
  refused(impair_by_command(kFirst + ":outage"), 3, "give a token with --token-file or MILLRACE_TOKEN");
  refused(impair_by_command(kFirst + ":outage", token("a-token-of-a-reader-1")), 3,
          "use a token with the scope 'admin'");
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

}  // namespace
}  // namespace millrace::tests::test_link_cuts
