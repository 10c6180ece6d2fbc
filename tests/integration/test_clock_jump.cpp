// Tests a server whose wall clock jumps by years, forwards and backwards. Deadlines, idle timeouts, sessions
// and polling use the steady clock. Only times shown to people may change.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "kernels/reference/reference.hpp"
#include "millrace/client.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_clock_jump {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr std::int64_t kYear = 365 * 86'400;

/// The file, shared with the server, that contains the number of seconds by which the server's wall clock is ahead.
class Shift {
 public:
  explicit Shift(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(file, sizeof(std::int64_t)), 0);
    at_ = static_cast<volatile std::int64_t*>(
        ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    EXPECT_NE(static_cast<volatile void*>(at_), MAP_FAILED);
  }
  ~Shift() { ::munmap(const_cast<std::int64_t*>(at_), sizeof(std::int64_t)); }
  Shift(const Shift&) = delete;
  Shift& operator=(const Shift&) = delete;
  void set(std::int64_t seconds) { *at_ = seconds; }

 private:
  volatile std::int64_t* at_ = nullptr;
};

/// Returns the environment of a server whose wall clock is ahead by the number of seconds in the file `path`.
/// The address sanitizer demands to be the first loaded library, but the library with the shifted clock must
/// be first. That check is therefore switched off.
std::vector<std::string> shifted(const std::string& path) {
  return {"SHIFTED_CLOCK=" + path, std::string("LD_PRELOAD=") + SHIFTED_CLOCK,
          "ASAN_OPTIONS=verify_asan_link_order=0"};
}

TEST(ClockJump, ChangingTheSystemClockNeitherExpiresRequestsNorChangesAnswers) {
  RepositoryHost host;
  host.add("1", chain_program(6));
  host.add("2", trained_again(chain_program(6)));
  const std::string path = host.scratch() / "shift";
  Shift shift(path);
  host.start({"--udp", "127.0.0.1:0", "--load", "m"}, shifted(path));
  const auto udp = host.server().wait_for_line("listening udp ", 60s);
  ASSERT_TRUE(udp) << host.server().err();
  std::unique_ptr<client::Client> datagrams;
  ASSERT_TRUE(client::connect("udp://" + *udp, {}, datagrams).ok());
  HttpConnection connection(host.port()), idle(host.port());
  ASSERT_EQ(idle.request("GET", "/v2/health/live")->status, 200);
  const std::string input = host.frame(1);
  const auto bytes = std::as_bytes(std::span(input));
  std::vector<std::vector<std::byte>> outputs;

  const auto last_inference = [&] {
    const json::value stats = json::parse(connection.request("GET", "/v2/models/m/stats")->body);
    return stats.at("model_stats").at(0).at("last_inference").to_number<std::int64_t>() / 1000;
  };
  ASSERT_EQ(host.ask(connection, input).status, 200);
  const std::int64_t begin = last_inference();
  std::string version = "1";
  for (const std::int64_t years : {10, -20, 0, 30}) {
    shift.set(years * kYear);
    for (int i = 0; i < 5; ++i) {
      const Answer answer = host.ask(connection, input);
      EXPECT_EQ(answer.status, 200) << years << " years";
      EXPECT_TRUE(answer.right);
      const client::Status s = datagrams->infer("m", "", {{bytes}}, 20s, outputs);
      EXPECT_TRUE(s.ok()) << years << " years: " << s.message;
    }
    EXPECT_NEAR(static_cast<double>(last_inference() - begin), static_cast<double>(years * kYear), 3600.0)
        << "the jump is real";
    EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 200);
    EXPECT_EQ(connection.request("GET", "/metrics")->status, 200);
    EXPECT_EQ(idle.request("GET", "/v2/health/live")->status, 200)
        << "kept open, although it was idle for years of wall-clock time";
    version = version == "1" ? "2" : "1";
    EXPECT_EQ(host.load(version).status, 200) << "a swap, by the steady clock";
    EXPECT_EQ(host.ask(connection, input).version, version);
  }
  EXPECT_EQ(host.server().stop(SIGTERM), 0) << host.server().err();
}

TEST(ClockJump, ChangingTheSystemClockDoesNotMoveTheDeadlinesOfWaitingRequests) {
  RepositoryHost host;
  host.add("1", chain_program(6));
  const std::string path = host.scratch() / "shift";
  Shift shift(path);
  std::vector<std::string> environment = shifted(path);
  environment.push_back("MILLRACE_EMULATION_OPTIONS=call_timeout=60000");
  host.start({"--load", "m"}, environment);
  HttpConnection patient(host.port()), hurried(host.port());
  const std::string input = host.frame(1);
  ASSERT_EQ(host.ask(patient, input).status, 200);
  const auto cards = host.cards();
  ASSERT_EQ(cards.size(), 3U);
  ASSERT_EQ(::kill(cards[1], SIGSTOP), 0);
  const json::value model = json::parse(hurried.request("GET", "/v2/models/m")->body);
  json::object tensor = model.at("inputs").at(0).as_object();
  tensor["parameters"] = {{"binary_data_size", input.size()}};
  const auto send = [&](HttpConnection& on, int timeout_us) {
    const std::string header = json::serialize(
        json::object{{"inputs", json::array{tensor}}, {"parameters", {{"timeout", timeout_us}}}});
    on.send("POST /v2/models/m/infer HTTP/1.1\r\nHost: t\r\nInference-Header-Content-Length: " +
            std::to_string(header.size()) + "\r\nContent-Length: " +
            std::to_string(header.size() + input.size()) + "\r\n\r\n" + header + input);
  };
  send(patient, 60'000'000);
  send(hurried, 300'000);
  HttpConnection asking(host.port());
  ASSERT_TRUE(wait_until([&] {
    const auto looked = asking.request("GET", "/v2/millrace/status");
    return looked.value().body.find("\"in_flight\":2,") != std::string::npos;
  })) << "both are with the pipeline";
  shift.set(10 * kYear);
  const auto late = hurried.receive();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->status, 504) << late->body;
  EXPECT_NE(late->body.find("deadline"), std::string::npos) << late->body;
  ASSERT_EQ(::kill(cards[1], SIGCONT), 0);
  const auto answer = patient.receive();
  ASSERT_TRUE(answer);
  // On a slow machine the pipeline may meanwhile have given up the card. The request then fails with status 503.
  EXPECT_TRUE(answer->status == 200 || answer->status == 503) << answer->body;
  EXPECT_EQ(answer->body.find("deadline"), std::string::npos) << "a minute has not passed: " << answer->body;
}

}  // namespace
}  // namespace millrace::tests::test_clock_jump
