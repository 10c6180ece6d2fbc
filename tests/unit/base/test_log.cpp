// Tests log lines in both formats, text and JSON.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

#include "runtime/base/log.hpp"

namespace millrace::test_log {
namespace {

namespace json = boost::json;

class Log : public testing::Test {
 protected:
  void TearDown() override { log::configure(log::Level::kOff, false); }

  /// Logs a line with these fields and returns what is written to standard error.
  static std::string written(bool as_json, std::initializer_list<log::Field> fields) {
    log::configure(log::Level::kInfo, as_json);
    testing::internal::CaptureStderr();
    log::write(log::Level::kInfo, "http", "what \"happened\"", fields);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(Log, FieldsAreMembersOfTheJsonObject) {
  const std::string line = written(true, {{"request", "0-7"},
                                          {"target", "/v2/\"\\\n\xff"},
                                          {"status", std::uint64_t{503}},
                                          {"duration_ms", 0.25},
                                          {"model", ""},
                                          {"waited_ms", std::numeric_limits<double>::quiet_NaN()}});
  const json::object object = json::parse(line).as_object();
  EXPECT_EQ(object.at("level").as_string(), "info");
  EXPECT_EQ(object.at("component").as_string(), "http");
  EXPECT_EQ(object.at("message").as_string(), "what \"happened\"");
  EXPECT_EQ(object.at("request").as_string(), "0-7");
  EXPECT_EQ(object.at("target").as_string(), "/v2/\"\\\n\xc3\xbf") << "invalid UTF-8 is read as Latin-1";
  EXPECT_EQ(object.at("status").to_number<int>(), 503);
  EXPECT_EQ(object.at("duration_ms").to_number<double>(), 0.25);
  EXPECT_EQ(object.size(), 8U) << "empty and NaN fields are left out: " << line;
}

TEST_F(Log, TextFormatAppendsTheFieldsToTheLine) {
  const std::string line = written(false, {{"request", "0-7"},
                                           {"from", "a Unix socket"},
                                           {"target", "/\na=b"},
                                           {"status", std::uint64_t{503}},
                                           {"duration_ms", 0.25},
                                           {"model", ""}});
  EXPECT_TRUE(line.find(R"( http: what "happened" request=0-7 from="a Unix socket" target=")") !=
              std::string::npos)
      << line;
  EXPECT_TRUE(line.ends_with(" status=503 duration_ms=0.25\n")) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST_F(Log, LinesBelowTheLevelAreNotWritten) {
  log::configure(log::Level::kInfo, false);
  testing::internal::CaptureStderr();
  log::write(log::Level::kDebug, "http", "nothing", {{"status", std::uint64_t{200}}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace millrace::test_log
