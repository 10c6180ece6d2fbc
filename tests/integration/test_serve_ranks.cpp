// Tests `millrace serve` as three ranks that mpirun starts on this machine, each with one emulated card: the bytes of
// answers, the end of a job, killed ranks, and jobs that are refused.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/ranks_job.hpp"
#include "tests/integration/two_hosts.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_serve_ranks {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

std::string cluster() {
  return (source_dir() / fs::path("configs/clusters/three-hosts-ku060.yaml")).string();
}

class ServeRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed: run 'tools/setup'";
    digits_ = read_digits();
    ASSERT_FALSE(digits_.inputs.empty());
  }

  /// Compiles LeNet-5 for the hosts of a cluster file, and returns the deployment's path.
  std::string compile(const std::vector<std::string>& how, const std::string& name = "d",
                      const std::string& on = cluster()) const {
    const std::string to = (directory_.path() / name).string();
    std::vector<std::string> command{
        millrace_binary(),
        "compile",
        (source_dir() / fs::path("tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx")).string(),
        "--cluster",
        on,
        "--name",
        "lenet",
        "-o",
        to};
    command.insert(command.end(), how.begin(), how.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return to;
  }
  std::string replicas() const { return compile({"--replicas", "3", "--partitions", "1"}); }

  static std::vector<std::string> serving(const std::string& deployment) {
    return {"--cluster", cluster(), "--deployment", deployment};
  }

  /// Runs a job that must be refused, and returns what its ranks print.
  static std::string refusal(const std::vector<std::vector<std::string>>& ranks) {
    std::vector<std::string> command = mpirun_command();
    for (const auto& arguments : ranks) {
      if (&arguments != &ranks.front()) command.emplace_back(":");
      command.insert(command.end(), {"-n", "1", millrace_binary(), "serve", "--http", "127.0.0.1:0"});
      command.insert(command.end(), arguments.begin(), arguments.end());
    }
    const Outcome outcome = run_program(command, {}, 60s);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  }
  static std::vector<std::string> as_host(const std::string& host, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--host-name", host});
    return arguments;
  }

  /// Expects that no process of `processes` is left.
  static void expect_gone(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes)
      EXPECT_TRUE(wait_until([&] { return !process_exists(process); }, 10s)) << process;
  }

  TemporaryDirectory directory_{"millrace-ranks"};
  Digits digits_;
};

json::array cards_of(std::uint16_t port) {
  HttpConnection connection(port);
  const auto answer = connection.request("GET", "/v2/millrace/status");
  return json::parse(answer->body).at("models").at(0).at("cards").as_array();
}

