// The settings of `millrace serve`: where they come from, what is reported about them, and which of them
// SIGHUP changes.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <boost/json.hpp>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/certificate.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

class ServeSettings : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const auto path = directory_.path() / name;
    EXPECT_TRUE(write_file_atomically(path, text).ok());
    return path.string();
  }
  std::string deployed() const {
    const auto deployment = directory_.path() / "deployment";
    deploy(chain_program(2), emulated_ring(1), 1, deployment);
    return deployment.string();
  }
  static bool said(const BackgroundProgram& server, const std::string& words) {
    return wait_until([&] { return server.err().find(words) != std::string::npos; });
  }

  static int count(const BackgroundProgram& server, const std::string& words) {
    const std::string all = server.err();
    int times = 0;
    for (auto at = all.find(words); at != std::string::npos; at = all.find(words, at + 1)) ++times;
    return times;
  }

  const std::string kCluster = std::string(tests::source_dir()) + "/configs/clusters/three-ku060.yaml";
  TemporaryDirectory directory_{"millrace-settings"};
};

TEST_F(ServeSettings, CheckConfigPrintsEverySettingWithItsOrigin) {
  const auto file =
      write("server.yaml", "slots: 3\nlog: {level: error}\ndeployments: [" + deployed() + "]\n");
  const Outcome outcome =
      run_program({millrace_binary(), "serve", "--config", file, "--check-config", "--queue-capacity", "9"},
                  {"MILLRACE_DRAIN_MS=17"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string& line :
       {"slots: 3  # " + file + ":1\n", std::string("queue_capacity: 9  # --queue-capacity\n"),
        std::string("drain_ms: 17  # MILLRACE_DRAIN_MS\n"),
        std::string("\nlog:\n  level: error  # " + file + ":2\n  format: text  # default\n")})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << outcome.out;
  const Outcome as_json =
      run_program({millrace_binary(), "serve", "--check-config", "--json"}, {"MILLRACE_CONFIG=" + file});
  ASSERT_EQ(as_json.exit_code, 0) << as_json.err;
  const json::value all = json::parse(as_json.out);
  EXPECT_EQ(all.at("settings").at("slots").at("value"), json::value(3));
  EXPECT_EQ(all.at("settings").at("udp.unauthenticated").at("value"), json::value(false));
  EXPECT_EQ(all.at("settings").at("deployments").at("value"), json::value({deployed()}));
  EXPECT_TRUE(all.at("settings").at("cluster").at("value").is_null());
  EXPECT_TRUE(all.at("settings").at("http.max_body_bytes").at("value").is_null());
  EXPECT_EQ(all.at("settings").at("slots").at("environment").as_string(), "MILLRACE_SLOTS");
}

/// The printed settings without the comments that name their origins.
std::string without_comments(const std::string& document) {
  std::string out;
  std::istringstream in(document);
  for (std::string line; std::getline(in, line);) out += line.substr(0, line.rfind("  # ")) + "\n";
  return out;
}

TEST_F(ServeSettings, TheOutputOfCheckConfigIsAValidConfigFile) {
  deployed();
  const std::string odd = (directory_.path() / "odd: \"name\" # {1}, [2]").string();
  std::filesystem::copy(directory_.path() / "deployment", odd, std::filesystem::copy_options::recursive);
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--deployment", "deployment"},
        std::vector<std::string>{"--deployment", odd, "--http", "127.0.0.1:0", "--http",
                                 "unix:/tmp/millrace.sock", "--cors-origin", "*", "--slots", "3", "--udp",
                                 "127.0.0.1:0", "--udp-fragment-bytes", "400", "--max-body-bytes", "2000000",
                                 "--log-level", "warning"}}) {
    std::vector<std::string> command{
        "env", "-C", directory_.path().string(), millrace_binary(), "serve", "--check-config"};
    command.insert(command.end(), flags.begin(), flags.end());
    const Outcome first = run_program(command);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const TemporaryDirectory elsewhere("millrace-settings");
    const std::string file = elsewhere.path() / "again.yaml";
    ASSERT_TRUE(write_file_atomically(file, first.out).ok());
    const Outcome again = run_program({millrace_binary(), "serve", "--check-config", "--config", file});
    ASSERT_EQ(again.exit_code, 0) << again.err << first.out;
    EXPECT_EQ(without_comments(again.out), without_comments(first.out));
    EXPECT_EQ(again.out.find("# default") != std::string::npos, true) << "keys without a value stay defaults";
  }
}

