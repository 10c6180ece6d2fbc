#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "runtime/base/file.hpp"
#include "tools/load/power.hpp"
#include "tools/load/report.hpp"

namespace millrace::load::test_report {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

RunReport run_of(std::uint32_t connections, std::chrono::microseconds latency, std::uint64_t failed = 0) {
  Tally tally;
  Schedule schedule(Clock::time_point(1s), 0s, 2s, std::nullopt);
  for (int i = 0; i < 100; ++i) {
    const auto slot = schedule.take(Clock::time_point(1s));
    tally.succeeded(*slot, slot->intended + latency);
  }
  if (failed > 0) tally.failed("429", failed);
  tally.finish(schedule);
  Settings settings;
  settings.connections = connections;
  return summarise(tally, settings);
}

Report report_of(std::vector<RunReport> runs) {
  return {"http://127.0.0.1:8000", "lenet5", 3136, 2, 0.5, std::move(runs)};
}

class LoadReport : public testing::Test {
 protected:
  Result<Report> read(const std::string& text) {
    const auto path = directory_.path() / "old.json";
    std::ofstream(path) << text;
    return read_report(path);
  }
  TemporaryDirectory directory_{"millrace-load"};
};

TEST(BenchReport, JsonHasTheKeysThatScriptsRelyOn) {
  RunReport best = run_of(8, 50us, 3);
  best.requests_per_second = 60;
  const json::value value = json::parse(to_json(report_of({run_of(1, 100us), best}), nullptr));
  EXPECT_EQ(value.at("schema").as_int64(), 1);
  EXPECT_NEAR(value.at("latency_us").at("p50").to_number<double>(), 50, 0.5);
  EXPECT_NEAR(value.at("latency_us").at("p99").to_number<double>(), 50, 0.5);
  EXPECT_EQ(value.at("requests_per_second").to_number<double>(), 60);
  EXPECT_EQ(value.at("errors").to_number<int>(), 3) << "summed over all runs";
  EXPECT_EQ(value.at("runs").as_array().size(), 2U);
  EXPECT_EQ(value.at("runs").at(1).at("errors_by_status").at("429").to_number<int>(), 3);
  EXPECT_FALSE(value.as_object().contains("comparison"));
}

TEST(BenchReport, JoulesPerRequestAreWattsOverRequestRateOrNull) {
  json::value value = json::parse(to_json(report_of({run_of(1, 100us)}), nullptr));
  EXPECT_TRUE(value.at("runs").at(0).at("watts").is_null());
  EXPECT_TRUE(value.at("runs").at(0).at("joules_per_request").is_null());

  Tally tally;
  Schedule schedule(Clock::time_point(1s), 0s, 2s, std::nullopt);
  for (int i = 0; i < 100; ++i) tally.succeeded(*schedule.take(Clock::time_point(1s)), Clock::time_point(2s));
  tally.finish(schedule);
  const RunReport run = summarise(tally, Settings{}, 75.0);
  EXPECT_DOUBLE_EQ(*run.joules_per_request, 75.0 / run.requests_per_second);
  std::ostringstream table;
  print_table(table, report_of({run}));
  EXPECT_NE(table.str().find("75.0 W, 1.5 J a request"), std::string::npos) << table.str();
}

TEST(BenchReport, WattsAreTheSumOverAllCardsOrAbsentIfOneReportsNone) {
  const std::string cards =
      R"({"models":[{"name":"m","cards":[{"power_watts":20.5},{"power_watts":30}]},)"
      R"({"name":"other","cards":[{"power_watts":1000}]},{"name":"half","cards":[{"power_watts":1},)"
      R"({"power_watts":null}]},{"name":"none","cards":[]}]})";
  EXPECT_DOUBLE_EQ(*watts_of(cards, "m"), 50.5);
  for (const char* model : {"half", "none", "unknown"})
    EXPECT_FALSE(watts_of(cards, model).has_value()) << model;
  for (const char* text :
       {"", "[]", "{}", R"({"models":[{"name":7}]})", R"({"models":[{"name":"m","cards":[{}]}]})"})
    EXPECT_FALSE(watts_of(text, "m").has_value()) << text;
}

TEST(BenchReport, HistogramIsInTheFormatOfHdrHistogram) {
  Tally tally;
  Schedule schedule(Clock::time_point(1s), 0s, 2s, std::nullopt);
  for (const auto latency : {100us, 100us, 100us, 1000us})
    tally.succeeded(*schedule.take(Clock::time_point(1s)), Clock::time_point(1s) + latency);
  tally.finish(schedule);
  std::ostringstream out;
  print_histogram(out, summarise(tally, Settings{}));
  std::istringstream lines(out.str());
  std::string head, blank, first, last;
  std::getline(lines, head);
  std::getline(lines, blank);
  std::getline(lines, first);
  std::getline(lines, last);
  EXPECT_EQ(blank, "");
  double value = 0, share = 0, inverse = 0;
  std::uint64_t count = 0;
  ASSERT_TRUE(std::istringstream(first) >> value >> share >> count >> inverse) << first;
  EXPECT_NEAR(value, 100, 1);
  EXPECT_DOUBLE_EQ(share, 0.75);
  EXPECT_EQ(count, 3U);
  EXPECT_DOUBLE_EQ(inverse, 4);
  ASSERT_TRUE(std::istringstream(last) >> value >> share >> count) << last;
  EXPECT_NEAR(value, 1000, 0.001) << "the largest value is exact";
  EXPECT_DOUBLE_EQ(share, 1);
  EXPECT_NE(out.str().find("#[Total count = 4]"), std::string::npos);
}

TEST(BenchReport, RunWithoutSuccessesGivesAValidReport) {
  Tally tally;
  tally.failed("connection", 5);
  tally.finish(Schedule(Clock::time_point(1s), 0s, 1s, std::nullopt));
  const RunReport run = summarise(tally, Settings{});
  EXPECT_EQ(run.requests_per_second, 0);
  EXPECT_EQ(run.errors, 5U);
  EXPECT_NO_THROW((void)json::parse(to_json(report_of({run}), nullptr)));
}

TEST(BenchReport, TableKeepsTo80Columns) {
  RunReport wide = run_of(16384, 100us, 12345678);
  wide.requests_per_second = 123456789.1;
  wide.latency_us = {1, 1234567.8, 12345678.9, 99999999.9, 999999999.0, 1099511627.8};
  RunReport open = wide;
  open.rate = 9999999.5;
  open.late_sends = 12345678;
  open.send_delay_max_us = 99999999;
  for (const RunReport& run : {wide, open}) {
    std::ostringstream out;
    print_table(out, report_of({run}));
    print_comparison(out, *compare("old.json", report_of({run}), report_of({run})));
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST_F(LoadReport, ReadsBackUnchanged) {
  Report report = report_of({run_of(1, 100us), run_of(4, 200us, 2)});
  report.runs[1].rate = 12.5;
  const auto back = read(to_json(report, nullptr));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->model, "lenet5");
  EXPECT_EQ(back->input_bytes, 3136U);
  ASSERT_EQ(back->runs.size(), 2U);
  EXPECT_EQ(back->runs[1].rate, 12.5);
  EXPECT_EQ(back->runs[1].errors, 2U);
  EXPECT_EQ(back->runs[1].errors_by_status.at("429"), 2U);
  EXPECT_NEAR(back->runs[0].latency_us.p50, report.runs[0].latency_us.p50, 0.001);
  EXPECT_EQ(back->runs[0].requests, 100U);
}

TEST_F(LoadReport, RefusesAFileOfAnotherSchemaAndNamesTheSchemaNumber) {
  std::string text = to_json(report_of({run_of(1, 100us)}), nullptr);
  text.replace(text.find("\"schema\":1"), 10, "\"schema\":2");
  const auto refused = read(text);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message().find("schema 2"), std::string::npos) << refused.error().message();
}

TEST_F(LoadReport, RefusesFilesThatAreNotReports) {
  const std::string good = to_json(report_of({run_of(1, 100us)}), nullptr);
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("{\"schema\":\"1\"}"), std::string("{\"schema\":1}"),
        std::string("{\"schema\":1,\"runs\":7}"), good.substr(0, good.size() / 2)}) {
    const auto refused = read(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput) << text;
    EXPECT_NE(refused.error().message().find("old.json"), std::string::npos) << refused.error().message();
  }
  // In a valid report, replace one number of a run by a string.
  for (const char* key : {"connections", "requests", "requests_per_second", "errors", "late_sends", "p50"}) {
    json::value value = json::parse(good);
    json::object& run = value.at("runs").at(0).as_object();
    (run.contains(key) ? run : run.at("latency_us").as_object())[key] = "many";
    EXPECT_FALSE(read(json::serialize(value)).ok()) << key;
  }
}

