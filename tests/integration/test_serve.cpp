// Tests `millrace serve` and `millrace infer` over three emulated cards: the bytes of answers, lost cards,
// and how the server ends.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <boost/json.hpp>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_serve {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

constexpr const char* kCardProgram = "millrace-card";
constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";

class Serve : public testing::Test {
 protected:
  Serve() { deploy(program_, emulated_ring(3), 3, deployment_); }

  void start(std::vector<std::string> more = {}, const std::vector<std::string>& environment = {},
             std::vector<std::string> command = {}) {
    command.insert(command.end(), {millrace_binary(), "serve", "--deployment", deployment_.string(), "--http",
                                   "127.0.0.1:0"});
    command.insert(command.end(), {"--warmup-frames", "0"});  // because the tests count the cards' frames
    command.insert(command.end(), more.begin(), more.end());
    server_.emplace(command, environment);
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    url_ = "http://" + *address;
    port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  }
  std::string infer_target() const { return "/v2/models/" + program_.name + "/infer"; }

  std::string frame(std::uint32_t seed) const {
    std::mt19937 random(seed);
    std::string bytes;
    for (std::uint64_t i = 0; i < program_.tensors[program_.inputs[0]].elements(); ++i) {
      const float value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 16.F;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return bytes;
  }
  std::string expected(const std::string& input) const {
    const auto bytes = std::as_bytes(std::span(input));
    const auto out = kernels::reference::run(program_, {{bytes.begin(), bytes.end()}}).front();
    return std::string(reinterpret_cast<const char*>(out.data()), out.size());
  }
  /// Sends one inference request whose body is only the tensor (raw mode), and returns the HTTP status. Returns -1 if
  /// the status is 200 but a byte is wrong, and 0 if there was no answer.
  int ask(HttpConnection& connection, const std::string& input) const {
    const auto answer = connection.request("POST", infer_target(), input, kRaw);
    if (!answer) return 0;
    return answer->status == 200 && !answer->body.ends_with(expected(input)) ? -1 : answer->status;
  }
  /// Sends the same request as ask() without waiting for the answer, which receive() reads.
  void send(HttpConnection& connection, const std::string& input) const {
    connection.send("POST " + infer_target() + " HTTP/1.1\r\nHost: t\r\n" + std::string(kRaw) +
                    "Content-Length: " + std::to_string(input.size()) + "\r\n\r\n" + input);
  }
  static json::value model_status(HttpConnection& connection) {
    return json::parse(connection.request("GET", "/v2/millrace/status")->body).at("models").at(0);
  }
  /// Asks for the model's status until `holds` is true for every card, and returns that status; after a minute, returns
  /// the last status. One request does not suffice, because the server waits for the cards only for a bounded time and
  /// may return older values.
  template <class OfCard>
  static json::value model_status_when(HttpConnection& connection, OfCard holds) {
    json::value model;
    static_cast<void>(wait_until([&] {
      model = model_status(connection);
      const json::array& cards = model.at("cards").as_array();
      return std::all_of(cards.begin(), cards.end(), holds);
    }));
    return model;
  }
  /// Waits until `frames` frames are in flight on the cards.
  static bool on_the_cards(HttpConnection& connection, int frames) {
    return wait_until([&] { return model_status(connection).at("in_flight").to_number<int>() == frames; });
  }
  bool said(const std::string& words) const {
    return wait_until([&] { return server_->err().find(words) != std::string::npos; });
  }
  std::vector<pid_t> cards() const { return children_named(server_->pid(), kCardProgram); }

  TemporaryDirectory directory_{"millrace-serve"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  const kernels::Program program_ = chain_program(6);
  std::optional<BackgroundProgram> server_;
  std::string url_;
  std::uint16_t port_ = 0;
};

TEST_F(Serve, ConcurrentClientsOverThreeCardsReceiveOutputsEqualToTheReference) {
  start();
  ASSERT_EQ(cards().size(), 3U);
  EXPECT_NE(server_->err().find("is up on 3 card(s)"), std::string::npos) << server_->err();
  std::atomic<int> right{0};
  std::vector<std::jthread> clients;
  for (std::uint32_t c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      HttpConnection connection(port_);
      for (std::uint32_t i = 0; i < 50; ++i) right += ask(connection, frame(c * 1000 + i)) == 200;
    });
  clients.clear();
  EXPECT_EQ(right, 200);

  HttpConnection connection(port_);
  const json::value model = model_status_when(
      connection, [](const json::value& card) { return card.at("frames").to_number<int>() == 200; });
  EXPECT_EQ(model.at("completed").to_number<int>(), 200);
  ASSERT_EQ(model.at("cards").as_array().size(), 3U);
  for (const json::value& card : model.at("cards").as_array())
    EXPECT_EQ(card.at("frames").to_number<int>(), 200);
  ASSERT_EQ(model.at("links").as_array().size(), 2U);
  for (const json::value& link : model.at("links").as_array())
    EXPECT_GT(link.at("bytes").to_number<int>(), 0);
}

TEST_F(Serve, JsonAndBinaryRequestsReturnTheSameNumbers) {
  start();
  const std::string input = frame(1);
  json::array data;
  for (std::size_t i = 0; i < input.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, input.data() + i, 4);
    data.emplace_back(value);
  }
  HttpConnection connection(port_);
  const auto answer = connection.request(
      "POST", infer_target(),
      json::serialize(json::object{
          {"id", "one"},
          {"inputs",
           json::array{json::object{
               {"name", "x"}, {"shape", {1, 8, 8, 2}}, {"datatype", "FP32"}, {"data", std::move(data)}}}}}));
  ASSERT_TRUE(answer && answer->status == 200) << answer->body;
  const json::value body = json::parse(answer->body);
  EXPECT_EQ(body.at("id").as_string(), "one");
  std::string numbers;
  for (const json::value& number : body.at("outputs").at(0).at("data").as_array()) {
    const auto value = number.to_number<float>();
    numbers.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  EXPECT_EQ(numbers, expected(input));
}

TEST_F(Serve, InferSendsEveryFrameOfAnArrayAndWritesTheOutputs) {
  start();
  NpyArray in{"<f4", {5, 8, 8, 2}, {}};
  std::string want;
  for (std::uint32_t i = 0; i < 5; ++i) {
    const std::string one = frame(i);
    const auto bytes = std::as_bytes(std::span(one));
    in.data.insert(in.data.end(), bytes.begin(), bytes.end());
    want += expected(one);
  }
  const auto input = directory_.path() / "in.npy", output = directory_.path() / "out.npy";
  ASSERT_TRUE(write_npy(input, in).ok());
  const Outcome outcome = run_program({millrace_binary(), "infer", "--url", url_, "--input", input.string(),
                                       "--top", "2", "--output", output.string(), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("model").as_string(), program_.name);
  ASSERT_EQ(document.at("frames").as_array().size(), 5U);
  EXPECT_EQ(document.at("frames").at(4).at("top").as_array().size(), 2U);
  const auto out = read_npy(output);
  ASSERT_TRUE(out.ok()) << out.error().message();
  EXPECT_EQ(out->shape, (std::vector<std::uint64_t>{5, 4, 4, 4}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out->data.data()), out->data.size()), want);
}

TEST_F(Serve, InferErrorNamesABadInputModelOrServer) {
  start();
  const auto infer = [&](std::vector<std::string> more) {
    std::vector<std::string> command = {millrace_binary(), "infer"};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  };
  const auto short_file = directory_.path() / "short.bin";
  ASSERT_TRUE(write_file_atomically(short_file, "123").ok());
  Outcome outcome = infer({"--url", url_, "--input", short_file.string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("not a whole number of frames"), std::string::npos) << outcome.err;
  outcome = infer({"--url", url_, "--input", "/no/such/file.npy"});
  EXPECT_EQ(outcome.exit_code, 2);
  outcome = infer({"--url", url_, "--model", "none", "--input", short_file.string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("unknown model 'none'"), std::string::npos) << outcome.err;
  outcome = infer({"--url", "http://127.0.0.1:1", "--input", short_file.string()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("is 'millrace serve' running there?"), std::string::npos) << outcome.err;
}

TEST_F(Serve, MetricsCountTheFramesAndBytesOfTheCards) {
  start();
  HttpConnection connection(port_);
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_EQ(ask(connection, frame(i)), 200);
  const std::string model = "model=\"" + program_.name + "\"";
  std::string page;
  const auto value = [&](const std::string& start) {
    const auto at = page.find("\n" + start);
    return at == std::string::npos ? -1.0 : std::stod(page.substr(page.find("} ", at) + 2));
  };
  // Repeat the request for /metrics, because it waits for the cards only for a bounded time and may return
  // older values.
  static_cast<void>(wait_until([&] {
    page = "\n" + connection.request("GET", "/metrics")->body;
    return value("millrace_card_frames_total{" + model) == 10 && value("millrace_card_up{" + model) == 1 &&
           value("millrace_link_bytes_total{" + model) > 0;
  }));
  EXPECT_EQ(value("millrace_requests_total{" + model + ",outcome=\"success\""), 10);
  EXPECT_EQ(value("millrace_request_seconds_count{" + model), 10);
  EXPECT_GT(value("millrace_compute_seconds_sum{" + model), 0);
  EXPECT_EQ(value("millrace_card_frames_total{" + model), 10);
  EXPECT_EQ(value("millrace_card_up{" + model), 1);
  EXPECT_GT(value("millrace_link_bytes_total{" + model), 0);
  ASSERT_TRUE(installed({"promtool"}));
  const auto file = directory_.path() / "page";
  ASSERT_TRUE(write_file_atomically(file, page.substr(1)).ok());
  EXPECT_EQ(std::system(("promtool check metrics < " + file.string()).c_str()), 0);
}

TEST_F(Serve, AKilledCardGives503UntilItIsReloaded) {
  start();
  HttpConnection connection(port_), held(port_);
  ASSERT_EQ(ask(connection, frame(1)), 200);
  const auto before = cards();
  ASSERT_EQ(before.size(), 3U);
  ASSERT_EQ(::kill(before[1], SIGSTOP), 0);  // so that a request is on the cards when this card dies
  send(held, frame(2));
  ASSERT_TRUE(on_the_cards(connection, 1));
  ASSERT_EQ(::kill(before[1], SIGKILL), 0);
  const auto lost = held.receive();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->status, 503) << lost->body;
  int status = 0;
  EXPECT_TRUE(wait_until([&] {
    status = ask(connection, frame(2));
    EXPECT_TRUE(status == 200 || status == 503) << status;
    return status == 200;
  })) << "the card is back; last status "
      << status;
  EXPECT_NE(cards(), before);
  EXPECT_EQ(cards().size(), 3U);
  std::uint64_t restarts = 0;
  const json::value model = model_status(connection);
  for (const json::value& card : model.at("cards").as_array())
    restarts += card.at("restarts").to_number<std::uint64_t>();
  EXPECT_GE(restarts, 1U);
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 200);
}

TEST_F(Serve, ManyIdleClientsDoNotPreventTheRecoveryOfALostCard) {
  start({}, {}, {"sh", "-c", "ulimit -n 200 && exec \"$@\"", "sh"});
  HttpConnection connection(port_);
  ASSERT_EQ(ask(connection, frame(1)), 200);
  std::vector<std::unique_ptr<HttpConnection>> idle;
  for (int i = 0; i < 250; ++i) idle.push_back(std::make_unique<HttpConnection>(port_));
  const std::string mark = "at most ", told = server_->err();
  ASSERT_NE(told.find(mark), std::string::npos) << told;
  const double most = std::stod(told.substr(told.find(mark) + mark.size()));
  ASSERT_TRUE(wait_until([&] {
    const std::string page = connection.request("GET", "/metrics")->body;
    const std::string gauge = "\nmillrace_http_connections ";
    const auto at = page.find(gauge);
    return at != std::string::npos && std::stod(page.substr(at + gauge.size())) >= most;
  })) << "it takes what it can";
  const auto before = cards();
  ASSERT_EQ(before.size(), 3U);
  ASSERT_EQ(::kill(before[0], SIGKILL), 0);
  EXPECT_TRUE(wait_until([&] { return ask(connection, frame(2)) == 200 && cards() != before; }))
      << server_->err();
  EXPECT_NE(server_->err().find("the limit of open files is 200"), std::string::npos) << server_->err();
}

TEST_F(Serve, StatusMetricsAndHealthAreAnsweredWhileACardHangs) {
  start({}, {"MILLRACE_EMULATION_OPTIONS=call_timeout=600000"});
  HttpConnection connection(port_, 300s);  // half of the time for which the driver would wait for the card
  ASSERT_EQ(ask(connection, frame(1)), 200);
  const auto processes = cards();
  ASSERT_EQ(processes.size(), 3U);
  ASSERT_EQ(::kill(processes[1], SIGSTOP), 0);
  for (const char* target : {"/metrics", "/v2/millrace/status", "/v2/health/ready", "/v2/health/live",
                             "/v2/millrace/partitions", "/metrics"}) {
    const auto answer = connection.request("GET", target);
    ASSERT_TRUE(answer) << target << ": no answer while the card hangs";
    EXPECT_EQ(answer->status, 200) << target;
  }
  EXPECT_EQ(connection.request("GET", "/v2/models/" + program_.name + "/ready")->status, 200);
  EXPECT_TRUE(wait_until([&] {
    const json::value model = model_status(connection);
    const auto& all = model.at("cards").as_array();
    EXPECT_EQ(all.size(), 3U);
    return std::count_if(all.begin(), all.end(), [](const auto& c) { return !c.at("answers").as_bool(); }) ==
           1;
  })) << "and it is known which";
  ASSERT_EQ(::kill(processes[1], SIGCONT), 0);
  EXPECT_EQ(ask(connection, frame(2)), 200);
}

TEST_F(Serve, ACardKilledUnderLoadFailsRequestsOnlyWith503) {
  start({}, {"MILLRACE_EMULATION_OPTIONS=program_time=300"});
  std::atomic<int> right{0}, refused{0}, other{0};
  std::vector<std::jthread> clients;
  for (std::uint32_t c = 0; c < 4; ++c)
    clients.emplace_back([&, c](const std::stop_token& stop) {
      HttpConnection connection(port_, 60s);
      for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
        const int status = ask(connection, frame(c * 1000 + i % 7));  // also checks the answer's bytes
        ++(status == 200 ? right : status == 503 ? refused : other);
        if (status == 503) std::this_thread::sleep_for(5ms);  // clients wait a little before they try again
      }
    });
  const auto reaches = [](const std::atomic<int>& what, int count) {
    return wait_until([&] { return what >= count; });
  };
  for (std::size_t victim = 0; victim < 3; ++victim) {
    ASSERT_TRUE(reaches(right, right + 20));
    const auto before = cards();
    ASSERT_EQ(before.size(), 3U);
    const int refused_before = refused;
    ASSERT_EQ(::kill(before[victim], SIGKILL), 0);
    ASSERT_TRUE(reaches(refused, refused_before + 1)) << "someone noticed";
    ASSERT_TRUE(reaches(right, right + 20)) << "it came back";
  }
  clients.clear();
  EXPECT_EQ(other, 0);
  EXPECT_EQ(cards().size(), 3U);
  HttpConnection connection(port_);
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 200);
}