TEST_F(ServeSettings, WarnsOfAMisspeltEnvironmentVariable) {
  const Outcome outcome =
      run_program({millrace_binary(), "serve", "--check-config", "--deployment", deployed()},
                  {"MILLRACE_SLOT=3", "MILLRACE_UDP=127.0.0.1:0", "MILLRACE_SEED=1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(
      outcome.err.find("MILLRACE_SLOT: no setting has this environment variable, and it is passed over; "
                       "MILLRACE_SLOTS is one"),
      std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("MILLRACE_UDP_LISTEN is one"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("MILLRACE_SEED"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("slots: 8  # default\n"), std::string::npos) << outcome.out;
}

TEST_F(ServeSettings, WarnsOfOpenListenersAndOfReadableTokenFiles) {
  const auto tokens = write("tokens", "operator admin a-token-of-the-operator\n");
  std::filesystem::permissions(tokens, std::filesystem::perms(0644));
  std::vector<std::string> command = {millrace_binary(), "serve",  "--deployment",
                                      deployed(),        "--http", "0.0.0.0:0"};
  {
    BackgroundProgram server(command);
    ASSERT_TRUE(server.wait_for_line("listening http ", 60s)) << server.err();
    EXPECT_TRUE(said(server, "other machines reach 0.0.0.0:")) << server.err();
    EXPECT_EQ(server.stop(SIGTERM), 0);
  }
  command.push_back("--check-config");
  Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("other machines reach 0.0.0.0:0, and nobody needs a token"), std::string::npos)
      << outcome.err;
  command.insert(command.end(), {"--tokens", tokens});
  outcome = run_program(command);
  EXPECT_EQ(outcome.err.find("other machines"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("--tokens: every user of this machine may use " + tokens), std::string::npos)
      << outcome.err;
  std::filesystem::permissions(tokens, std::filesystem::perms(0640));
  command[5] = "127.0.0.1:0";
  EXPECT_EQ(run_program(command).err, "");
}

TEST_F(ServeSettings, CheckConfigRefusesTheSettingsThatServeRefuses) {
  const std::string good = "deployments: [" + deployed() + "]\n";
  const auto three = directory_.path() / "three";
  deploy(chain_program(6), runtime::plan::load_cluster(kCluster).value(), 3, three);
  const std::string one_card =
      std::string("cluster: ") + tests::source_dir() + "/configs/clusters/one-ku060.yaml\n";
  std::filesystem::create_directories(directory_.path() / "models");
  const std::string repository = "cluster: " + kCluster + "\nrepository: {root: models, compile_cache: ";
  struct Case {
    std::string text, says;
    int exit_code = 2;
  };
  for (const Case& one :
       {Case{"slotz: 3\n", ":1: unknown key 'slotz'"},
        Case{"http: {listen: nowhere}\n", "bad.yaml:1: http.listen 'nowhere' is not HOST:PORT"},
        Case{"http: {admin_listen: nowhere}\n", "bad.yaml:1: http.admin_listen 'nowhere'"},
        Case{"http: {listen: 'tls:127.0.0.1:0'}\n", "needs --tls-certificate"},
        Case{"http: {certificate: a}\n", "http.certificate: needs http.key"},
        Case{"http: {certificate: a, key: b}\n", "of no use without a listener"},
        Case{"http: {tokens: absent}\n", "absent"},
        Case{"deployments: [absent]\n", "absent"},
        Case{"cluster: absent.yaml\n", "absent.yaml"},
        Case{"udp: {listen: nowhere}\n", "bad.yaml:1: udp.listen 'nowhere' is not HOST:PORT"},
        Case{"udp: {listen: '127.0.0.1:0', keys: absent}\n", "absent"},
        Case{"udp: {listen: '0.0.0.0:0'}\n", "there are no keys"},
        Case{"schema: 1\n", "nothing to serve"},
        Case{"deployments: [three]\n" + one_card, "model 'chain'", 1},
        Case{good + "http: {listen: 'unix:/nodir/x.sock'}\n",
             ":2: http.listen: cannot listen on unix:/nodir/x.sock: /nodir: No such file", 3},
        Case{good + "http: {listen: '0.0.0.0:8000', admin_listen: '127.0.0.1:8000'}\n",
             "http.listen '0.0.0.0:8000' takes that address"},
        Case{good + "http: {listen: ['unix:x', 'tls:unix:x'], certificate: a, key: b}\n",
             "takes that address"},
        Case{good + "http: {cors_origins: [foo]}\n", ":2: http.cors_origins: 'foo' is no origin"},
        Case{good + "http: {cors_origins: ['https://panel.example/']}\n", "is no origin"},
        Case{good + "http: {max_body_bytes: 100}\n",
             ":2: http.max_body_bytes: 100: every request for model 'chain'"},
        Case{good + "repository: {mode: poll}\n", ":2: repository.mode: needs repository.root"},
        Case{repository + "cache, load: [nosuch], mode: explicit}\n",
             "bad.yaml:2: repository.load: " + (directory_.path() / "models").string() +
                 " holds no model 'nosuch'"},
        Case{repository + "/proc/nowhere}\n", "/proc/nowhere: cannot make the folder", 3},
        Case{"cluster: " + kCluster + "\nrepository: {root: absent, compile_cache: cache}\n",
             "absent: cannot be listed"}}) {
    const Outcome outcome =
        run_program({millrace_binary(), "serve", "--config", write("bad.yaml", one.text), "--check-config"});
    EXPECT_EQ(outcome.exit_code, one.exit_code) << one.text;
    EXPECT_NE(outcome.err.find(one.says), std::string::npos) << outcome.err << one.says;
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome by_variable = run_program({millrace_binary(), "serve", "--check-config"},
                                          {"MILLRACE_HTTP_LISTEN=127.0.0.1:0,nowhere"});
  EXPECT_NE(by_variable.err.find("MILLRACE_HTTP_LISTEN: http.listen 'nowhere'"), std::string::npos)
      << by_variable.err;
  for (const std::string& fine :
       {good + "repository: {mode: none}\nhttp: {cors_origins: ['*', 'http://localhost:3000']}\n",
        "deployments: [three]\ncluster: " + kCluster + "\n", repository + "cache, load: ['*']}\n",
        good + "http: {listen: ['127.0.0.1:8000', '[::1]:8000', '127.0.0.1:0', '127.0.0.1:0']}\n"}) {
    const Outcome outcome =
        run_program({millrace_binary(), "serve", "--config", write("good.yaml", fine), "--check-config"});
    EXPECT_EQ(outcome.exit_code, 0) << fine << outcome.err;
  }
}

TEST_F(ServeSettings, SighupRereadsTheFileAndNamesSettingsThatNeedARestart) {
  const auto deployment = directory_.path() / "deployment";
  deploy(chain_program(2), emulated_ring(1), 1, deployment);
  const auto file =
      write("server.yaml", "deployments: [deployment]\nhttp: {listen: '127.0.0.1:0'}\nslots: 2\n");
  BackgroundProgram server({millrace_binary(), "serve", "--config", file});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();

  write("server.yaml", "deployments: [deployment]\nhttp: {listen: '127.0.0.1:0'}\nslots: 4\ndrain_ms: 1\n");
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  ASSERT_TRUE(said(server, "changed: drain_ms")) << server.err();
  EXPECT_TRUE(said(server, "only a restart changes slots")) << server.err();

  write("server.yaml", "drain_ms: soon\n");
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  ASSERT_TRUE(said(server, "the settings stay as they are")) << server.err();

  HttpConnection connection(static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1))));
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 200);
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  EXPECT_NE(server.err().find("accepted requests may take 1 ms more"), std::string::npos) << server.err();
}

