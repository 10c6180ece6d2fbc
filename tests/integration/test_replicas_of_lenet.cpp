// Tests replicas of a model end to end: plans, compiles, verifies and serves them, and kills one of their
// cards under load.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <fstream>
#include <thread>

#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_replicas_of_lenet {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace std::chrono_literals;

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";
constexpr int kClients = 3;

class ReplicasOfLenet : public testing::Test {
 protected:
  Outcome millrace(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), millrace_binary());
    return run_program(arguments);
  }
  std::string cluster(const std::string& name) const {
    return (kSource / "configs/clusters" / (name + ".yaml")).string();
  }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  /// Compiles LeNet-5 for a chain of nine KU060 cards, as `replicas` copies on `partitions` cards each.
  void compile(int replicas, int partitions, const std::string& to) {
    const Outcome outcome = millrace({"compile", kModel.string(), "--cluster", cluster("nine-ku060"),
                                      "--name", "lenet", "--replicas", std::to_string(replicas),
                                      "--partitions", std::to_string(partitions), "-o", to});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  void serve(std::vector<std::string> more) {
    std::vector<std::string> command{millrace_binary(), "serve", "--http", "127.0.0.1:0"};
    command.insert(command.end(), more.begin(), more.end());
    server_.emplace(command);
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<pid_t> cards() { return children_named(server_->pid(), "millrace-card"); }

  /// Reads the first pictures of the data set, scaled for the model, and their golden outputs.
  void read_golden() {
    auto images = read_npy(kSource / "tests/vectors/lenet5_mnist/images_u8.npy");
    auto golden = read_npy(kSource / "tests/vectors/lenet5_mnist/golden_f32.npy");
    ASSERT_TRUE(images.ok() && golden.ok());
    frames_ = std::min(images->shape[0], golden->shape[0]);
    const std::size_t pixels = images->data.size() / images->shape[0];
    const std::size_t bytes = golden->data.size() / golden->shape[0];
    for (std::size_t f = 0; f < frames_; ++f) {
      std::string in;
      for (std::size_t p = 0; p < pixels; ++p) {
        const float value = static_cast<float>(std::to_integer<int>(images->data[f * pixels + p])) * scale_;
        in.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      inputs_.push_back(std::move(in));
      outputs_.emplace_back(reinterpret_cast<const char*>(golden->data.data() + f * bytes), bytes);
    }
  }
  /// Sends one inference request and returns the HTTP status. Returns -1 if the status is 200 but a byte is
  /// wrong, and 0 if there was no answer.
  int ask(HttpConnection& connection, std::size_t frame) const {
    const auto answer = connection.request("POST", "/v2/models/lenet/infer", inputs_[frame % frames_], kRaw);
    if (!answer) return 0;
    return answer->status == 200 && !answer->body.ends_with(outputs_[frame % frames_]) ? -1 : answer->status;
  }
  json::value model_status() const {
    HttpConnection connection(port_);
    return json::parse(connection.request("GET", "/v2/millrace/status")->body).at("models").at(0);
  }
  int ready() const {
    HttpConnection connection(port_);
    return connection.request("GET", "/v2/health/ready")->status;
  }

  const fs::path kSource = tests::source_dir();
  const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  TemporaryDirectory directory_{"millrace-replicas"};
  const float scale_ = 1.0F / 255;
  std::size_t frames_ = 0;
  std::vector<std::string> inputs_, outputs_;
  std::optional<BackgroundProgram> server_;
  std::uint16_t port_ = 0;
};

TEST_F(ReplicasOfLenet, TwoReplicasShareTheirImagesAndEqualTheReference) {
  compile(2, 2, file("d"));
  const json::value inspected = json::parse(millrace({"inspect", file("d"), "--json"}).out);
  EXPECT_EQ(inspected.at("replicas").to_number<int>(), 2);
  EXPECT_EQ(inspected.at("images").as_array().size(), 2U) << "replicas share their images";
  for (const std::vector<std::string>& on :
       {std::vector<std::string>{}, {"--cluster", cluster("nine-ku060")}}) {
    std::vector<std::string> command{"verify", file("d"), "--frames", "12", "--json"};
    command.insert(command.end(), on.begin(), on.end());
    const Outcome outcome = millrace(command);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json::value verified = json::parse(outcome.out);
    EXPECT_EQ(verified.at("mismatches").to_number<int>(), 0);
    EXPECT_EQ(verified.at("cards").to_number<int>(), 4);
  }
}

TEST_F(ReplicasOfLenet, TwoReplicasShareTheLoadAndReportItInStatusAndMetrics) {
  read_golden();
  compile(2, 2, file("d"));
  serve({"--deployment", file("d"), "--warmup-frames", "0"});
  EXPECT_NE(server_->err().find("is up on 4 card(s)"), std::string::npos) << server_->err();
  ASSERT_EQ(cards().size(), 4U);
  HttpConnection connection(port_);
  for (std::size_t f = 0; f < 40; ++f) ASSERT_EQ(ask(connection, f), 200) << f;
  // Repeat the status request, because it waits for the cards only for a bounded time and may return older counts.
  json::value status;
  static_cast<void>(wait_until([&] {
    status = model_status();
    int counted = 0;
    for (const json::value& card : status.at("cards").as_array())
      counted += card.at("frames").to_number<int>();
    const json::array& links = status.at("links").as_array();
    return counted == 80 && std::all_of(links.begin(), links.end(), [](const json::value& link) {
             return link.at("bytes").to_number<int>() > 0;
           });
  }));
  EXPECT_EQ(status.at("replicas").to_number<int>(), 2);
  EXPECT_EQ(status.at("replicas_ready").to_number<int>(), 2);
  ASSERT_EQ(status.at("cards").as_array().size(), 4U);
  int frames = 0;
  for (const json::value& card : status.at("cards").as_array()) {
    frames += card.at("frames").to_number<int>();
    EXPECT_GE(card.at("frames").to_number<int>(), 10) << "each replica takes every other frame or so";
  }
  EXPECT_EQ(frames, 80) << "each frame passes two cards";
  ASSERT_EQ(status.at("links").as_array().size(), 2U);
  for (const json::value& link : status.at("links").as_array())
    EXPECT_GT(link.at("bytes").to_number<int>(), 0);
  const std::string metrics = connection.request("GET", "/metrics")->body;
  for (const std::string card : {"card0", "card1", "card0-2", "card1-2"})
    EXPECT_NE(metrics.find("card=\"" + card + "\""), std::string::npos) << card;
  const json::value trace = json::parse(connection.request("GET", "/v2/millrace/trace")->body);
  EXPECT_NE(json::serialize(trace).find("replica 1, slot 0"), std::string::npos);

  const Outcome seven = millrace({"infer", "--url", url(), "--model", "lenet", "--input",
                                  (kSource / "tests/vectors/lenet5_mnist/seven.png").string()});
  EXPECT_EQ(seven.exit_code, 0) << seven.err;
  EXPECT_NE(seven.out.find("7"), std::string::npos) << seven.out;
  const Outcome bench = millrace(
      {"bench", "--url", url(), "--model", "lenet", "--concurrency", "4", "--duration", "1", "--json"});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_NE(bench.out.find("\"errors\":0"), std::string::npos) << bench.out;
  EXPECT_EQ(server_->stop(SIGTERM), 0);
}

TEST_F(ReplicasOfLenet, AKilledCardFailsOnlyItsFramesInFlight) {
  read_golden();
  compile(2, 2, file("d"));
  serve({"--deployment", file("d")});
  const auto processes = cards();
  ASSERT_EQ(processes.size(), 4U);
  for (int round = 0; round < 4; ++round) {
    std::atomic<int> served{0}, lost{0}, other{0};
    std::vector<std::jthread> clients;
    for (std::size_t c = 0; c < kClients; ++c)
      clients.emplace_back([&, c](const std::stop_token& stop) {
        HttpConnection connection(port_);
        for (std::size_t i = c * 7; !stop.stop_requested(); ++i) {
          const int status = ask(connection, i);
          (status == 200 ? served : status == 503 ? lost : other).fetch_add(1);
        }
      });
    const auto wait_for = [&](int more) {
      return wait_until([&, until = served + more] { return served >= until; });
    };
    ASSERT_TRUE(wait_for(30));
    // A restarted card has a new process id, so in each round the first process belongs to a different card.
    const pid_t victim = cards().front();
    ASSERT_EQ(::kill(victim, SIGKILL), 0);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(ready(), 200);
    EXPECT_TRUE(wait_for(60)) << "the other replica serves";
    EXPECT_TRUE(wait_until([&] {
      const json::value status = model_status();
      int restarts = 0;
      for (const json::value& card : status.at("cards").as_array())
        restarts += card.at("restarts").to_number<int>();
      return restarts > round && status.at("replicas_ready").to_number<int>() == 2;
    }));
    EXPECT_TRUE(wait_for(30));
    clients.clear();
    EXPECT_LE(lost.load(), kClients) << "a client had one request in flight at most";
    EXPECT_EQ(other.load(), 0);
  }
  int restarts = 0;
  const json::value status = model_status();
  for (const json::value& card : status.at("cards").as_array()) {
    restarts += card.at("restarts").to_number<int>();
    EXPECT_EQ(card.at("state").as_string(), "up");
  }
  EXPECT_EQ(restarts, 4);
  EXPECT_EQ(cards().size(), 4U);
  EXPECT_EQ(server_->stop(SIGTERM), 0);
}

TEST_F(ReplicasOfLenet, SwapsBetweenVersionsWithReplicasFailNoRequest) {
  read_golden();
  fs::create_directories(file("root/lenet"));
  compile(2, 2, file("root/lenet/1"));
  compile(2, 1, file("root/lenet/2"));  // other FPGA images, the same answers
  compile(3, 1, file("root/lenet/3"));
  serve({"--repository", file("root"), "--repository-mode", "explicit", "--load", "lenet", "--cluster",
         cluster("nine-ku060")});
  const auto load = [&](const std::string& version, const std::string& policy) {
    HttpConnection connection(port_);
    return *connection.request(
        "POST", "/v2/repository/models/lenet/load",
        R"({"parameters":{"version":")" + version + R"(","policy":")" + policy + "\"}}");
  };
  ASSERT_EQ(load("1", "drain").status, 200);
  EXPECT_EQ(model_status().at("cards").as_array().size(), 4U);
  std::atomic<int> served{0}, failed{0};
  std::vector<std::jthread> clients;
  for (std::size_t c = 0; c < kClients; ++c)
    clients.emplace_back([&, c](const std::stop_token& stop) {
      HttpConnection connection(port_);
      for (std::size_t i = c * 7; !stop.stop_requested(); ++i)
        (ask(connection, i) == 200 ? served : failed).fetch_add(1);
    });
  for (const auto& [version, policy, cards] : {std::tuple{"2", "rolling", 2U},
                                               {"1", "rolling", 4U},
                                               {"2", "overlap", 2U},
                                               {"3", "drain", 3U},
                                               {"1", "auto", 4U}}) {
    const auto answer = load(version, policy);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(model_status().at("cards").as_array().size(), cards) << version << " by " << policy;
  }
  const auto refused = load("3", "rolling");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("equal numbers of replicas"), std::string::npos) << refused.body;
  EXPECT_TRUE(wait_until([&] { return served > 0; }));
  clients.clear();
  EXPECT_EQ(failed.load(), 0);
}