TEST_F(Serve, ASecondSignalStopsAtOnceAndAnswersRequestsInFlight) {
  start({"--drain-ms", "600000"}, {"MILLRACE_EMULATION_OPTIONS=call_timeout=60000"});
  const auto processes = cards();
  ASSERT_EQ(processes.size(), 3U);
  HttpConnection held(port_), other(port_);
  ASSERT_EQ(ask(held, frame(1)), 200);
  ASSERT_EQ(::kill(processes[1], SIGSTOP), 0);
  send(held, frame(2));
  ASSERT_TRUE(on_the_cards(other, 1));
  ASSERT_EQ(::kill(server_->pid(), SIGTERM), 0);
  ASSERT_TRUE(said("a second signal stops at once")) << server_->err();
  EXPECT_EQ(other.request("GET", "/v2/health/ready")->status, 503);
  EXPECT_TRUE(server_->running()) << "it waits for the request";
  ASSERT_EQ(::kill(server_->pid(), SIGTERM), 0);
  ASSERT_TRUE(said("stopping at once")) << server_->err();
  ASSERT_EQ(::kill(processes[1], SIGCONT), 0);
  const auto answer = held.receive();
  ASSERT_TRUE(answer) << "answered, not cut off";
  EXPECT_TRUE(answer->status == 503 || answer->status == 200) << answer->status;
  EXPECT_EQ(server_->stop(0), 0) << "ends by itself: " << server_->err();
}