TEST_F(ServeRanks, OutputsOfReplicasOnThreeHostsEqualTheReference) {
  RanksJob job(serving(replicas()));
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  EXPECT_EQ(job.cards().size(), 3U);
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 3; ++client)
    clients.emplace_back([&, client] {
      HttpConnection connection(job.port());
      for (std::size_t i = 0; i < 60; ++i)
        if (RanksJob::ask(connection, digits_, client * 100 + i) != 200) ++wrong;
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(wait_until([&] {
    const json::array cards = cards_of(job.port());
    return cards.size() == 3 && std::all_of(cards.begin(), cards.end(), [](const json::value& card) {
             return card.at("frames").to_number<int>() > 0;
           });
  })) << json::serialize(cards_of(job.port()));
}

TEST_F(ServeRanks, OutputsOfAChainOverThreeHostsEqualTheReference) {
  const std::string deployment = compile({"--partitions", "3"});
  const json::value inspected =
      json::parse(run_program({millrace_binary(), "inspect", deployment, "--json"}).out);
  std::size_t over_mpi = 0;
  for (const json::value& channel : inspected.at("channels").as_array())
    if (channel.at("transport") == "mpi") ++over_mpi;
  EXPECT_EQ(over_mpi, 2U) << json::serialize(inspected.at("channels"));
  const Outcome verified = run_program({millrace_binary(), "verify", deployment, "--frames", "8"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;

  RanksJob job(serving(deployment));
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  HttpConnection connection(job.port());
  for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(RanksJob::ask(connection, digits_, i), 200) << i;
}

TEST_F(ServeRanks, EveryRankFindsItsHostByTheNameOfTheMachine) {
  if (!TwoHosts::is_possible()) GTEST_SKIP() << "this user may not make network and UTS namespaces";
  const TwoHosts hosts;
  ASSERT_TRUE(hosts.made());
  fs::create_directory(directory_.path() / "clusters");
  fs::create_directory_symlink(source_dir() / fs::path("configs/devices"), directory_.path() / "devices");
  const std::string file = (directory_.path() / "clusters" / "two-hosts.yaml").string();
  std::ofstream(file) << "schema: 1\nemulated: true\nhosts: [{name: " << hosts.name(0)
                      << "}, {name: " << hosts.name(1)
                      << "}]\nnetwork: {gigabits_per_second: 10, latency_ns: 30000}\ncards:\n"
                      << "  - {name: fpga0, device: ku060, host: " << hosts.name(0) << "}\n"
                      << "  - {name: fpga1, device: ku060, host: " << hosts.name(1) << "}\n";
  const std::string deployment = compile({"--partitions", "2"}, "d", file);
  const std::string listener = "unix:" + (directory_.path() / "http").string();
  BackgroundProgram job(hosts.in_first({"mpirun",
                                        "--allow-run-as-root",
                                        "--mca",
                                        "plm_rsh_agent",
                                        hosts.agent().string(),
                                        "--mca",
                                        "btl",
                                        "self,tcp",
                                        "--bind-to",
                                        "none",
                                        "--host",
                                        hosts.address(0) + "," + hosts.address(1),
                                        "-n",
                                        "2",
                                        millrace_binary(),
                                        "serve",
                                        "--cluster",
                                        file,
                                        "--deployment",
                                        deployment,
                                        "--http",
                                        listener}));
  const auto ready = job.wait_for_line("listening http ", 60s);
  EXPECT_TRUE(ready) << job.err();
  if (ready) {
    HttpConnection connection(listener);
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(RanksJob::ask(connection, digits_, i), 200) << i;
  }
  job.stop(SIGTERM);
}

TEST_F(ServeRanks, EveryRankEndsWithExitCode0WhenRank0IsStopped) {
  RanksJob job(serving(replicas()));
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  std::vector<pid_t> processes = job.cards();
  for (int number = 0; number < RanksJob::kRanks; ++number) processes.push_back(job.rank(number));
  ASSERT_EQ(::kill(job.rank(0), SIGTERM), 0);
  ASSERT_TRUE(wait_until([&] { return !job.mpirun().running(); }, 30s));
  EXPECT_EQ(job.mpirun().stop(0), 0) << job.mpirun().err();
  expect_gone(processes);
}

TEST_F(ServeRanks, ARollingSwapOverThreeRanksFailsNoRequest) {
  const fs::path versions = directory_.path() / "models" / "lenet";
  fs::create_directories(versions);
  const std::vector<std::string> replicas{"--replicas", "3", "--partitions", "1"};
  fs::rename(compile(replicas, "one"), versions / "1");
  RanksJob job({"--cluster", cluster(), "--repository", (directory_.path() / "models").string(),
                "--repository-mode", "explicit", "--load", "lenet"});
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  // The second version has other FPGA images, and answers with the same bytes.
  std::vector<std::string> smaller = replicas;
  smaller.insert(smaller.end(), {"--max-utilisation", "0.5"});
  fs::rename(compile(smaller, "two"), versions / "2");

  std::atomic<int> served{0}, failed{0};
  std::vector<std::jthread> clients;
  for (std::size_t client = 0; client < 3; ++client)
    clients.emplace_back([&, client](const std::stop_token& stop) {
      HttpConnection connection(job.port());
      for (std::size_t i = client * 50; !stop.stop_requested(); ++i)
        ++(RanksJob::ask(connection, digits_, i) == 200 ? served : failed);
    });
  ASSERT_TRUE(wait_until([&] { return served > 30; }));
  const Outcome swapped =
      run_program({millrace_binary(), "reload", "--url", "http://127.0.0.1:" + std::to_string(job.port()),
                   "--model", "lenet", "--version", "2", "--policy", "rolling"});
  EXPECT_EQ(swapped.exit_code, 0) << swapped.err;
  const int after = served;
  EXPECT_TRUE(wait_until([&] { return served > after + 30; }));
  clients.clear();
  EXPECT_EQ(failed, 0) << job.mpirun().err();
  HttpConnection connection(job.port());
  const auto status = connection.request("GET", "/v2/millrace/status");
  const json::value model = json::parse(status->body).at("models").at(0);
  EXPECT_EQ(model.at("version"), "2");
  EXPECT_EQ(model.at("replicas_ready").to_number<int>(), 3);
}

TEST_F(ServeRanks, AKilledRankFailsRequestsAndEndsTheJob) {
  RanksJob job(serving(replicas()));
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  std::vector<pid_t> processes = job.cards();
  for (int number = 0; number < RanksJob::kRanks; ++number) processes.push_back(job.rank(number));
  std::atomic<int> served{0}, wrong{0}, refused{0};
  std::vector<std::jthread> clients;
  for (std::size_t client = 0; client < 3; ++client)
    clients.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        HttpConnection connection("127.0.0.1:" + std::to_string(job.port()));
        if (!connection.connected()) return;
        for (int status = 200; status != 0 && !stop.stop_requested();) {
          status = RanksJob::ask(connection, digits_, static_cast<std::size_t>(served.load()));
          if (status == 200) ++served;
          if (status == 503) ++refused;
          if (status != 200 && status != 503 && status != 0) ++wrong;
        }
      }
    });
  ASSERT_TRUE(wait_until([&] { return served > 50; }));
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(job.rank(1), SIGKILL), 0);
  // mpirun sends SIGTERM a second after the loss. The server must notice the loss earlier than that, by the
  // signal SIGCONT.
  EXPECT_TRUE(wait_until([&] { return refused > 0; }, 10s));
  const auto noticed = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(noticed, 1s);
  std::printf("first 503 after %ld ms\n",
              static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(noticed).count()));
  EXPECT_TRUE(wait_until([&] { return !job.mpirun().running(); }, 30s));
  const auto took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took, 5s);
  for (auto& client : clients) client.request_stop();
  clients.clear();
  EXPECT_EQ(wrong, 0) << "requests get 200, 503, or lose their connection at the end";
  EXPECT_NE(job.mpirun().stop(0), 0);
  EXPECT_NE(job.mpirun().err().find("rank 1 (host 'host1') is lost"), std::string::npos)
      << job.mpirun().err();
  expect_gone(processes);
}