TEST_F(ReplicasOfLenet, ServeRefusesMoreReplicasThanTheClusterHolds) {
  compile(2, 2, file("d"));
  const Outcome refused = millrace(
      {"serve", "--deployment", file("d"), "--cluster", cluster("three-ku060"), "--http", "127.0.0.1:0"});
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_NE(refused.err.find("the deployment needs 4 or more for 2 replicas; request fewer"),
            std::string::npos)
      << refused.err;
  serve({"--deployment", file("d"), "--cluster", cluster("three-ku060"), "--replicas", "1"});
  EXPECT_EQ(model_status().at("cards").as_array().size(), 2U);
}

TEST_F(ReplicasOfLenet, APlanFileListsTheCardsOfEachReplica) {
  const auto plan = [&](std::vector<std::string> more, const std::string& on = "nine-ku060") {
    more.insert(more.begin(), {"plan", kModel.string(), "--cluster", cluster(on)});
    return millrace(more);
  };
  const auto planned = [&](std::vector<std::string> more, const std::string& on = "nine-ku060") {
    more.emplace_back("--json");
    const Outcome outcome = plan(more, on);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.exit_code == 0 ? outcome.out : "{}");
  };
  const auto rate = [](const json::value& root) {
    return root.at("predicted").at("frames_per_second").to_number<double>();
  };
  const auto expect_refused = [](const Outcome& outcome, int code, const std::string& words) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.err << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  const auto one = planned({"--objective", "throughput"}, "one-ku060");
  const auto nine = planned({"--objective", "throughput"});
  EXPECT_EQ(one.at("replicas").as_array().size(), 1U);
  ASSERT_EQ(nine.at("replicas").as_array().size(), 9U);
  EXPECT_EQ(nine.at("replicas").at(8).at("cards").at(0).as_string(), "fpga8");
  EXPECT_NEAR(rate(nine), 9 * rate(one), 1e-6 * rate(nine));
  EXPECT_EQ(nine.at("predicted").at("latency_us"), one.at("predicted").at("latency_us"));
  const auto target = planned({"--target-fps", std::to_string(2.5 * rate(one))});
  EXPECT_EQ(target.at("replicas").as_array().size(), 3U);

  const std::string yaml = file("plan.yaml");
  const auto own = planned({"--replicas", "2", "--partitions", "2", "--save-plan", yaml});
  const auto again = planned({"--plan", yaml});
  EXPECT_EQ(again.at("replicas"), own.at("replicas"));
  EXPECT_DOUBLE_EQ(rate(again), rate(own));
  const std::string page = plan({"--replicas", "2", "--partitions", "2"}).out;
  EXPECT_NE(page.find("4 of 9 cards in 2 replicas"), std::string::npos) << page;
  EXPECT_NE(page.find("replicas on fpga0+fpga1, fpga2+fpga3"), std::string::npos) << page;

  std::ifstream in(yaml);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto edited = [&](const std::string& cards, std::vector<std::string> more = {}) {
    std::string changed = text;
    const std::string from = "\"fpga2\", \"fpga3\"";
    const auto at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    changed.replace(at, from.size(), cards);
    std::ofstream(file("edited.yaml")) << changed;
    more.insert(more.end(), {"--plan", file("edited.yaml")});
    return plan(more);
  };
  EXPECT_EQ(edited("fpga7, fpga8").exit_code, 0);
  expect_refused(edited("fpga1, fpga2"), 2, "edited.yaml: replicas: card 'fpga1' is used twice");
  expect_refused(edited("fpga2, fpga2"), 2, "card 'fpga2' is used twice");
  expect_refused(edited("fpga2"), 2, "a replica has 1 card, but the first replica has 2");
  expect_refused(edited("fpga2, fpga4"), 2, "are not cabled as 'fpga0' and 'fpga1' are");
  expect_refused(edited("fpga2, fpga99"), 2, "the cluster has no card 'fpga99'");
  expect_refused(edited("fpga2, {}"), 2, "edited.yaml:");
  expect_refused(edited("fpga2, fpga3", {"--replicas", "3"}), 2, "has 2; edit its 'replicas'");

  const std::string mixed = file("mixed.yaml");
  const Outcome saved = plan({"--save-plan", mixed}, "mixed");
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  std::ifstream chosen(mixed);
  const std::string plain((std::istreambuf_iterator<char>(chosen)), {});
  const bool second = plain.find("card: \"fpga1\"") != std::string::npos;
  std::ofstream(mixed, std::ios::app) << "replicas: [{cards: [" << (second ? "fpga0" : "fpga1") << "]}]\n";
  const Outcome unlike = plan({"--plan", mixed}, "mixed");
  expect_refused(unlike, 2, "in a replica and is not of its kind");

  expect_refused(plan({"--replicas", "0"}), 2, "--replicas: '0' is not a whole number from 1 to");
  expect_refused(plan({"--replicas", "10"}), 1, "'nine-ku060' has 9 cards; request at most 9");
  expect_refused(plan({"--replicas", "1024"}), 1, "request at most 9");
  expect_refused(plan({"--replicas", "4000000000"}), 2, "is not a whole number from 1 to 1024");
  expect_refused(plan({"--replicas", "-1"}), 2, "--replicas");
  expect_refused(plan({"--replicas", "99999999999"}), 2, "--replicas");
  expect_refused(plan({"--replicas", "4", "--partitions", "3"}), 1, "each of 3 cards");
  expect_refused(plan({"--replicas", "3"}, "mixed"), 1,
                 "all groups of cards need the same devices and cables");
}

}  // namespace
}  // namespace millrace::tests::test_replicas_of_lenet
