// Runs `millrace bench` against a real `millrace serve`. Both must count the same requests, and `bench` must
// report every failure.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <map>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_bench {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

class Bench : public testing::Test {
 protected:
  void SetUp() override {
    deploy(program_, emulated_ring(1), 1, deployment_);
    server_.emplace(std::vector<std::string>{millrace_binary(), "serve", "--deployment", deployment_.string(),
                                             "--http", "127.0.0.1:0", "--udp", "127.0.0.1:0"});
    const auto http = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(http.has_value()) << server_->err();
    http_ = "http://" + *http;
    port_ = static_cast<std::uint16_t>(std::stoi(http->substr(http->rfind(':') + 1)));
    const auto udp = server_->wait_for_line("listening udp ", 60s);
    ASSERT_TRUE(udp.has_value()) << server_->err();
    udp_ = "udp://" + *udp;
  }

  Outcome bench(const std::string& url, const std::vector<std::string>& more) const {
    std::vector<std::string> command = {millrace_binary(), "bench", "--url", url, "--model", program_.name};
    command.insert(command.end(), more.begin(), more.end());
    for (const auto& [option, value] :
         std::map<std::string, std::string>{{"--duration", "0.3"}, {"--warmup", "0"}})
      if (std::find(more.begin(), more.end(), option) == more.end())
        command.insert(command.end(), {option, value});
    return run_program(command);
  }
  json::value measured(const std::string& url, std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Outcome run = bench(url, more);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    json::error_code failed;
    json::value value = json::parse(run.out, failed);
    EXPECT_FALSE(failed) << run.out;
    return value;
  }
  std::int64_t inferences() const {
    HttpConnection connection(port_);
    const auto answer = connection.request("GET", "/v2/models/" + program_.name + "/stats");
    return json::parse(answer.value().body)
        .at("model_stats")
        .at(0)
        .at("inference_count")
        .to_number<std::int64_t>();
  }
  void refused(const std::vector<std::string>& more, int exit_code, const std::string& words) const {
    const Outcome run = bench(http_, more);
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }

  TemporaryDirectory directory_{"millrace-bench"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  const kernels::Program program_ = chain_program(2);
  std::optional<BackgroundProgram> server_;
  std::string http_, udp_;
  std::uint16_t port_ = 0;
};

TEST_F(Bench, CountsTheSameNumberOfRequestsAsTheServer) {
  std::int64_t before = inferences();
  // In an open loop, a request that is due but not sent before the run ends counts as an error. At the rates
  // and durations below, the last request is due long before the end.
  const std::vector<std::string> open_loop{"--rate", "5", "--duration", "1.5"};
  for (const auto& [url, more] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{http_, {"--concurrency", "3"}},
                                                                     {http_, {"--raw"}},
                                                                     {udp_, {"--concurrency", "2"}},
                                                                     {http_, open_loop},
                                                                     {udp_, open_loop}}) {
    SCOPED_TRACE(url + " " + (more.empty() ? "" : more.front()));
    const json::value value = measured(url, more);
    const auto requests = value.at("runs").at(0).at("requests").to_number<std::int64_t>();
    EXPECT_GT(requests, 0);
    EXPECT_EQ(value.at("schema").as_int64(), 1);
    EXPECT_EQ(value.at("errors").to_number<int>(), 0);
    EXPECT_GT(value.at("latency_us").at("p50").to_number<double>(), 0);
    EXPECT_GE(value.at("latency_us").at("p99").to_number<double>(),
              value.at("latency_us").at("p50").to_number<double>());
    // Over UDP, the server counts a request a moment after it has sent the answer.
    std::int64_t after = 0;
    EXPECT_TRUE(wait_until([&] { return (after = inferences()) - before >= requests; }));
    EXPECT_EQ(after - before, requests);
    before = after;
  }
}

TEST_F(Bench, SweepsConnectionCountsAndComparesWithAnEarlierReport) {
  const auto old = directory_.path() / "old.json";
  const json::value first = measured(http_, {"--concurrency", "1,2"});
  ASSERT_EQ(first.at("runs").as_array().size(), 2U);
  EXPECT_EQ(first.at("runs").at(1).at("connections").to_number<int>(), 2);
  std::ofstream(old) << json::serialize(first);

  const Outcome table = bench(http_, {"--concurrency", "2", "--compare", old.string()});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("now/then"), std::string::npos) << table.out;
  const json::value second = measured(http_, {"--concurrency", "2", "--compare", old.string()});
  EXPECT_EQ(second.at("comparison").at("runs").at(0).at("then").at("requests"),
            first.at("runs").at(1).at("requests"));

  refused({"--concurrency", "5", "--compare", old.string()}, 2, "5 connections");
  std::ofstream(old) << "{\"schema\":2}";
  refused({"--compare", old.string()}, 2, "schema 2");
  refused({"--compare", (directory_.path() / "none").string()}, 2, "none");
}

TEST_F(Bench, WritesAHistogramForEachRunAndReportsNoEnergyForEmulatedCards) {
  const auto file = directory_.path() / "latency.hgrm";
  const json::value sweep = measured(http_, {"--concurrency", "1,2", "--histogram", file.string()});
  for (const char* connections : {".1", ".2"}) {
    const auto text = read_text_file(file.string() + connections);
    ASSERT_TRUE(text.ok()) << connections;
    EXPECT_NE(text->find("#[Total count = "), std::string::npos) << *text;
  }
  EXPECT_TRUE(sweep.at("runs").at(0).at("joules_per_request").is_null());
  ASSERT_FALSE(std::filesystem::exists(file));
  measured(http_, {"--histogram", file.string()});
  EXPECT_TRUE(std::filesystem::exists(file));
  const Outcome nowhere = bench(http_, {"--histogram", "/no/such/place/file"});
  EXPECT_NE(nowhere.exit_code, 0);
  EXPECT_NE(nowhere.err.find("--histogram"), std::string::npos) << nowhere.err;
}