TEST_F(ServeRanks, AKilledRank0EndsAllRanksAndCards) {
  RanksJob job(serving(replicas()));
  ASSERT_TRUE(job.wait_until_ready()) << job.mpirun().err();
  std::vector<pid_t> processes = job.cards();
  for (int number = 0; number < RanksJob::kRanks; ++number) processes.push_back(job.rank(number));
  HttpConnection connection(job.port());
  ASSERT_EQ(RanksJob::ask(connection, digits_, 0), 200);
  ASSERT_EQ(::kill(job.rank(0), SIGKILL), 0);
  EXPECT_TRUE(connection.closed_by_server());
  EXPECT_TRUE(wait_until([&] { return !job.mpirun().running(); }, 30s));
  EXPECT_NE(job.mpirun().stop(0), 0);
  expect_gone(processes);
}

TEST_F(ServeRanks, ServerRefusesRanksThatDoNotFitTheCluster) {
  const std::string deployment = replicas();
  const auto serve = serving(deployment);
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({as_host("host0", serve), as_host("host2", serve)}), "no rank runs on host1");
  has(refusal({as_host("host0", serve), as_host("host1", serve), as_host("host1", serve)}),
      "rank 1 and rank 2 both run on host 'host1'");
  has(refusal({as_host("host0", serve), as_host("elsewhere", serve)}), "has no host 'elsewhere'");
  const std::string other = compile({"--partitions", "1"}, "other");
  has(refusal({as_host("host0", serve), as_host("host1", serve), as_host("host2", serving(other))}),
      "rank 0 and rank 2 have different deployments");

  auto alone = as_host("host0", serve);
  alone.insert(alone.begin(), {millrace_binary(), "serve"});
  const Outcome outcome = run_program(alone, {}, 60s);
  EXPECT_EQ(outcome.exit_code, 2);
  has(outcome.err, "has 3 hosts; start one process on each of them");
}

}  // namespace
}  // namespace millrace::tests::test_serve_ranks