TEST_F(ServeSettings, SighupComparesTheFileWithTheRunningSettings) {
  const std::string running = "deployments: [" + deployed() + "]\nhttp: {listen: '127.0.0.1:0'}\nslots: 2\n";
  const auto file = write("server.yaml", running);
  BackgroundProgram server({millrace_binary(), "serve", "--config", file});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  int reloads = 0;
  const auto reload_with = [&](const std::string& text) {
    write("server.yaml", text);
    EXPECT_EQ(::kill(server.pid(), SIGHUP), 0);
    ++reloads;
    // Wait for each reload, because two pending signals count as one.
    EXPECT_TRUE(wait_until([&] { return count(server, "settings read again") == reloads; })) << server.err();
  };
  const auto waiting = [&](const std::string& settings) {
    return wait_until([&] {
      return connection.request("GET", "/metrics")
                 ->body.find("\nmillrace_config_settings_awaiting_restart " + settings + "\n") !=
             std::string::npos;
    });
  };
  reload_with(running + "queue_capacity: 9\n");
  EXPECT_TRUE(waiting("1"));
  EXPECT_TRUE(wait_until([&] { return count(server, "only a restart changes queue_capacity\n") == 1; }));
  // The setting still awaits a restart, although the file did not change since the last signal.
  reload_with(running + "queue_capacity: 9\n");
  EXPECT_TRUE(wait_until([&] { return count(server, "only a restart changes queue_capacity\n") == 2; }))
      << server.err();
  // With the running settings restored, no setting awaits a restart.
  reload_with(running);
  EXPECT_TRUE(waiting("0")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  EXPECT_EQ(count(server, "only a restart changes"), 2) << server.err();
}

TEST_F(ServeSettings, AHalfRotatedCertificateIsRefusedAndShownInTheMetrics) {
  using server::test::make_certificate;
  const auto first = make_certificate(-3'600, 86'400 * 30L), second = make_certificate(-3'600, 86'400 * 60L);
  const std::string tokens = write("tokens", "operator admin a-token-of-the-operator\n");
  ASSERT_EQ(::chmod(tokens.c_str(), 0600), 0);
  const std::string chain = write("chain.pem", first.certificate), key = write("key.pem", first.key);
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployed(), "--http", "127.0.0.1:0",
                            "--http", "tls:127.0.0.1:0", "--tls-certificate", chain, "--tls-key", key,
                            "--tokens", tokens});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  const auto metric = [&](const std::string& name, const std::string& token) {
    const std::string page =
        connection.request("GET", "/metrics", {}, "Authorization: Bearer " + token + "\r\n")->body;
    const auto at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1. : std::stod(page.substr(at + name.size() + 2));
  };
  const std::string successful = "millrace_config_last_reload_successful",
                    since = "millrace_config_last_reload_success_timestamp_seconds";
  const std::string old_token = "a-token-of-the-operator", new_token = "another-token-of-the-operator";
  ASSERT_TRUE(wait_until([&] { return metric(successful, old_token) == 1; }));
  const double started = metric(since, old_token);
  EXPECT_NEAR(started, static_cast<double>(std::time(nullptr)), 120);

  // The certificate is new but its key is old; the tokens are new too.
  write("chain.pem", second.certificate);
  write("tokens", "operator admin " + new_token + "\n");
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  ASSERT_TRUE(wait_until([&] { return metric(successful, old_token) == 0; })) << server.err();
  EXPECT_TRUE(said(server, "reload refused: TLS: " + key + " is not the key of " + chain)) << server.err();
  EXPECT_EQ(count(server, "settings read again"), 0) << "it was not taken, nor was a part of it";
  EXPECT_EQ(metric(since, old_token), started);

  write("key.pem", second.key);
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  ASSERT_TRUE(wait_until([&] { return metric(successful, new_token) == 1; })) << server.err();
  EXPECT_TRUE(said(server,
                   "settings read again; changed: contents of http.tokens, contents of http.certificate; in "
                   "force: 1 token, a certificate until 20"))
      << server.err();
  EXPECT_GT(metric(since, new_token), started);
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(ServeSettings, SighupWithABrokenTokenFileKeepsTheOldTokens) {
  const auto deployment = directory_.path() / "deployment";
  deploy(chain_program(2), emulated_ring(1), 1, deployment);
  const std::string good = "operator admin a-token-of-the-operator\n";
  const std::filesystem::path file = write("tokens", good);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment, "--http", "127.0.0.1:0",
                            "--tokens", file.string()});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1))));
  const auto status = [&](const std::string& token) {
    return connection
        .request("GET", "/v2", {}, token.empty() ? "" : "Authorization: Bearer " + token + "\r\n")
        ->status;
  };
  const auto expect_kept = [&](const std::string& says) {
    ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
    ASSERT_TRUE(said(server, says)) << says << "\n" << server.err();
    EXPECT_TRUE(said(server, "what was loaded before stays"));
    EXPECT_EQ(status("a-token-of-the-operator"), 200) << says;
    EXPECT_EQ(status(""), 401) << says;
  };
  write("tokens", "");
  expect_kept("tokens: holds no token");
  EXPECT_TRUE(said(server, "GET /v2: 401 ")) << server.err();
  EXPECT_NE(server.err().find(" from=127.0.0.1:"), std::string::npos) << "who guesses tokens";
  write("tokens", "operator admin\n");
  expect_kept("tokens:1: three words are expected");
  write("tokens", good + "operator read another-token-of-his\n");
  expect_kept("tokens:2: the name 'operator' stands twice");
  write("tokens", good + "second root another-token-of-his\n");
  expect_kept("tokens:2: the scope is none of");
  std::filesystem::remove(file);
  expect_kept("tokens: cannot open");
  std::filesystem::create_directory(file);
  expect_kept("tokens: is a directory");
  std::filesystem::remove(file);
  std::filesystem::create_symlink("/dev/zero", file);
  expect_kept("tokens: is a pipe, device or socket");
  std::filesystem::remove(file);
  { std::ofstream(file) << good; }
  std::filesystem::resize_file(file, std::uintmax_t{1} << 40U);
  expect_kept("tokens: longer than the");
  write("tokens", "second read another-token-of-his\n");
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_until([&] { return status("another-token-of-his") == 200; }));
  EXPECT_EQ(status("a-token-of-the-operator"), 401) << "it was taken out";
  EXPECT_TRUE(said(server, "changed: contents of http.tokens; in force: 1 token\n")) << server.err();

  // The log names who changed models and the result. Many wrong tokens do not flood the log.
  write("tokens", good);
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_until([&] { return status("a-token-of-the-operator") == 200; }));
  const auto load =
      connection.request("POST", "/v2/repository/models/none/load", {},
                         "Authorization: Bearer a-token-of-the-operator\r\nX-Request-Id: change-17\r\n");
  ASSERT_TRUE(load);
  EXPECT_TRUE(
      said(server, "admin 'operator': POST /v2/repository/models/none/load: " + std::to_string(load->status)))
      << server.err();
  EXPECT_NE(server.err().find("change-17"), std::string::npos) << server.err();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(connection.request("GET", "/v2/models/flood", {}, "")->status, 401);
  const auto seconds = 2 + (std::chrono::steady_clock::now() - begin) / 1s;
  std::istringstream lines(server.err());
  long flood = 0;
  for (std::string line; std::getline(lines, line);)
    flood += line.find("/v2/models/flood: 401") != std::string::npos;
  EXPECT_LE(flood, 10 * seconds);  // none, where others before it in that second were refused
}

