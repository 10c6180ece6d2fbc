// Tests which routes match a request's target, how text that is not UTF-8 becomes JSON, and limits.

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "runtime/base/file.hpp"
#include "server/http/json_text.hpp"
#include "server/http/limits.hpp"
#include "server/http/routes/api.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::server::http::test_http_routes {
namespace {

runtime::plan::ModelInfo model_of(std::vector<std::int64_t> shape) {
  runtime::plan::ModelInfo model;
  model.inputs = {{"x", "FP32", std::move(shape)}};
  model.outputs = {{"y", "FP32", {1, 4}}};
  return model;
}

TEST(Routes, MatchingDecodesNamesAndIgnoresQueryStrings) {
  struct Case {
    std::string_view target, pattern, model, version;
  };
  const Case cases[] = {
      {"/v2", "/v2", "", ""},
      {"/v2/", "/v2", "", ""},
      {"http://host:8000/v2", "/v2", "", ""},
      {"/v2/health/live?verbose", "/v2/health/live", "", ""},
      {"/v2/health/ready", "/v2/health/ready", "", ""},
      {"/v2/models/m", "/v2/models/{model}[/versions/{version}]", "m", ""},
      {"/v2/models/m/", "/v2/models/{model}[/versions/{version}]", "m", ""},
      {"/v2/models/a%20b%2fc/versions/12", "/v2/models/{model}[/versions/{version}]", "a b/c", "12"},
      {"/v2/models/m/versions/1/ready", "/v2/models/{model}[/versions/{version}]/ready", "m", "1"},
      {"/v2/models/m/config", "/v2/models/{model}[/versions/{version}]/config", "m", ""},
      {"/v2/models/m/infer?x=/v2", "/v2/models/{model}[/versions/{version}]/infer", "m", ""},
      {"/v2/models/versions/versions/1/infer", "/v2/models/{model}[/versions/{version}]/infer", "versions",
       "1"},
      {"/v2/models/m/stats", "/v2/models/{model}[/versions/{version}]/stats", "m", ""},
      {"/v2/models/stats", "/v2/models/stats", "", ""},
      {"/v2/repository/index", "/v2/repository/index", "", ""},
      {"/v2/repository/models/m/load", "/v2/repository/models/{model}/load", "m", ""},
      {"/v2/repository/models/m/unload", "/v2/repository/models/{model}/unload", "m", ""},
      {"/metrics", "/metrics", "", ""},
      {"/v2/millrace/status", "/v2/millrace/status", "", ""},
      {"/v2/millrace/models/m", "/v2/millrace/models/{model}[/versions/{version}]", "m", ""},
      {"/v2/systemsharedmemory/status", "/v2/systemsharedmemory/**", "", ""},
      {"/v2/systemsharedmemory/region/r/register", "/v2/systemsharedmemory/**", "", ""},
      {"/v2/cudasharedmemory/region/r/unregister", "/v2/cudasharedmemory/**", "", ""},
      {"/v2/models/m/generate", "/v2/models/{model}[/versions/{version}]/generate", "m", ""},
      {"/v2/models/m/versions/2/generate_stream", "/v2/models/{model}[/versions/{version}]/generate_stream",
       "m", "2"},
      {"/", "/", "", ""},
      {"/console/main.js", "/console/{file}", "", ""},
  };
  for (const Case& one : cases) {
    const FoundRoute found = find_route(one.target);
    ASSERT_NE(found.route, nullptr) << one.target;
    EXPECT_EQ(found.route->pattern, one.pattern) << one.target;
    EXPECT_EQ(found.names.model, one.model) << one.target;
    EXPECT_EQ(found.names.version, one.version) << one.target;
  }
  EXPECT_EQ(find_route("/console/main.js").names.file, "main.js");
}

TEST(Routes, UnknownTargetsMatchNoRoute) {
  for (const std::string_view unknown : {"",
                                         "v2",
                                         "/v1",
                                         "/v2x",
                                         "/v2/sharedmemory/status",
                                         "/v2/models/m/generate/more",
                                         "/v2/models",
                                         "/v2/models//infer",
                                         "/v2/models/m/versions",
                                         "/v2/models/m/versions//infer",
                                         "/v2/models/m/infer/more",
                                         "/v2/models/m%/infer",
                                         "/v2/models/m%zz",
                                         "/v2/models/m%00",
                                         "/v2//models/m",
                                         "/metrics/x",
                                         "/v2/health",
                                         "/console",
                                         "/console/",
                                         "/console/a/b",
                                         "/v2/a/b/c/d/e/f/g/h/i",
                                         "ftp://host/v2"})
    EXPECT_EQ(find_route(unknown).route, nullptr) << unknown;
}

TEST(Routes, ReadmeListsEveryRoute) {
  auto page = read_text_file(std::string(tests::source_dir()) + "/server/http/README.md");
  ASSERT_TRUE(page.ok()) << page.error().message();
  for (const Route& route : routes()) {
    const std::string method = route.method == Method::kGet    ? "GET"
                               : route.method == Method::kPost ? "POST"
                                                               : "any";
    const std::string row = "| `" + std::string(route.pattern) + "` | " + method + " | " +
                            std::string(to_string(route.scope)) + " |";
    EXPECT_NE(page->find(row), std::string::npos) << "server/http/README.md lacks the row " << row;
  }
}

TEST(Routes, NamesPointIntoTheTargetUnlessTheTargetIsPercentEncoded) {
  const std::string target = "/v2/models/a-rather.long_name-of-a-model/versions/12/infer";
  const FoundRoute plain = find_route(target);
  EXPECT_EQ(plain.names.model, "a-rather.long_name-of-a-model");
  EXPECT_EQ(plain.names.model.data(), target.data() + std::strlen("/v2/models/")) << "no copy was made";
  EXPECT_EQ(plain.decoded, nullptr);

  FoundRoute encoded = find_route("/v2/models/a%2Drather.long%20name-of-a-model/versions/1%32/infer");
  const FoundRoute moved = std::move(encoded);
  EXPECT_EQ(moved.names.model, "a-rather.long name-of-a-model") << "its memory moves with it";
  EXPECT_EQ(moved.names.version, "12");
}

TEST(JsonText, ReplacesInvalidUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "plain"},
      {"\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E", "\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E"},
      {"\xFF\xFE", bad + bad},
      {"a\x80z", "a" + bad + "z"},
      {"\xC0\xAF", bad + bad},                      // an overlong encoding
      {"\xE0\x80\xAF", bad + bad + bad},            // an overlong encoding
      {"\xED\xA0\x80", bad + bad + bad},            // a surrogate
      {"\xF4\x90\x80\x80", bad + bad + bad + bad},  // a code point above U+10FFFF
      {"\xF5\x80", bad + bad},
      {"\xE2\x82", bad},  // an incomplete sequence
      {"\xE2\x82(", bad + "("},
      {"\xF0\x9D\x84", bad},
      {"\x01\"\\\n", R"(\u0001\"\\\n)"},
  };
  for (const auto& [text, expected] : cases) {
    std::string out;
    append_json_string(out, text);
    EXPECT_EQ(out, "\"" + expected + "\"") << testing::PrintToString(text);
  }
}

