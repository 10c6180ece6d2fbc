// Tests which settings SIGHUP changes in a running `millrace serve`, and which changes the server refuses.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <sstream>

#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/integration/serve_settings.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/certificate.hpp"

namespace millrace::tests::test_serve_reload {
namespace {

using namespace std::chrono_literals;

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
  ASSERT_TRUE(said(server, "all settings and loaded files stay unchanged")) << server.err();

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
    // Wait for each reload, because the system merges two pending signals into one.
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
  // The file again contains the settings in force, so no setting awaits a restart.
  reload_with(running);
  EXPECT_TRUE(waiting("0")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  EXPECT_EQ(count(server, "only a restart changes"), 2) << server.err();
}

TEST_F(ServeSettings, CertificateWithoutItsMatchingKeyIsRefusedAndShownInTheMetrics) {
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

  // The certificate is new, but the key is still the old certificate's. The tokens are also new.
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
    EXPECT_TRUE(said(server, "loaded files stay unchanged"));
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
  expect_kept("tokens:2: the name 'operator' is listed twice");
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

  // The log names who changed models, and with what result. Many requests with a wrong token do not flood the log.
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
  EXPECT_LE(flood, 10 * seconds);  // or none, if other requests were refused earlier in the same second
}

TEST_F(ServeSettings, SighupRefusesTheSettingsThatServerStartRefuses) {
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
    ASSERT_TRUE(said(server, "http.tokens was removed, but other machines can reach 0.0.0.0:"))
        << server.err();
    EXPECT_TRUE(said(server, "all settings and loaded files stay unchanged"));
    EXPECT_EQ(status(port), 401);
    settings("0.0.0.0:0", tokens + tls);
    ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
    ASSERT_TRUE(said(server, "has no effect without a listener that begins with 'tls:'")) << server.err();
    EXPECT_EQ(count(server, "settings read again"), 0) << server.err();
    // A reload logs the same warnings as a start, and names the settings that need a restart.
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
  EXPECT_EQ(ask({"--ca-file", trusted, "--token-file", token}).exit_code, 0) << "loaded files stay unchanged";
  certify(-3'600, 86'400 * 60L);
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  EXPECT_TRUE(said(server, "in force: 1 token, a certificate until 20")) << server.err();
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

}  // namespace
}  // namespace millrace::tests::test_serve_reload