TEST_F(Serve, SigtermUnderLoadAnswersEveryClientAndLeavesNoCardProcess) {
  start({"--drain-notice-ms", "2000"});
  const auto card_processes = cards();
  std::atomic<int> good{0}, wrong{0}, told{0};
  std::vector<std::jthread> clients;
  for (std::uint32_t c = 0; c < 3; ++c)
    clients.emplace_back([&, c, connection = HttpConnection(port_)]() mutable {
      for (std::uint32_t i = 0;; ++i) {
        const auto answer = connection.request("POST", infer_target(), frame(c * 1000 + i), kRaw);
        if (!answer) return;  // the server closed the connection without an answer
        const bool right = answer->status == 200 && answer->body.ends_with(expected(frame(c * 1000 + i)));
        ++(right ? good : wrong);
        if (!answer->headers.contains("connection")) continue;
        ++told;
        return;
      }
    });
  EXPECT_TRUE(wait_until([&] { return good >= 30; }));
  ASSERT_EQ(::kill(server_->pid(), SIGTERM), 0);
  const auto since = std::chrono::steady_clock::now();
  clients.clear();
  EXPECT_EQ(told, 3) << "each was told that its connection closes";
  EXPECT_EQ(wrong, 0) << "while the load balancer has not seen it yet, nobody is refused";
  if (std::chrono::steady_clock::now() - since < 1s) {  // otherwise the notice time may be over
    HttpConnection probe(port_), late(port_);
    EXPECT_EQ(probe.request("GET", "/v2/health/ready")->status, 503);
    EXPECT_EQ(ask(late, frame(7)), 200);
  }
  EXPECT_EQ(server_->stop(0), 0) << server_->err();
  EXPECT_GE(std::chrono::steady_clock::now() - since, 1900ms) << "though nothing was left to answer";
  EXPECT_TRUE(
      wait_until([&] { return std::none_of(card_processes.begin(), card_processes.end(), process_exists); }));
}

