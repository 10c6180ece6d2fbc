// Tests the shipped files in configs/monitoring. promtool checks them, and a real Prometheus that scrapes a
// server under load must answer every expression of the dashboard and the alerts.
#include <gtest/gtest.h>
#include <signal.h>
#include <yaml-cpp/yaml.h>

#include <boost/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/base/file.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/certificate.hpp"

namespace millrace::tests::test_monitoring {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

const std::filesystem::path kConfigs = std::filesystem::path(tests::source_dir()) / "configs/monitoring";

std::string text_of(const std::filesystem::path& file) {
  const auto text = read_text_file(file);
  EXPECT_TRUE(text.ok()) << file;
  return text.ok() ? *text : "";
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

struct Alert {
  std::string name, expression;
};

std::vector<Alert> alerts_of(const std::filesystem::path& file) {
  std::vector<Alert> out;
  for (const auto& group : YAML::LoadFile(file.string())["groups"])
    for (const auto& rule : group["rules"])
      out.push_back({rule["alert"].as<std::string>(), rule["expr"].as<std::string>()});
  return out;
}

/// Returns the left-hand side of an alert's comparison. The comparison is the last one in the expression that
/// is outside of parentheses and braces.
std::string left_hand_side(const std::string& expression) {
  int depth = 0;
  std::size_t at = std::string::npos;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (depth == 0 && (c == '>' || c == '<' || expression.compare(i, 2, "==") == 0)) at = i;
    if (depth == 0 && expression.compare(i, 2, "==") == 0) ++i;
  }
  return expression.substr(0, at);
}

TEST(AlertExpression, LeftHandSideEndsAtTheOutermostComparisonOperator) {
  EXPECT_EQ(left_hand_side("up{a=\"b\"} == 0"), "up{a=\"b\"} ");
  EXPECT_EQ(left_hand_side("a / (b > 0) > 0.8"), "a / (b > 0) ");
}

/// Returns the series that `expression` names, each as a selector. A selector `label=~"a|b"` yields one
/// series for each value.
std::set<std::string> series_of(const std::string& expression) {
  static const std::regex selector(R"(\b(up|(?:millrace|process)_[a-z0-9_]+)(\{[^}]*\})?)");
  static const std::regex choice(R"(^(.*=)~"([a-z_]+(?:\|[a-z_]+)+)\"(.*)$)");
  std::set<std::string> out;
  const auto add = [&](const auto& self, const std::string& one) -> void {
    std::smatch parts;
    if (!std::regex_match(one, parts, choice)) {
      out.insert(one);
      return;
    }
    std::istringstream values(parts[2].str());
    for (std::string value; std::getline(values, value, '|');)
      self(self, parts[1].str() + '"' + value + '"' + parts[3].str());
  };
  for (std::sregex_iterator at(expression.begin(), expression.end(), selector), end; at != end; ++at)
    add(add, at->str());
  return out;
}

TEST(AlertExpression, ListsEveryMetricSeriesOfAnExpression) {
  EXPECT_EQ(series_of("increase(millrace_a_total{b=~\"x|y\",c=\"z\"}[5m]) > on (model) millrace_b"),
            (std::set<std::string>{"millrace_a_total{b=\"x\",c=\"z\"}", "millrace_a_total{b=\"y\",c=\"z\"}",
                                   "millrace_b"}));
  EXPECT_EQ(series_of("up{job=\"millrace\"} == 0"), std::set<std::string>{"up{job=\"millrace\"}"});
  EXPECT_EQ(series_of("rate(millrace_c{model=~\".*\"}[5m])"),
            std::set<std::string>{"millrace_c{model=~\".*\"}"});
}

/// Returns every expression of the dashboard, restricted to servers whose instance matches `instances`.
std::vector<std::string> dashboard_expressions(const std::string& instances) {
  std::vector<std::string> out;
  const json::value document = json::parse(text_of(kConfigs / "dashboard.json"));
  for (const json::value& panel : document.at("panels").as_array()) {
    const json::value* targets = panel.as_object().if_contains("targets");
    if (targets == nullptr) continue;
    for (const json::value& target : targets->as_array()) {
      std::string expression(target.at("expr").as_string());
      replace_all(expression, "$__rate_interval", "10s");
      replace_all(expression, "$model", ".*");
      replace_all(expression, "$instance", instances);
      out.push_back(std::move(expression));
    }
  }
  return out;
}

TEST(Monitoring, PromtoolAcceptsTheConfigurationAndTheAlertTests) {
  ASSERT_TRUE(installed({"promtool"}));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"check", "config", (kConfigs / "prometheus.yml").string()},
                                             {"check", "rules", (kConfigs / "alerts.yml").string(),
                                              (kConfigs / "alerts_hardware.yml").string()},
                                             {"test", "rules", (kConfigs / "alerts_test.yml").string()}}) {
    std::vector<std::string> command{"promtool"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << arguments[0] << ' ' << arguments[1] << '\n'
                                    << outcome.out << outcome.err;
  }
}

TEST(Monitoring, EveryAlertHasAFiringAndASilentTestCase) {
  std::set<std::string> firing, silent;
  for (const auto& test : YAML::LoadFile((kConfigs / "alerts_test.yml").string())["tests"])
    for (const auto& one : test["alert_rule_test"])
      (one["exp_alerts"].size() > 0 ? firing : silent).insert(one["alertname"].as<std::string>());
  for (const char* file : {"alerts.yml", "alerts_hardware.yml"})
    for (const Alert& alert : alerts_of(kConfigs / file)) {
      EXPECT_EQ(firing.count(alert.name), 1U) << alert.name << " is never seen to fire";
      EXPECT_EQ(silent.count(alert.name), 1U) << alert.name << " is never seen silent";
    }
}

