// Tests the server's settings from file, environment and flags.

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/file.hpp"
#include "server/config/load.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::server::config::test_config {
namespace {

Result<Loaded> from_file(const std::string& text) {
  return load_text(text, "server.yaml", {});
}

void expect_refused(const Result<Loaded>& loaded, const std::string& says) {
  ASSERT_FALSE(loaded.ok()) << "wanted: " << says;
  EXPECT_EQ(loaded.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(loaded.error().message().find(says), std::string::npos) << loaded.error().message();
}

TEST(Config, HasDefaultsWithoutFileEnvironmentAndFlags) {
  const auto loaded = load({});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_TRUE(differing(loaded->settings, Settings{}).empty());
  EXPECT_EQ(loaded->origin("slots"), "default");
}

TEST(Config, FlagsWinOverTheEnvironmentAndTheEnvironmentOverTheFile) {
  Sources sources;
  const std::string file = "slots: 2\nqueue_capacity: 3\nhttp:\n  listen: 127.0.0.1:1\n";
  sources.environment = {{"MILLRACE_SLOTS", "4"}, {"MILLRACE_QUEUE_CAPACITY", "5"}};
  sources.flags = {{"slots", {"6"}}};
  const auto loaded = load_text(file, "server.yaml", sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(loaded->settings.slots, 6U);
  EXPECT_EQ(loaded->origin("slots"), "--slots");
  EXPECT_EQ(loaded->settings.queue_capacity, 5U);
  EXPECT_EQ(loaded->origin("queue_capacity"), "MILLRACE_QUEUE_CAPACITY");
  EXPECT_EQ(loaded->settings.http_listen, (std::vector<std::string>{"127.0.0.1:1"}));
  EXPECT_EQ(loaded->origin("http.listen"), "server.yaml:4");
}

TEST(Config, ReadsEveryKindOfValue) {
  const auto loaded = load_text(
      "schema: 1\ndeployments: [a, /b]\ncluster: ./c.yaml\ndrain_ms: 7\nudp: {listen: 'h:1', "
      "unauthenticated: true}\nlog: {level: debug}\nhttp:\n",
      "/etc/millrace/server.yaml", {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(loaded->settings.deployments, (std::vector<std::string>{"/etc/millrace/a", "/b"}));
  EXPECT_EQ(loaded->settings.cluster, "/etc/millrace/c.yaml");
  EXPECT_EQ(loaded->settings.drain.count(), 7);
  EXPECT_TRUE(loaded->settings.udp_unauthenticated);
  EXPECT_EQ(loaded->settings.log_level, "debug");
}

TEST(Config, FindsAClusterNextToTheSettingsFileOrAmongInstalledClusters) {
  const TemporaryDirectory directory("millrace-config"), current("millrace-config");
  const auto cluster = [&](const std::string& name) {
    const auto loaded = load_text("cluster: " + name + "\n", directory.path() / "server.yaml", {});
    return loaded.ok() ? loaded->settings.cluster : loaded.error().message();
  };
  const auto write = [](const std::filesystem::path& file) { std::ofstream(file) << "schema: 1\n"; };
  const auto installed =
      std::filesystem::canonical(std::filesystem::path(tests::source_dir()) / "configs/clusters");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(current.path());
  for (const char* name : {"three-ku060", "three-ku060.yaml"}) {
    SCOPED_TRACE(name);
    write(current.path() / name);  // not beside the settings file, so it must be ignored
    EXPECT_EQ(cluster(name), installed / "three-ku060.yaml");
    std::filesystem::create_directory(directory.path() / name);
    EXPECT_EQ(cluster(name), installed / "three-ku060.yaml");
    std::filesystem::remove(directory.path() / name);
    write(directory.path() / name);
    EXPECT_EQ(cluster(name), directory.path() / name);
  }
  write(current.path() / "none");
  const std::string there = directory.path().string();
  EXPECT_TRUE(cluster("none").starts_with(there + "/server.yaml:1: cluster: cluster '" + there +
                                          "/none': there is no file with this path, and no cluster in "))
      << cluster("none");
  std::filesystem::current_path(before);
}

TEST(Config, AListInTheEnvironmentReplacesTheListOfTheFile) {
  Sources sources;
  sources.environment = {{"MILLRACE_DEPLOYMENTS", "x,y"}};
  const auto loaded = load_text("deployments: [a]", "server.yaml", sources);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->settings.deployments, (std::vector<std::string>{"x", "y"}));
}

TEST(Config, RefusesAnInvalidFileAndNamesTheLine) {
  expect_refused(from_file("slots: 2\nslotz: 3\n"),
                 "server.yaml:2: unknown key 'slotz'; known here: allow_plugins, cluster");
  expect_refused(from_file("http:\n  listen: a:1\n  lisen: b\n"), "server.yaml:3: unknown key 'http.lisen'");
  expect_refused(from_file("slots: 2\nslots: 3\n"), "server.yaml:2: key 'slots' is given twice");
  expect_refused(from_file("\nslots: 0\n"), "server.yaml:2: slots: '0' is not a whole number from 1 to 1024");
  expect_refused(from_file("slots: -1\n"), "'-1' is not a whole number");
  expect_refused(from_file("slots: 1.5\n"), "'1.5' is not a whole number");
  expect_refused(from_file("slots: 99999999999999999999999\n"), "is not a whole number");
  expect_refused(from_file("slots: [1, 2]\n"), "one value is expected, not a list");
  expect_refused(from_file("slots: {a: 1}\n"), "a value is expected, not a mapping");
  expect_refused(from_file("deployments: [[a]]\n"), "a list of plain texts is expected");
  expect_refused(from_file("deployments: ['']\n"), "a path is empty");
  expect_refused(from_file("http: 127.0.0.1:8000\n"), "http: settings are expected below it: admin_listen");
  expect_refused(from_file("log: {level: loud}\n"), "'loud' is not supported; known: debug, info");
  expect_refused(from_file("udp: {listen: 'a:1', unauthenticated: maybe}\n"), "neither true nor false");
  expect_refused(from_file("schema: 2\n"), "schema: '2' is not known; 1 is");
  expect_refused(from_file("[]\n"), "a mapping of settings is expected");
  expect_refused(from_file("slots: {\n"), "not YAML");
  expect_refused(from_file(""), "is empty");
  expect_refused(from_file("slots: 1\n---\nslots: 2\n"), "several documents");
  expect_refused(from_file(", b:x] [*a, *a]\n"), "text outside of a document");  // once an endless loop
  std::string repeated = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 1000; ++i) repeated += "*a, ";
  expect_refused(from_file(repeated + "*a]\n"), "too large");
  expect_refused(from_file("slots: \xFF\n"), "not UTF-8");
}

TEST(Config, ErrorNamesAWrongEnvironmentVariableOrFlag) {
  Sources sources;
  sources.environment = {{"MILLRACE_HTTP_LISTN", "x"}};
  expect_refused(load(sources), "MILLRACE_HTTP_LISTN: no setting has this environment variable");
  sources.environment = {{"MILLRACE_SLOTS", "many"}};
  expect_refused(load(sources), "MILLRACE_SLOTS: 'many' is not a whole number");
  sources.environment = {{"MILLRACE_SOMETHING_ELSE", "x"}};
  EXPECT_TRUE(load(sources).ok()) << "others have variables too";
  sources.flags = {{"slots", {"1025"}}};
  expect_refused(load(sources), "--slots: '1025' is not a whole number");
}

TEST(Config, WarnsOfAVariableThatResemblesTheVariableOfASetting) {
  const auto warnings_of = [](std::map<std::string, std::string> environment) {
    Sources sources;
    sources.environment = std::move(environment);
    const auto loaded = load(sources);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message();
    return loaded.ok() ? loaded->warnings : std::vector<std::string>{};
  };
  const auto meant = [&](const std::string& name) -> std::string {
    const auto warnings = warnings_of({{name, "x"}});
    if (warnings.empty()) return "";
    EXPECT_EQ(warnings.size(), 1U) << name;
    const std::string begin =
        name + ": no setting has this environment variable, so it is ignored; did you mean ";
    EXPECT_TRUE(warnings[0].starts_with(begin)) << warnings[0];
    return warnings[0].substr(begin.size());
  };
  EXPECT_EQ(meant("MILLRACE_SLOT"), "MILLRACE_SLOTS?") << "left out";
  EXPECT_EQ(meant("MILLRACE_SSLOTS"), "MILLRACE_SLOTS?") << "put in";
  EXPECT_EQ(meant("MILLRACE_SLITS"), "MILLRACE_SLOTS?") << "changed";
  EXPECT_EQ(meant("MILLRACE_SOLTS"), "MILLRACE_SLOTS?") << "in another order";
  EXPECT_EQ(meant("MILLRACE_HTPP_LISTEN"), "MILLRACE_HTTP_LISTEN?") << "no section's";
  EXPECT_EQ(meant("MILLRACE_SO"), "") << "three letters off";
  EXPECT_EQ(meant("MILLRACE_UDP"), "MILLRACE_UDP_LISTEN?") << "as the flag is called";
  EXPECT_EQ(meant("MILLRACE_TOKENS"), "MILLRACE_HTTP_TOKENS?");
  EXPECT_EQ(meant("MILLRACE_SWAP_POLICY"), "MILLRACE_REPOSITORY_POLICY?");
  EXPECT_EQ(meant("MILLRACE_" + std::string(100'000, 'X')), "") << "not compared for seconds";
  for (const std::string own : {"CONFIG", "CACHE", "MODELS", "CARD", "EMULATION", "EMULATION_OPTIONS",
                                "TOKEN", "XRT_SHIM", "UPDATE_GOLDEN"})
    EXPECT_EQ(meant("MILLRACE_" + own), "") << "a variable of ours";
  EXPECT_TRUE(warnings_of({{"MILLRACE_SLOTS", "4"}, {"MILLRACE_HTTP_THREADS", "1"}}).empty());
  EXPECT_EQ(warnings_of({{"MILLRACE_SLOT", "4"}, {"MILLRACE_SLOTS", "4"}, {"MILLRACE_UPD", "x"}}).size(), 1U);
}

TEST(Config, RefusesASettingWithoutTheSettingThatItNeeds) {
  expect_refused(from_file("udp: {fragment_bytes: 1000}\n"), "udp.fragment_bytes: needs udp.listen (--udp)");
  expect_refused(from_file("repository: {mode: poll}\n"), "repository.mode: needs repository.root");
  EXPECT_TRUE(from_file("repository: {mode: none}\n").ok()) << "as if it were not there";
  Sources sources;
  sources.flags = {{"udp.keys", {"k"}}};
  expect_refused(load(sources), "--udp-keys: needs udp.listen (--udp)");
}

TEST(Config, RefusesAnOriginThatNoBrowserSends) {
  for (const std::string bad : {"foo", "://x", "https://", "https://a/", "https://*", "HTTPS://a", "null"})
    expect_refused(from_file("http: {cors_origins: ['" + bad + "']}\n"),
                   "server.yaml:1: http.cors_origins: '" + bad + "' is not a valid origin");
  EXPECT_TRUE(from_file("http: {cors_origins: ['*', 'https://a.example', 'http://[::1]:3000']}\n").ok());
}

TEST(Config, ErrorNamesAMissingSettingsFile) {
  Sources sources;
  sources.file = "/no/such/server.yaml";
  const auto loaded = load(sources);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(loaded.error().message().find("/no/such/server.yaml"), std::string::npos);
}

TEST(Config, ReadmeAndExampleDocumentEverySetting) {
  const std::string root = tests::source_dir();
  Sources sources;
  sources.file = root + "/configs/server.yaml";
  const auto loaded = load(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  for (const auto* setting : differing(loaded->settings, Settings{}))
    ADD_FAILURE() << setting->key << " is not at its default";
  const auto example = read_text_file(sources.file), page = read_text_file(root + "/server/config/README.md");
  ASSERT_TRUE(example.ok());
  ASSERT_TRUE(page.ok());
  for (const Setting& setting : settings()) {
    const auto name = setting.key.substr(setting.key.rfind('.') + 1);
    EXPECT_NE(example->find(std::string(name) + ":"), std::string::npos) << setting.key;
    EXPECT_NE(page->find("| `" + std::string(setting.key) + "` | `" + std::string(setting.flag) + "` |"),
              std::string::npos)
        << setting.key;
  }
}

}  // namespace
}  // namespace millrace::server::config::test_config
