// Tests the settings of `millrace serve`: their sources, the reports about them, and the log's content.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <boost/json.hpp>
#include <map>
#include <sstream>

#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/integration/serve_settings.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"

namespace millrace::tests::test_serve_settings {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

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

/// Returns the printed settings without the comments that name each setting's source.
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
  EXPECT_NE(outcome.err.find("MILLRACE_SLOT: no setting has this environment variable, so it is ignored; "
                             "did you mean MILLRACE_SLOTS?"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("did you mean MILLRACE_UDP_LISTEN?"), std::string::npos) << outcome.err;
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
    EXPECT_TRUE(said(server, "other machines can reach 0.0.0.0:")) << server.err();
    EXPECT_EQ(server.stop(SIGTERM), 0);
  }
  command.push_back("--check-config");
  Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("other machines can reach 0.0.0.0:0, and every route there except admin routes "
                             "works without a token"),
            std::string::npos)
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
        Case{"http: {certificate: a, key: b}\n", "no effect without a listener"},
        Case{"http: {tokens: absent}\n", "absent"},
        Case{"deployments: [absent]\n", "absent"},
        Case{"cluster: absent.yaml\n", "absent.yaml"},
        Case{"udp: {listen: nowhere}\n", "bad.yaml:1: udp.listen 'nowhere' is not HOST:PORT"},
        Case{"udp: {listen: '127.0.0.1:0', keys: absent}\n", "absent"},
        Case{"udp: {listen: '0.0.0.0:0'}\n", "there are no keys"},
        Case{"schema: 1\n", "no models to serve"},
        Case{"deployments: [three]\n" + one_card, "model 'chain'", 1},
        Case{good + "http: {listen: 'unix:/nodir/x.sock'}\n",
             ":2: http.listen: cannot listen on unix:/nodir/x.sock: /nodir: No such file", 3},
        Case{good + "http: {listen: '0.0.0.0:8000', admin_listen: '127.0.0.1:8000'}\n",
             "http.listen '0.0.0.0:8000' takes that address"},
        Case{good + "http: {listen: ['unix:x', 'tls:unix:x'], certificate: a, key: b}\n",
             "takes that address"},
        Case{good + "http: {cors_origins: [foo]}\n", ":2: http.cors_origins: 'foo' is not a valid origin"},
        Case{good + "http: {cors_origins: ['https://panel.example/']}\n", "is not a valid origin"},
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

TEST_F(ServeSettings, LogLinesHaveASyslogPriorityOnlyInTheSystemdJournal) {
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
    EXPECT_NE(outcome.err.find("other machines can reach"), std::string::npos) << outcome.err;
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
  // The request's deadline of one microsecond passes before the server handles the request. The client chose
  // this deadline, so the server logs no warning.
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
}  // namespace millrace::tests::test_serve_settings