TEST_F(ServeSettings, SighupRefusesSettingsThatAStartWouldRefuse) {
  using server::test::make_certificate;
  const auto deployment = directory_.path() / "deployment";
  deploy(chain_program(2), emulated_ring(1), 1, deployment);
  const auto made = make_certificate(-3'600, 86'400 * 30L);
  const std::string tls =
      ", certificate: " + write("chain.pem", made.certificate) + ", key: " + write("key.pem", made.key);
  const std::string tokens = ", tokens: " + write("tokens", "operator read a-token-of-the-operator\n");
  ASSERT_EQ(::chmod((directory_.path() / "tokens").c_str(), 0600), 0);
  const std::string udp =
      "udp: {listen: \"127.0.0.1:0\", keys: " + write("keys", "1 " + std::string(64, 'a') + "\n") + "}\n";
  const auto settings = [&](const std::string& listen, const std::string& http,
                            const std::string& more = {}) {
    return write("server.yaml", "deployments: [" + deployment.string() + "]\nhttp: {listen: [\"" + listen +
                                    "\"]" + http + "}\n" + more);
  };
  const auto begin = [&](const std::string& listen) {
    return std::vector<std::string>{millrace_binary(), "serve", "--config", settings(listen, tokens)};
  };
  const auto status = [](const std::string& port) {
    HttpConnection connection(static_cast<std::uint16_t>(std::stoi(port)));
    return connection.request("GET", "/v2/millrace/status")->status;
  };
  {
    BackgroundProgram server(begin("0.0.0.0:0"));
    const auto address = server.wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address) << server.err();
    const std::string port = address->substr(address->rfind(':') + 1);
    ASSERT_EQ(status(port), 401);
    settings("0.0.0.0:0", "");
    ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
    ASSERT_TRUE(said(server, "http.tokens was removed, but other machines reach 0.0.0.0:")) << server.err();
    EXPECT_TRUE(said(server, "the settings stay as they are"));
    EXPECT_EQ(status(port), 401);
    settings("0.0.0.0:0", tokens + tls);
    ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
    ASSERT_TRUE(said(server, "is of no use without a listener that begins with tls:")) << server.err();
    EXPECT_EQ(count(server, "settings read again"), 0) << server.err();
    // A warning that a start would give, and settings that only a restart uses.
    ASSERT_EQ(::chmod((directory_.path() / "tokens").c_str(), 0644), 0);
    settings("0.0.0.0:0", tokens, udp);
    ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
    ASSERT_TRUE(said(server, "only a restart changes udp.listen, udp.keys")) << server.err();
    EXPECT_TRUE(said(server, "every user of this machine may use ")) << server.err();
    EXPECT_TRUE(said(server, "changed: none; in force: 1 token\n")) << server.err();
    EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  }
  BackgroundProgram local(begin("127.0.0.1:0"));
  const auto address = local.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << local.err();
  const std::string port = address->substr(address->rfind(':') + 1);
  ASSERT_EQ(status(port), 401);
  settings("127.0.0.1:0", "");
  ASSERT_EQ(::kill(local.pid(), SIGHUP), 0);
  EXPECT_TRUE(said(local, "changed: http.tokens")) << local.err();
  EXPECT_EQ(status(port), 200) << "no other machine reaches it";
  EXPECT_EQ(local.stop(SIGTERM), 0) << local.err();
}