TEST_F(Serve, SigintStopsTheServer) {
  start();
  EXPECT_EQ(server_->stop(SIGINT), 0) << server_->err();
}

TEST_F(Serve, RefusesBadSettingsBeforeAnyCardIsProgrammed) {
  start();
  const std::string taken = "127.0.0.1:" + std::to_string(port_);
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    std::string_view says;
  };
  const Case cases[] = {
      {{"--deployment", "/no/such/place"}, 2, "/no/such/place"},
      {{"--deployment", deployment_.string(), "--http", "here"}, 2, "--http 'here' is not HOST:PORT"},
      {{"--deployment", deployment_.string(), "--http", taken}, 3, "in use"},
      {{"--deployment", deployment_.string(), "--fidelity", "exact"},
       2,
       "--fidelity: 'exact' is not supported"},
      {{"--deployment", deployment_.string(), "--cluster", "/no/such/cluster.yaml"},
       2,
       "/no/such/cluster.yaml"},
      {{"--deployment", deployment_.string(), "--deployment", deployment_.string()},
       2,
       "both hold a model named"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> command = {millrace_binary(), "serve"};
    command.insert(command.end(), one.arguments.begin(), one.arguments.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, one.exit_code) << one.says;
    EXPECT_NE(outcome.err.find(one.says), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.find("is up on"), std::string::npos)
        << "cards were programmed first: " << outcome.err;
  }
}

TEST_F(Serve, RefusesAnAlteredImage) {
  for (const auto& file : std::filesystem::directory_iterator(deployment_ / "images")) {
    std::fstream image(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    image.seekp(-1, std::ios::end);
    image.put('\x5a');
    break;
  }
  const Outcome outcome = run_program(
      {millrace_binary(), "serve", "--deployment", deployment_.string(), "--http", "127.0.0.1:0"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("images/"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace millrace::tests::test_serve
