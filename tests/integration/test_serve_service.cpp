// Tests `millrace serve` under a service manager, and the shipped systemd units.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_serve_service {
namespace {

using namespace std::chrono_literals;

class ServeService : public testing::Test {
 protected:
  ServeService() { deploy(chain_program(2), emulated_ring(1), 1, deployment_); }

  std::vector<std::string> serve(std::vector<std::string> more) const {
    std::vector<std::string> command = {millrace_binary(), "serve", "--deployment", deployment_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  TemporaryDirectory directory_{"millrace-service"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
};

TEST_F(ServeService, SystemdUnitsPassSystemdAnalyzeVerify) {
  ASSERT_TRUE(installed({"systemd-analyze"}));
  const auto units = std::filesystem::path(tests::source_dir()) / "configs/systemd";
  for (const char* name : {"millrace.service", "millrace.socket"}) {
    std::string unit = read_text_file(units / name).value();
    const auto binary = unit.find("/usr/bin/millrace");
    if (binary != std::string::npos) unit.replace(binary, 17, millrace_binary());
    ASSERT_TRUE(write_file_atomically(directory_.path() / name, unit).ok());
  }
  for (const char* name : {"millrace.service", "millrace.socket"}) {
    const Outcome outcome = run_program({"systemd-analyze", "verify", (directory_.path() / name).string()});
    EXPECT_EQ(outcome.exit_code, 0) << name;
    EXPECT_EQ(outcome.out + outcome.err, "") << "it only warns of unknown keys: " << name;
  }
}

TEST_F(ServeService, SystemdUnitIsHardenedButKeepsAccessToTheCards) {
  ASSERT_TRUE(installed({"systemd-analyze"}));
  const std::string unit =
      read_text_file(std::string(tests::source_dir()) + "/configs/systemd/millrace.service").value();
  const auto path = directory_.path() / "millrace.service";
  ASSERT_TRUE(write_file_atomically(path, unit).ok());
  // systemd's exposure level may be at most 2.0. The option --threshold is in tenths.
  const Outcome outcome =
      run_program({"systemd-analyze", "security", "--offline=true", "--threshold=20", path.string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* hides :
       {"\nPrivateDevices=", "\nDevicePolicy=", "\nDeviceAllow=", "\nProtectClock=", "\nPrivateUsers="})
    EXPECT_EQ(unit.find(hides), std::string::npos) << hides;
  EXPECT_NE(unit.find("\nLimitMEMLOCK=infinity\n"), std::string::npos);
  EXPECT_NE(unit.find("\nEnvironmentFile=-/etc/millrace/environment\n"), std::string::npos)
      << "for XILINX_XRT";
}

TEST_F(ServeService, SystemdUnitWithSecretsEnabledPassesSystemdAnalyzeVerify) {
  ASSERT_TRUE(installed({"systemd-analyze"}));
  std::string unit =
      read_text_file(std::string(tests::source_dir()) + "/configs/systemd/millrace.service").value();
  for (const char* name : {"LoadCredential=", "SupplementaryGroups="}) {
    bool found = false;
    for (auto at = unit.find(std::string("\n#") + name); at != std::string::npos;
         at = unit.find(std::string("\n#") + name)) {
      unit.erase(at + 1, 1);
      found = true;
    }
    EXPECT_TRUE(found) << name;
  }
  unit.replace(unit.find("/usr/bin/millrace"), 17, millrace_binary());
  const auto path = directory_.path() / "millrace.service";
  ASSERT_TRUE(write_file_atomically(path, unit).ok());
  const Outcome outcome = run_program({"systemd-analyze", "verify", path.string()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

/// systemd provides a service's credentials as files that only the service's user may read, in a separate folder.
TEST_F(ServeService, AcceptsSecretFilesReadableOnlyByItsUserWithoutAWarning) {
  const auto folder = directory_.path() / "credentials";
  std::filesystem::create_directory(folder);
  const auto tokens = folder / "tokens";
  ASSERT_TRUE(write_file_atomically(tokens, "operator admin a-token-of-the-operator\n").ok());
  std::filesystem::permissions(tokens, std::filesystem::perms(0400));
  std::filesystem::permissions(folder, std::filesystem::perms(0500));
  const Outcome outcome = run_program(serve({"--tokens", tokens.string(), "--check-config"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::filesystem::permissions(folder, std::filesystem::perms(0700));
}

/// The service's user is a DynamicUser and has no home directory, so the unit must set the cache's folder.
TEST_F(ServeService, EnvironmentOfTheSystemdUnitSufficesToServeARepository) {
  const auto root = directory_.path() / "models", caches = directory_.path() / "cache";
  const std::string cluster = std::string(tests::source_dir()) + "/configs/clusters/one-ku060.yaml";
  deploy(chain_program(2), runtime::plan::load_cluster(cluster).value(), 1, root / "chain" / "1");
  std::filesystem::create_directories(root / "bad" / "1");
  ASSERT_TRUE(write_file_atomically(root / "bad" / "1" / "deployment.json", "{}").ok());

  std::vector<std::string> command = {"env", "-i", "HOME=/proc", "PATH=" + std::string(std::getenv("PATH"))};
  std::istringstream unit(
      read_text_file(std::string(tests::source_dir()) + "/configs/systemd/millrace.service").value());
  for (std::string line; std::getline(unit, line);) {
    constexpr std::string_view kEnvironment = "Environment=", kCache = "CacheDirectory=";
    if (line.starts_with(kCache)) std::filesystem::create_directories(caches / line.substr(kCache.size()));
    if (!line.starts_with(kEnvironment)) continue;
    if (const auto at = line.find("%C"); at != std::string::npos) line.replace(at, 2, caches.string());
    command.push_back(line.substr(kEnvironment.size()));
  }
  for (const std::string& word : std::vector<std::string>{
           millrace_binary(), "serve", "--repository", root.string(), "--cluster", cluster, "--http",
           "127.0.0.1:0", "--repository-mode", "poll", "--repository-poll-ms", "20"})
    command.push_back(word);
  BackgroundProgram server(command);
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  EXPECT_EQ(connection.request("GET", "/v2/models/chain/ready")->status, 200);
  const auto unavailable = [&](const std::string& models) {
    const std::string line = "\nmillrace_repository_models_unavailable " + models + "\n";
    return wait_until(
        [&] { return connection.request("GET", "/metrics")->body.find(line) != std::string::npos; });
  };
  EXPECT_EQ(connection.request("GET", "/v2/health/ready")->status, 200) << "it never served";
  EXPECT_TRUE(unavailable("1"));
  std::filesystem::remove_all(root / "bad");
  EXPECT_TRUE(unavailable("0")) << "the broken model was removed";
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(ServeService, NotifiesTheServiceManagerOfEachChangeOfState) {
  const std::string path = directory_.path() / "notify";
  const int listener = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  const timeval patience{60, 0};
  ::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const auto next = [&] {
    char text[1000];
    const auto got = ::recv(listener, text, sizeof text, 0);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : std::string("nothing came");
  };

  BackgroundProgram server(serve({"--http", "127.0.0.1:0"}),
                           {"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=200000"});
  EXPECT_EQ(next(), "READY=1\nSTATUS=serving");
  EXPECT_EQ(next(), "WATCHDOG=1");
  ASSERT_EQ(::kill(server.pid(), SIGHUP), 0);
  std::string said = next();
  while (said == "WATCHDOG=1") said = next();
  EXPECT_TRUE(said.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << said;
  EXPECT_EQ(next(), "READY=1\nSTATUS=serving");
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  said = next();
  while (said == "WATCHDOG=1") said = next();
  EXPECT_EQ(said, "STOPPING=1\nSTATUS=draining");
  ::close(listener);
}

TEST_F(ServeService, StopsDuringCardStartupAtTheTimeLimitOrOnASecondSignal) {
  for (const char* const drain : {"600000", "200"}) {
    const std::string path = directory_.path() / "starting.sock";
    BackgroundProgram server(serve({"--http", "unix:" + path, "--drain-ms", drain}),
                             {"MILLRACE_EMULATION_OPTIONS=program_time=600000"});
    ASSERT_TRUE(wait_until([&] { return !children_named(server.pid(), "millrace-card").empty(); }))
        << server.err();
    const auto cards = children_named(server.pid(), "millrace-card");
    EXPECT_TRUE(std::filesystem::exists(path));
    const auto since = std::chrono::steady_clock::now();
    if (drain == std::string_view("600000")) {
      ASSERT_EQ(::kill(server.pid(), SIGTERM), 0);
      ASSERT_TRUE(wait_until([&] {
        return server.err().find("a second signal stops at once") != std::string::npos;
      })) << server.err();
      EXPECT_TRUE(server.running());
    }
    EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
    EXPECT_LT(std::chrono::steady_clock::now() - since, 25s) << "programming takes ten minutes";
    EXPECT_FALSE(std::filesystem::exists(path)) << "the socket's file goes too";
    for (const pid_t card : cards) EXPECT_TRUE(wait_until([&] { return !process_exists(card); }));
  }
}

TEST_F(ServeService, ServesOnASocketPassedBySystemd) {
  ASSERT_TRUE(installed({"systemd-socket-activate"}));
  const std::string path = directory_.path() / "http.sock";
  std::vector<std::string> command = {"systemd-socket-activate", "-l", path, "--fdname=http"};
  const auto rest = serve({"--http", "systemd:http"});
  command.insert(command.end(), rest.begin(), rest.end());
  BackgroundProgram server(command);
  // The first connection starts the server, which then answers the request on it.
  HttpConnection connection("unix:" + path, 60s);
  const auto connects = [&] {
    if (!connection.connected()) connection = HttpConnection("unix:" + path, 60s);
    return connection.connected();
  };
  ASSERT_TRUE(wait_until(connects)) << server.err();
  const auto answer = connection.request("GET", "/v2/health/ready");
  ASSERT_TRUE(answer) << server.err();
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(server.wait_for_line("listening http unix:" + path, 30s));
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(ServeService, ErrorNamesASystemdSocketThatWasNotPassed) {
  const Outcome outcome = run_program(serve({"--http", "systemd:http"}));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.err.find("no socket named 'http' was passed"), std::string::npos) << outcome.err;
}

/// One client sends requests while ten thousand other clients are connected and idle.
TEST_F(ServeService, TenThousandIdleConnectionsNeedLittleMemoryAndDelayNoRequest) {
  constexpr int kIdle = 10'000;
  const Outcome limit = run_program({"sh", "-c", "ulimit -Hn"});
  if (limit.out.find("unlimited") == std::string::npos && std::atoi(limit.out.c_str()) < kIdle + 500)
    GTEST_SKIP() << "the limit of open files is " << limit.out;
  BackgroundProgram server(serve({"--http", "unix:" + (directory_.path() / "http.sock").string()}));
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  rlimit mine{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &mine), 0);
  mine.rlim_cur = mine.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &mine), 0);
  const auto resident_pages = [&] {
    std::ifstream statm("/proc/" + std::to_string(server.pid()) + "/statm");
    std::uint64_t all = 0, resident = 0;
    statm >> all >> resident;
    return resident;
  };
  const std::uint64_t before = resident_pages();
  std::vector<HttpConnection> idle;
  idle.reserve(kIdle);
  for (int i = 0; i < kIdle; ++i) {
    idle.emplace_back(*address);
    ASSERT_TRUE(idle.back().connected()) << i;
  }
  HttpConnection asking(*address);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(asking.request("GET", "/v2/health/ready")->status, 200);
  EXPECT_GE(open_descriptors(server.pid()), static_cast<std::size_t>(kIdle));
  EXPECT_EQ(idle[0].request("GET", "/v2/health/live")->status, 200);
  EXPECT_EQ(idle[kIdle - 1].request("GET", "/v2/health/live")->status, 200);
  const std::uint64_t bytes =
      (resident_pages() - before) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  RecordProperty("bytes_a_connection", std::to_string(bytes / kIdle));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers use additional memory
  EXPECT_LT(bytes / kIdle, 32'768U);
#endif
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

}  // namespace
}  // namespace millrace::tests::test_serve_service