TEST_F(Bench, SendsTheFramesOfAnInputFile) {
  const auto file = directory_.path() / "frames.raw";
  const std::size_t bytes = program_.tensors[program_.inputs[0]].elements() * sizeof(float);
  std::ofstream(file) << std::string(3 * bytes, '\0');
  const json::value value = measured(http_, {"--input", file.string()});
  EXPECT_EQ(value.at("input_bytes").to_number<std::size_t>(), bytes);
  EXPECT_EQ(value.at("errors").to_number<int>(), 0);
  std::ofstream(file) << std::string(bytes + 1, '\0');
  refused({"--input", file.string()}, 2, "frames.raw");
  refused({"--input", (directory_.path() / "none.raw").string()}, 2, "none.raw");
}

TEST_F(Bench, ErrorNamesTheBadOption) {
  refused({"--rate", "0"}, 2, "--rate 0");
  refused({"--rate", "-1"}, 2, "--rate");
  refused({"--rate", "nan"}, 2, "--rate");
  refused({"--duration", "0"}, 2, "--duration 0");
  refused({"--warmup", "-1"}, 2, "--warmup");
  refused({"--rate", "5", "--concurrency", "2"}, 2, "--concurrency");
  refused({"--concurrency", "0"}, 2, "--concurrency 0");
  refused({"--concurrency", "1,x"}, 2, "--concurrency");
  refused({"--connections", "5"}, 2, "--rate");
  refused({"--timeout-ms", "0"}, 2, "--timeout-ms");
  refused({"--histogram", directory_.path() / "none" / "h"}, 2, "--histogram");
  const Outcome unknown =
      run_program({millrace_binary(), "bench", "--url", http_, "--model", "other", "--duration", "0.1"});
  EXPECT_EQ(unknown.exit_code, 2) << unknown.err;
  EXPECT_NE(unknown.err.find("unknown model 'other'"), std::string::npos) << unknown.err;
  const Outcome raw = bench(udp_, {"--raw"});
  EXPECT_EQ(raw.exit_code, 2) << raw.err;
}

TEST_F(Bench, SignsUdpRequestsWithTheGivenKey) {
  const std::string first = "3 000102030405060708090a0b0c0d0e0f",
                    second = "7 f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
  const auto file = [&](const std::string& name, const std::string& text) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  };
  const std::string both = file("both", first + "\n" + second + "\n"),
                    one = file("one", "# the second\n" + second);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment_.string(), "--http",
                            "127.0.0.1:0", "--udp", "127.0.0.1:0", "--udp-keys", both});
  const auto listening = server.wait_for_line("listening udp ", 60s);
  ASSERT_TRUE(listening.has_value()) << server.err();
  const std::string url = "udp://" + *listening;
  EXPECT_EQ(bench(url, {"--timeout-ms", "300"}).exit_code, 1) << "without a key";
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"--udp-keys", one}, {"--udp-keys", both, "--udp-key-id", "3"}}) {
    const json::value report = measured(url, keys);
    EXPECT_GT(report.at("runs").at(0).at("requests").to_number<std::int64_t>(), 0);
  }
  const auto says = [&](const std::vector<std::string>& more, const std::string& words) {
    const Outcome run = bench(url, more);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find(words), std::string::npos) << run.err;
  };
  says({"--udp-keys", both}, "holds 2 keys; --udp-key-id says which");
  says({"--udp-keys", both, "--udp-key-id", "4"}, "--udp-key-id 4: ");
  says({"--udp-keys", file("none", "")}, "holds no key");
  says({"--udp-keys", file("odd", first + "\n3 00")}, "line 2");
  says({"--udp-keys", (directory_.path() / "missing").string()}, "missing");
  says({"--udp-key-id", "3"}, "--udp-keys");
  refused({"--udp-keys", one}, 2, "only for udp:// URLs");
}

TEST_F(Bench, ReportsThatNoServerAnswers) {
  // Use port 1, where nobody listens. Another program may meanwhile use the stopped server's ports.
  for (const std::string url : {"http://127.0.0.1:1", "udp://127.0.0.1:1"}) {
    const Outcome run = bench(url, {"--timeout-ms", "500"});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_NE(run.err.find(url.substr(url.find("://"))), std::string::npos) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST_F(Bench, CountsErrorsAndFailsWhenTheServerDiesDuringTheRun) {
  for (const bool over_udp : {false, true}) {
    SCOPED_TRACE(over_udp ? "UDP" : "HTTP");
    if (!server_->running()) SetUp();
    BackgroundProgram run({millrace_binary(), "bench", "--url", over_udp ? udp_ : http_, "--model",
                           program_.name, "--duration", "4", "--warmup", "0", "--timeout-ms", "500"});
    EXPECT_TRUE(wait_until([&] { return inferences() > 0; })) << run.err();
    server_->stop(SIGKILL);
    const auto errors = run.wait_for_line("errors with ", 60s);
    ASSERT_TRUE(errors.has_value()) << run.err();
    EXPECT_EQ(run.stop(0), 1) << run.err();
    EXPECT_NE(run.err().find("requests failed"), std::string::npos) << run.err();
  }
}

}  // namespace
}  // namespace millrace::tests::test_bench