TEST_F(ServeSettings, AnExpiredCertificateIsRefusedAtStartAtSighupAndByClients) {
  using server::test::make_certificate;
  const auto deployment = directory_.path() / "deployment";
  deploy(chain_program(2), emulated_ring(1), 1, deployment);
  const auto certify = [&](long begins, long ends) {
    const auto made = make_certificate(begins, ends);
    write("key.pem", made.key);
    return write("chain.pem", made.certificate);
  };
  const std::string chain = certify(-7'200, -3'600);
  const std::vector<std::string> serve = {millrace_binary(),
                                          "serve",
                                          "--deployment",
                                          deployment.string(),
                                          "--http",
                                          "tls:127.0.0.1:0",
                                          "--tls-certificate",
                                          chain,
                                          "--tls-key",
                                          directory_.path() / "key.pem",
                                          "--tokens",
                                          write("tokens", "asker infer fedcba9876543210\n")};
  const Outcome refused = run_program(serve);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("expired on"), std::string::npos) << refused.err;

  certify(-3'600, 86'400 * 30L);
  BackgroundProgram server(serve);
  const auto address = server.wait_for_line("listening https ", 60s);
  ASSERT_TRUE(address) << server.err();
  const std::string port = address->substr(address->rfind(':'));
  const std::string input = write("x.raw", std::string(8 * 8 * 2 * 4, '\0'));
  const auto ask = [&](std::vector<std::string> more, const std::string& host = "https://localhost") {
    more.insert(more.begin(), {millrace_binary(), "infer", "--url", host + port, "--input", input});
    return run_program(more);
  };
  const std::string token = write("token", "fedcba9876543210\n");
  Outcome outcome = ask({"--ca-file", chain, "--token-file", token});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  outcome = ask({"--token-file", token});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("certificate is not accepted"), std::string::npos) << outcome.err;
  EXPECT_EQ(ask({"--insecure", "--token-file", token}).exit_code, 0);
  outcome = ask({"--ca-file", chain});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("--token-file"), std::string::npos) << outcome.err;
  outcome = ask({"--ca-file", chain, "--token-file", token}, "http://localhost");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("https://"), std::string::npos) << outcome.err;
  outcome = run_program({millrace_binary(), "bench", "--url", "https://localhost" + port, "--model", "chain",
                         "--ca-file", chain, "--token-file", token, "--duration", "1", "--warmup", "0",
                         "--concurrency", "2", "--json", "--quiet"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;

  const std::string served = read_text_file(chain).value();
  certify(-7'200, -3'600);
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  ASSERT_TRUE(said(server, "expired on")) << server.err();
  const std::string trusted = write("trusted.pem", served);
  EXPECT_EQ(ask({"--ca-file", trusted, "--token-file", token}).exit_code, 0)
      << "what was loaded before stays";
  certify(-3'600, 86'400 * 60L);
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  EXPECT_TRUE(said(server, "in force: 1 token, a certificate until 20")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

/// In both formats the priority stands before the line, because journald removes it before it looks at the
/// rest.
TEST_F(ServeSettings, LogLinesCarryTheirPriorityOnlyInTheJournal) {
  const std::string journal = "JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2)";
  for (const auto& [stream, format, prefix] :
       std::vector<std::array<std::string, 3>>{{journal, "text", "<4>"},
                                               {journal, "json", "<4>{"},
                                               {"JOURNAL_STREAM=1:2", "text", ""},
                                               {"JOURNAL_STREAM=", "json", "{"}}) {
    const Outcome outcome =
        run_program({"sh", "-c", stream + " exec \"$@\"", "sh", millrace_binary(), "serve", "--deployment",
                     deployed(), "--http", "0.0.0.0:0", "--check-config", "--log-format", format});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("other machines reach"), std::string::npos) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with(prefix)) << outcome.err;
    EXPECT_EQ(outcome.err.starts_with("<"), prefix.starts_with("<")) << outcome.err;
  }
}

TEST_F(ServeSettings, TheLogNamesTheServedModelsAndTheSettingsFile) {
  const auto file =
      write("server.yaml", "deployments: [" + deployed() + "]\nhttp: {listen: '127.0.0.1:0'}\n");
  BackgroundProgram server({millrace_binary(), "serve", "--config", file});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  EXPECT_TRUE(said(server, " starts; settings: " + file + "\n")) << server.err();
  EXPECT_TRUE(said(server, "serving 1 model: chain version 1; listening http " + *address + "\n"))
      << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(ServeSettings, JsonLogLinesNameTheRequest) {
  const auto deployment = directory_.path() / "deployment";
  deploy(chain_program(2), emulated_ring(1), 1, deployment);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment.string(), "--http",
                            "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  EXPECT_EQ(connection.request("GET", "/no/such/%22route", {}, "X-Request-Id: my-id\r\n")->status, 404);
  ASSERT_TRUE(said(server, R"("request":"my-id")")) << server.err();
  EXPECT_EQ(connection.request("GET", "/v2/health/live", {}, "X-Request-Id: another\r\n")->status, 200);
  ASSERT_TRUE(said(server, R"("request":"another")")) << server.err();
  EXPECT_TRUE(said(server, "GET /v2/health/live: 200, ")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0);
  std::istringstream lines(server.err());
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    boost::system::error_code error;
    const json::value parsed = json::parse(line, error);
    ASSERT_FALSE(error) << line;
    EXPECT_TRUE(parsed.as_object().contains("level") && parsed.as_object().contains("message")) << line;
    ++count;
  }
  EXPECT_GT(count, 2);
}

TEST_F(ServeSettings, JsonLogLinesHaveRouteStatusAndDurationAsMembers) {
  const auto deployment = directory_.path() / "deployment";
  const kernels::Program program = chain_program(2);
  deploy(program, emulated_ring(1), 1, deployment);
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment.string(), "--http",
                            "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  const std::string target = "/v2/models/" + program.name + "/infer",
                    raw = "Inference-Header-Content-Length: ";
  const json::value metadata =
      json::parse(connection.request("GET", "/v2/models/" + program.name)->body).at("inputs").at(0);
  std::size_t elements = 1;
  for (const json::value& axis : metadata.at("shape").as_array()) elements *= axis.to_number<std::size_t>();
  const std::string short_of_time = json::serialize(
      json::object{{"parameters", {{"timeout", 1}}},
                   {"inputs", json::array{json::object{{"name", metadata.at("name")},
                                                       {"shape", metadata.at("shape")},
                                                       {"datatype", metadata.at("datatype")},
                                                       {"data", json::array(elements, 0)}}}}});
  EXPECT_EQ(connection
                .request("POST", target, std::string(elements, 'x'),
                         "Inference-Header-Content-Length: 0\r\nX-Request-Id: good\r\n")
                ->status,
            200);
  // The deadline of one microsecond passes before the server looks at the request. That is the client's own
  // choice, so no warning is logged.
  const auto late = connection.request("POST", target, short_of_time, "X-Request-Id: short\r\n");
  EXPECT_EQ(late->status, 504) << late->body;
  EXPECT_EQ(connection.request("POST", "/v2/models/none/infer", {}, "X-Request-Id: none\r\n")->status, 404);
  ASSERT_TRUE(said(server, R"("request":"none")")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0);

  std::map<std::string, json::object> requests;
  std::istringstream lines(server.err());
  for (std::string line; std::getline(lines, line);) {
    const json::object object = json::parse(line).as_object();
    EXPECT_NE(object.at("level").as_string(), "warning") << line;
    if (object.contains("request")) requests[std::string(object.at("request").as_string())] = object;
  }
  const auto text = [&](const std::string& request, const char* name) -> std::string {
    const auto* value = requests[request].if_contains(name);
    return value == nullptr ? "nothing" : std::string(value->as_string());
  };
  for (const auto& [request, status] :
       std::map<std::string, int>{{"good", 200}, {"short", 504}, {"none", 404}}) {
    SCOPED_TRACE(request);
    EXPECT_EQ(text(request, "level"), "debug");
    EXPECT_EQ(text(request, "method"), "POST");
    EXPECT_EQ(text(request, "route"), "/v2/models/{model}[/versions/{version}]/infer");
    EXPECT_EQ(requests[request]["status"].to_number<int>(), status);
    EXPECT_GT(requests[request]["duration_ms"].to_number<double>(), 0);
    EXPECT_TRUE(text(request, "from").starts_with("127.0.0.1:"));
    EXPECT_EQ(text(request, "model"), request == "none" ? "none" : program.name);
    EXPECT_EQ(text(request, "version"), request == "none" ? "nothing" : "1");
  }
  EXPECT_EQ(text("good", "target"), target);
}

}  // namespace
}  // namespace millrace::tests