class MonitoredServer : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(installed({"prometheus", "curl"}));
    deploy(program_, emulated_ring(3), 3, deployment_);
    const auto certified = server::test::make_certificate(-3'600, 86'400 * 30L);
    const auto chain = directory_.path() / "chain.pem", key = directory_.path() / "key.pem";
    ASSERT_TRUE(write_file_atomically(chain, certified.certificate).ok());
    ASSERT_TRUE(write_file_atomically(key, certified.key).ok());
    server_.emplace(std::vector<std::string>{
        millrace_binary(), "serve", "--deployment", deployment_.string(), "--http", "127.0.0.1:0", "--http",
        "tls:127.0.0.1:0", "--tls-certificate", chain, "--tls-key", key, "--udp", "127.0.0.1:0"});
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    address_ = *address;
    std::string config = text_of(kConfigs / "prometheus.yml");
    ASSERT_NE(config.find("127.0.0.1:8000"), std::string::npos);
    replace_all(config, "127.0.0.1:8000", address_);
    replace_all(config, "15s", "1s");
    const auto file = directory_.path() / "prometheus.yml";
    ASSERT_TRUE(write_file_atomically(file, config).ok());
    for (const char* rules : {"alerts.yml", "alerts_hardware.yml"})
      std::filesystem::copy_file(kConfigs / rules, directory_.path() / rules);
    prometheus_.emplace(
        std::vector<std::string>{"sh", "-c", "exec prometheus \"$@\" 2>&1", "sh", "--config.file",
                                 file.string(), "--storage.tsdb.path", (directory_.path() / "data").string(),
                                 "--web.listen-address", "127.0.0.1:0", "--log.level", "info"});
    // Prometheus reports its address only in its log: ... msg="Listening on" address=127.0.0.1:43211
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (url_.empty() && std::chrono::steady_clock::now() < end) {
      const auto line = prometheus_->wait_for_line("ts=", 60s);
      ASSERT_TRUE(line.has_value()) << "prometheus ended";
      const auto at = line->find("\"Listening on\" address=");
      if (at != std::string::npos)
        url_ = "http://" + line->substr(at + 23, line->find(' ', at + 23) - at - 23);
    }
    ASSERT_NE(url_, "");
  }

  void TearDown() override {
    if (prometheus_) {
      EXPECT_EQ(prometheus_->stop(SIGTERM), 0);
    }
    if (server_) {
      EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
    }
  }

  /// Returns the result of an instant query, or an empty array if Prometheus refuses the expression.
  json::array query(const std::string& expression) const {
    const Outcome outcome = run_program({"curl", "-sS", "--max-time", "20", "--get", url_ + "/api/v1/query",
                                         "--data-urlencode", "query=" + expression});
    json::error_code code;
    const json::value answer = json::parse(outcome.out, code);
    if (code || answer.at("status") != "success") {
      ADD_FAILURE() << expression << '\n' << outcome.out << outcome.err;
      return {};
    }
    return answer.at("data").at("result").as_array();
  }

  TemporaryDirectory directory_{"millrace-monitoring"};
  const std::filesystem::path deployment_ = directory_.path() / "deployment";
  const kernels::Program program_ = chain_program(6);
  std::optional<BackgroundProgram> server_, prometheus_;
  std::string address_, url_;
};

TEST_F(MonitoredServer, ExportsEveryMetricSeriesOfTheDashboardAndTheAlerts) {
  BackgroundProgram load({millrace_binary(), "bench", "--url", "http://" + address_, "--model", program_.name,
                          "--rate", "200", "--duration", "600", "--warmup", "0"});
  // Wait, because Prometheus listens for connections before it is ready to answer queries.
  ASSERT_TRUE(wait_until([&] {
    return run_program({"curl", "-sf", "--max-time", "20", url_ + "/-/ready"}).exit_code == 0;
  }));
  // Only real cards have the series of alerts_hardware.yml. test_models_and_metrics checks these series.
  std::vector<std::string> expressions = dashboard_expressions(".*");
  EXPECT_GT(expressions.size(), 25U);
  std::set<std::string> missing(expressions.begin(), expressions.end());
  for (const Alert& alert : alerts_of(kConfigs / "alerts.yml")) {
    missing.insert(left_hand_side(alert.expression));
    expressions.push_back(alert.expression);
  }
  for (const auto& expression : expressions) {
    const auto series = series_of(expression);
    EXPECT_FALSE(series.empty()) << "names no series: " << expression;
    missing.insert(series.begin(), series.end());
  }
  wait_until(
      [&] {
        std::erase_if(missing, [&](const auto& series) { return !query(series).empty(); });
        return missing.empty() || HasFailure();
      },
      180s);
  for (const auto& expression : missing) ADD_FAILURE() << "no series: " << expression;

  // Prometheus measures the request rate of the load, and no alert fires.
  EXPECT_TRUE(wait_until([&] {
    const json::array rate = query("sum(rate(millrace_requests_total{outcome=\"success\"}[10s]))");
    return rate.size() == 1 && std::stod(std::string(rate[0].at("value").at(1).as_string())) > 1;
  }));
  EXPECT_TRUE(query("ALERTS{alertstate=\"firing\"}").empty());

  // Each series on the dashboard names one server, so selecting another server hides the series.
  for (const std::string& expression : dashboard_expressions(".*"))
    for (const json::value& series : query(expression))
      EXPECT_NE(series.at("metric").as_object().if_contains("instance"), nullptr) << expression;
  for (const std::string& expression : dashboard_expressions("another server"))
    EXPECT_TRUE(query(expression).empty()) << expression;
  load.stop(SIGKILL);
}

}  // namespace
}  // namespace millrace::tests::test_monitoring