TEST(JsonText, TruncatesOnlyBetweenUtf8Characters) {
  const std::string text = "ab\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9Ez";
  const std::size_t expected[] = {0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11, 12, 12};
  for (std::size_t bytes = 0; bytes < std::size(expected); ++bytes)
    EXPECT_EQ(clipped(text, bytes).size(), expected[bytes]) << bytes;
  EXPECT_EQ(clipped("\x80\x80\x80\x80\x80", 3).size(), 3U) << "not UTF-8 at all";
}

TEST(Limits, ConnectionLimitLeavesFileDescriptorsForCardsAndRefusedConnections) {
  EXPECT_EQ(connections_within(16'384, 1'048'576, 3).value(), 16'384U);
  EXPECT_EQ(connections_within(16'384, 1024, 3).value(), 1024U - 64U - kRefusedAtOnce - 48U);
  EXPECT_EQ(connections_within(16'384, 177, 3).value(), 1U);
  EXPECT_EQ(connections_within(100, ~std::uint64_t{0}, 3).value(), 100U) << "no limit at all";
  const auto none = connections_within(16'384, 176, 3);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(none.error().message().find("ulimit -n"), std::string::npos);
}

TEST(Limits, DefaultBodyLimitAllowsAnyRequestForTheModel) {
  EXPECT_EQ(body_bytes_for(model_of({1, 2, 2})), 1U << 20U) << "small models";
  EXPECT_EQ(body_bytes_for(model_of({1, 3, 224, 224})), 3U * 224 * 224 * 32 + (64U << 10U));
  EXPECT_GT(body_bytes_for(model_of({1, std::int64_t{1} << 62})), 1U << 30U) << "no overflow";
}

}  // namespace
}  // namespace millrace::server::http::test_http_routes
