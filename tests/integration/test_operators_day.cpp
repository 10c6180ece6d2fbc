// Tests what an operator does in a day, with only the installed files: empty and truncated versions,
// roll-outs, rollbacks, restarts, rotated secrets and interrupted compilations. Each step checks that the
// log, the metrics and the exit codes report what happened.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/integration/operators_day.hpp"
#include "tests/support/process.hpp"
#include "tests/support/steady_clients.hpp"
#include "tests/support/strace.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/certificate.hpp"

namespace millrace::tests::test_operators_day {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class InstalledServerInMode : public InstalledServer, public testing::WithParamInterface<const char*> {
 protected:
  InstalledServerInMode() { set_mode(mode()); }
  std::string mode() const { return GetParam(); }

  /// Makes the server serve a version that was added to the repository while the server runs.
  void take_version(const std::string& version) {
    if (mode() == "none") {
      restart();
    } else if (mode() == "explicit") {
      const Outcome loaded = reload_model({"--version", version});
      EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
      EXPECT_TRUE(loaded.out.starts_with("model 'lenet5': version " + version + " serves (")) << loaded.out;
    } else {
      EXPECT_TRUE(service_.metric_becomes(1, "millrace_model_ready", "version=\"" + version + "\""));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Repository, InstalledServerInMode, testing::Values("none", "explicit", "poll"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST_P(InstalledServerInMode, ServesTheNewestValidVersionNextToEmptyAndTruncatedVersions) {
  copy_version("1");
  copy_version("2");
  cut_short("2");
  fs::create_directory(model() / "3");
  const std::string third = (model() / "3").string();

  const Outcome check = service_.check_config();
  EXPECT_EQ(check.exit_code, 2);
  for (const std::string& text : {"model 'lenet5' version '3' would be skipped: " + third,
                                  std::string("model 'lenet5' version '2' would not load: "),
                                  std::string("model 'lenet5': version '1' would be served"),
                                  std::string("1 model version that the server should serve from the "
                                              "repository does not load: model 'lenet5' version '2': ")})
    EXPECT_NE(check.err.find(text), std::string::npos) << text << "\n" << check.err;
  EXPECT_EQ(check.out, "");

  for (const char* start : {"first", "again"}) {
    SCOPED_TRACE(start);
    service_.start();
    EXPECT_TRUE(service_.logged("warning", "model 'lenet5' version '3' is skipped: " + third));
    EXPECT_TRUE(service_.logged("warning", "model 'lenet5' version '2': "));
    EXPECT_TRUE(
        service_.logged("warning", "version '2' did not load, so version '1' is loaded in its place"));
    EXPECT_TRUE(service_.logged("info", "serving 1 model: lenet5 version 1; listening http 127.0.0.1:"));
    EXPECT_EQ(service_.metric("millrace_model_outdated", "model=\"lenet5\""), 1);
    EXPECT_EQ(service_.metric("millrace_reloads_total", "outcome=\"failure\""), 1);
    expect_served("1");
    EXPECT_EQ(service_.complaints().size(), 3U) << service_.log();
    EXPECT_EQ(service_.stop(), 0) << service_.log();
  }

  // With the setting repository.strict, the server reports the broken versions, too, but then it ends.
  service_.set("# strict: false", "strict: true");
  const Outcome strict = service_.start_to_the_end();
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_NE(strict.err.find(
                "repository.strict: some models that should be served are not: model 'lenet5' version '2': "),
            std::string::npos)
      << strict.err;

  // The operator removes the broken versions, as the log advises.
  fs::remove(model() / "3");
  fs::remove_all(model() / "2");
  copy_version("2");
  EXPECT_EQ(service_.check_config().exit_code, 0);
  service_.start();
  expect_served("2");
  EXPECT_EQ(service_.metric("millrace_model_outdated", "model=\"lenet5\""), 0);
  EXPECT_EQ(service_.complaints(), Words());
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

TEST_P(InstalledServerInMode, NewVersionsAndRollbacksSurviveServerRestarts) {
  copy_version("1");
  service_.start();
  expect_served("1");
  if (mode() == "none") {
    const Outcome refused = reload_model({"--version", "1"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("needs 'serve --repository-mode explicit' or 'poll'"), std::string::npos)
        << refused.err;
  } else {
    const Outcome absent = reload_model({"--version", "2"});
    EXPECT_EQ(absent.exit_code, 1);
    EXPECT_NE(absent.err.find("model 'lenet5' has no version '2' in the repository; it has 1"),
              std::string::npos)
        << absent.err;
  }

  copy_version("2");
  take_version("2");
  expect_served("2");
  if (mode() != "none") {
    EXPECT_TRUE(service_.logged("info", "model 'lenet5' version '2' serves in place of version '1'"));
    EXPECT_EQ(service_.metric("millrace_reloads_total", "outcome=\"success\""), 2);
  }
  restart();
  expect_served("2");

  // Roll back, and check that the rollback survives a restart.
  if (mode() == "none") {
    ASSERT_TRUE(write_file_atomically(model() / "PIN", "1\n").ok());
    restart();
  } else {
    const Outcome back = reload_model({"--version", "1", "--pin"});
    EXPECT_EQ(back.exit_code, 0) << back.err;
    EXPECT_TRUE(back.out.starts_with("model 'lenet5': version 1 serves; it is pinned to version 1 ("))
        << back.out;
  }
  for (const bool again : {false, true}) {
    if (again) restart();
    expect_served("1");
    EXPECT_EQ(service_.metric("millrace_model_pinned", "version=\"1\""), 1);
    EXPECT_EQ(service_.metric("millrace_model_outdated", "model=\"lenet5\""), 0);
  }
  EXPECT_TRUE(service_.logged("info", "model 'lenet5' version '1' is pinned"));
  EXPECT_EQ(service_.complaints(), Words());

  // Unpin version 1 and roll out version 2 again.
  if (mode() == "none") {
    fs::remove(model() / "PIN");
  } else {
    const Outcome unpinned = reload_model({"--unpin"});
    EXPECT_EQ(unpinned.exit_code, 0) << unpinned.err;
  }
  take_version("2");
  expect_served("2");
  EXPECT_EQ(service_.metric("millrace_model_pinned").value_or(0), 0);
  EXPECT_EQ(service_.complaints(), Words());
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

/// The base of tests with TLS and access tokens, which are set up as an operator would do it.
class InstalledServerWithSecrets : public InstalledServer {
 protected:
  InstalledServerWithSecrets() {
    copy_version("1");
    service_.set("listen: [\"127.0.0.1:0\"]", "listen: [\"127.0.0.1:0\", \"tls:127.0.0.1:0\"]");
    service_.set("# certificate: tls/chain.pem", "certificate: " + file("chain.pem"));
    service_.set("# key: tls/key.pem", "key: " + file("key.pem"));
    service_.set("# tokens: tokens", "tokens: " + file("tokens"));
  }
  std::string file(const std::string& name) const { return directory_.path() / "etc" / name; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomically(file(name), text).ok());
    fs::permissions(file(name), fs::perms(0600));
  }
  void start() {
    service_.start();
    https_ = "https://localhost" + service_.address("https").substr(std::string("127.0.0.1").size());
  }
  /// Sends one picture with the installed client.
  Outcome ask(const std::string& trusts, const std::string& token_file) const {
    return site().run({"infer", "--url", https_, "--model", "lenet5", "--input", site().picture(),
                       "--ca-file", file(trusts), "--token-file", file(token_file)});
  }
  std::optional<double> metric(const std::string& name, const std::string& token) const {
    return service_.metric(name, {}, token);
  }
  bool reload_succeeded(bool wanted, const std::string& token) const {
    return service_.metric_becomes(wanted ? 1 : 0, "millrace_config_last_reload_successful", {}, token);
  }

  static constexpr char kOld[] = "the-token-of-last-year", kNew[] = "the-token-of-this-year";
  std::string https_;
};

TEST_F(InstalledServerWithSecrets, RefusesANewCertificateUntilItsPrivateKeyIsReplacedToo) {
  const auto first = server::test::make_certificate(-3'600, 86'400 * 30L),
             second = server::test::make_certificate(-3'600, 86'400 * 60L);
  write("chain.pem", first.certificate);
  write("key.pem", first.key);
  write("tokens", std::string("operator admin ") + kOld + "\n");
  write("old-ca.pem", first.certificate);
  write("new-ca.pem", second.certificate);
  write("old-token", std::string(kOld) + "\n");
  start();
  const std::string expiry = "millrace_tls_certificate_expiry_timestamp_seconds";
  const auto ends = metric(expiry, kOld);
  EXPECT_EQ(ask("old-ca.pem", "old-token").exit_code, 0);

  // First half of the certificate's rotation: the certificate is new, but the key is still old.
  write("chain.pem", second.certificate);
  const std::string mismatch = file("key.pem") + " is not the key of " + file("chain.pem");
  const Outcome check = service_.check_config();
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_NE(check.err.find(mismatch), std::string::npos) << check.err;
  service_.reload();
  EXPECT_TRUE(reload_succeeded(false, kOld));
  EXPECT_TRUE(service_.logged("error", "reload refused: TLS: " + mismatch));
  EXPECT_EQ(metric(expiry, kOld), ends);
  EXPECT_EQ(ask("old-ca.pem", "old-token").exit_code, 0) << "clients notice nothing";
  const Outcome started = service_.start_to_the_end();
  EXPECT_EQ(started.exit_code, 2);
  EXPECT_NE(started.err.find(mismatch), std::string::npos) << started.err;

  // Second half of the certificate's rotation: the key is new, too.
  write("key.pem", second.key);
  EXPECT_EQ(service_.check_config().exit_code, 0);
  service_.reload();
  EXPECT_TRUE(reload_succeeded(true, kOld)) << service_.log();
  EXPECT_TRUE(service_.logged(
      "info", "changed: contents of http.certificate; in force: 1 token, a certificate until 20"));
  EXPECT_NEAR(*metric(expiry, kOld) - *ends, 86'400 * 30, 60);
  const Outcome untrusted = ask("old-ca.pem", "old-token");
  EXPECT_EQ(untrusted.exit_code, 3);
  EXPECT_NE(untrusted.err.find("certificate is not accepted"), std::string::npos) << untrusted.err;
  EXPECT_EQ(ask("new-ca.pem", "old-token").exit_code, 0);
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

TEST_F(InstalledServerWithSecrets, TokensCanBeReplacedWhileClientsUseThem) {
  const auto certificate = server::test::make_certificate(-3'600, 86'400 * 30L);
  write("chain.pem", certificate.certificate);
  write("key.pem", certificate.key);
  const std::string old_line = std::string("operator admin ") + kOld + "\n",
                    new_line = std::string("operator-2 admin ") + kNew + "\n";
  write("tokens", old_line);
  write("old-token", std::string(kOld) + "\n");
  write("new-token", std::string(kNew) + "\n");
  start();
  EXPECT_EQ(ask("chain.pem", "old-token").exit_code, 0);
  const auto expect_refused = [&](const std::string& token) {
    const Outcome refused = ask("chain.pem", token);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("give a token with --token-file or MILLRACE_TOKEN"), std::string::npos)
        << refused.err;
  };
  expect_refused("new-token");

  // The token file was copied only in part, so it ends in the middle of the new line.
  write("tokens", old_line + "operator-2 admin");
  service_.reload();
  EXPECT_TRUE(reload_succeeded(false, kOld));
  EXPECT_TRUE(service_.logged("error", "reload refused: " + file("tokens") + ":2: three words are expected"));
  EXPECT_EQ(ask("chain.pem", "old-token").exit_code, 0);

  // First half of the token's rotation: both tokens are valid until every client has the new token.
  write("tokens", old_line + new_line);
  service_.reload();
  EXPECT_TRUE(reload_succeeded(true, kOld));
  EXPECT_TRUE(service_.logged("info", "changed: contents of http.tokens; in force: 2 tokens, "));
  for (const char* token : {"old-token", "new-token"})
    EXPECT_EQ(ask("chain.pem", token).exit_code, 0) << token;

  // Second half of the token's rotation: only the new token is valid.
  write("tokens", new_line);
  service_.reload();
  EXPECT_TRUE(service_.logged("info", "changed: contents of http.tokens; in force: 1 token, "));
  EXPECT_TRUE(reload_succeeded(true, kNew));
  expect_refused("old-token");
  EXPECT_TRUE(service_.logged("warning", "401 "));
  EXPECT_EQ(ask("chain.pem", "new-token").exit_code, 0);
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

TEST_F(InstalledServer, NoRequestFailsOverTwentyRestartsWithSocketActivation) {
  copy_version("1");
  service_.keep_socket();
  service_.start();
  SteadyClients clients(service_.kept_port(), "/v2/models/lenet5/infer",
                        std::string(28 * 28 * sizeof(float), '\0'));
  for (int i = 0; i < 20; ++i) {
    // Wait for some requests between two restarts, however slow the machine is.
    EXPECT_TRUE(
        wait_until([&] { return service_.metric("millrace_requests_total", "outcome=\"success\"") > 50; }));
    EXPECT_EQ(service_.metric("millrace_requests_total", "outcome=\"failure\"").value_or(0), 0);
    ASSERT_EQ(service_.stop(), 0) << service_.log();
    EXPECT_TRUE(service_.logged("info", "accepted requests may take 5000 ms more"));
    EXPECT_TRUE(service_.logged("info", "stopped"));
    EXPECT_EQ(service_.complaints(), Words());
    if (i == 9) service_.set("drain_notice_ms: 0", "drain_notice_ms: 300");
    service_.start();
  }
  clients.end();
  const auto failures = clients.failures();
  EXPECT_GT(clients.asked(), 1'000U);
  EXPECT_EQ(failures.size(), 0U) << "of " << clients.asked() << "; the first: " << *failures.begin();
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

/// The base of tests in which compilers write into a repository that a server polls.
class InstalledServerWithCompiler : public InstalledServer {
 protected:
  void SetUp() override { ASSERT_TRUE(installed({"strace"})); }

  /// Whether `folder` or a folder below it contains a compiler's unfinished output.
  static bool holds_unfinished(const fs::path& folder) {
    std::error_code ignored;
    for (fs::recursive_directory_iterator it(folder, ignored), end; it != end; it.increment(ignored))
      if (it->path().filename().string().find(".tmp.") != std::string::npos) return true;
    return false;
  }
};

TEST_F(InstalledServerWithCompiler, AnInterruptedCompilationLeavesNoVersionInTheRepository) {
  set_mode("poll");
  copy_version("1");
  service_.start();
  const Words compile = site().command(site().compile("2", model() / "2"));
  {
    BackgroundProgram interrupted(on_a_slow_disk(compile));
    ASSERT_TRUE(wait_until([&] { return holds_unfinished(model()); })) << interrupted.err();
    EXPECT_EQ(interrupted.stop(SIGTERM), 128 + SIGTERM);
    // strace may write a line of its own after millrace's last message.
    EXPECT_TRUE(interrupted.err().starts_with("millrace compile: error: interrupted; nothing written\n"))
        << interrupted.err();
    EXPECT_FALSE(holds_unfinished(model()));
  }
  {
    BackgroundProgram killed(on_a_slow_disk(compile, 3));
    ASSERT_TRUE(wait_until([&] { return holds_unfinished(model()); })) << killed.err();
    EXPECT_EQ(killed.stop(SIGKILL), 128 + SIGKILL);
    EXPECT_TRUE(holds_unfinished(model())) << "nobody could remove it";
  }
  EXPECT_FALSE(fs::exists(model() / "2"));
  restart();  // the start must also succeed with the files that the killed compiler left
  expect_served("1");
  EXPECT_EQ(service_.complaints(), Words());

  const Outcome compiled = run_program(compile);
  EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_FALSE(holds_unfinished(model())) << "the next run removes it";
  EXPECT_TRUE(service_.metric_becomes(1, "millrace_model_ready", "version=\"2\"")) << service_.log();
  expect_served("2");
  EXPECT_EQ(service_.complaints(), Words());
  EXPECT_EQ(service_.metric("millrace_reloads_total", "outcome=\"failure\""), 0);
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

TEST_F(InstalledServerWithCompiler, StopCancelsACompilationAndTheNextStartRepeatsTheCompilation) {
  set_mode("explicit");
  // The drain time is longer than stop() waits. The test therefore fails if a cancelled compilation delays
  // the server's end.
  service_.set("drain_ms: 5000", "drain_ms: 600000");
  copy_version("1");
  service_.start([](const Words& command) { return on_a_slow_disk(command, 3); });
  fs::copy(site().source("2"), model() / "2", fs::copy_options::recursive);
  const fs::path cache = directory_.path() / "etc" / "cache";
  {
    BackgroundProgram reload(site().command(
        {"reload", "--url", service_.url(), "--model", "lenet5", "--version", "2", "--quiet"}));
    ASSERT_TRUE(wait_until([&] { return holds_unfinished(cache); })) << service_.log();
    EXPECT_EQ(service_.metric("millrace_model_ready", "version=\"1\""), 1) << "it serves meanwhile";
    EXPECT_EQ(service_.stop(), 0) << service_.log();
    EXPECT_EQ(reload.stop(0), 1);
    EXPECT_NE(reload.err().find("the server is stopping"), std::string::npos) << reload.err();
  }
  EXPECT_TRUE(service_.logged(
      "warning", "model 'lenet5' version '2': the compilation is cancelled because the server stops"));
  EXPECT_FALSE(holds_unfinished(cache));

  service_.start();
  EXPECT_TRUE(service_.metric_becomes(1, "millrace_model_ready", "version=\"2\"")) << service_.log();
  expect_served("2");
  EXPECT_EQ(service_.complaints(), Words());
  EXPECT_EQ(service_.stop(), 0) << service_.log();
}

}  // namespace
}  // namespace millrace::tests::test_operators_day