TEST(BenchCompare, PairsRunsOfEqualLoadInAnyOrder) {
  const Report then = report_of({run_of(8, 100us), run_of(1, 40us)});
  const Report now = report_of({run_of(1, 20us), run_of(8, 150us)});
  const auto both = compare("old.json", then, now);
  ASSERT_TRUE(both.ok()) << both.error().message();
  const json::value value = json::parse(to_json(now, &*both));
  const json::value& runs = value.at("comparison").at("runs");
  EXPECT_NEAR(runs.at(0).at("ratio").at("latency_us").at("p50").to_number<double>(), 0.5, 0.01);
  EXPECT_NEAR(runs.at(1).at("ratio").at("latency_us").at("p50").to_number<double>(), 1.5, 0.02);
  EXPECT_EQ(runs.at(1).at("then").at("connections").to_number<int>(), 8);
  EXPECT_TRUE(both->notes.empty());
}

TEST(BenchCompare, RefusesALoadSettingThatTheOldReportLacks) {
  Report now = report_of({run_of(1, 20us)});
  const Report then = report_of({run_of(8, 100us)});
  const auto refused = compare("old.json", then, now);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("8 connections"), std::string::npos) << refused.error().message();
  now = report_of({run_of(8, 20us)});
  now.runs[0].rate = 100;
  EXPECT_FALSE(compare("old.json", then, now).ok());
}

TEST(BenchCompare, NotesADifferentModelAndNeverDividesByZero) {
  Report then = report_of({run_of(1, 20us)});
  then.model = "other";
  then.runs[0].latency_us = {};
  then.runs[0].requests_per_second = 0;
  const Report now = report_of({run_of(1, 20us)});
  const auto both = compare("old.json", then, now);
  ASSERT_TRUE(both.ok());
  ASSERT_EQ(both->notes.size(), 1U);
  EXPECT_NE(both->notes[0].find("other"), std::string::npos);
  const json::value value = json::parse(to_json(now, &*both));
  EXPECT_TRUE(value.at("comparison").at("runs").at(0).at("ratio").at("requests_per_second").is_null());
}

}  // namespace
}  // namespace millrace::load::test_report
