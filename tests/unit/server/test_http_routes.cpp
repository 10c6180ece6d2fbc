// What a request's target names, text that is not UTF-8, and how much is taken.

#include <gtest/gtest.h>

#include "server/http/json_text.hpp"
#include "server/http/limits.hpp"
#include "server/http/routes.hpp"

namespace millrace::server::http {
namespace {

runtime::plan::ModelInfo model_of(std::vector<std::int64_t> shape) {
  runtime::plan::ModelInfo model;
  model.inputs = {{"x", "FP32", std::move(shape)}};
  model.outputs = {{"y", "FP32", {1, 4}}};
  return model;
}

TEST(Routes, are_found_with_names_decoded_and_queries_ignored) {
  struct Case {
    std::string_view target;
    RouteKind kind;
    std::string_view model, version;
  };
  const Case cases[] = {
      {"/v2", RouteKind::kServerMetadata, "", ""},
      {"/v2/", RouteKind::kServerMetadata, "", ""},
      {"http://host:8000/v2", RouteKind::kServerMetadata, "", ""},
      {"/v2/health/live?verbose", RouteKind::kServerLive, "", ""},
      {"/v2/health/ready", RouteKind::kServerReady, "", ""},
      {"/v2/models/m", RouteKind::kModelMetadata, "m", ""},
      {"/v2/models/m/", RouteKind::kModelMetadata, "m", ""},
      {"/v2/models/a%20b%2fc/versions/12", RouteKind::kModelMetadata, "a b/c", "12"},
      {"/v2/models/m/versions/1/ready", RouteKind::kModelReady, "m", "1"},
      {"/v2/models/m/config", RouteKind::kModelConfig, "m", ""},
      {"/v2/models/m/infer?x=/v2", RouteKind::kInfer, "m", ""},
      {"/v2/models/versions/versions/1/infer", RouteKind::kInfer, "versions", "1"},
      {"/v2/models/m/stats", RouteKind::kModelStatistics, "m", ""},
      {"/v2/models/stats", RouteKind::kAllStatistics, "", ""},
      {"/v2/repository/index", RouteKind::kRepositoryIndex, "", ""},
      {"/v2/repository/models/m/load", RouteKind::kRepositoryLoad, "m", ""},
      {"/v2/repository/models/m/unload", RouteKind::kRepositoryUnload, "m", ""},
      {"/metrics", RouteKind::kMetrics, "", ""},
      {"/v2/millrace/status", RouteKind::kPipelineStatus, "", ""},
      {"/v2/millrace/models/m", RouteKind::kModelDescription, "m", ""},
      {"/v2/systemsharedmemory/status", RouteKind::kNotOffered, "", ""},
      {"/v2/systemsharedmemory/region/r/register", RouteKind::kNotOffered, "", ""},
      {"/v2/cudasharedmemory/region/r/unregister", RouteKind::kNotOffered, "", ""},
      {"/v2/models/m/generate", RouteKind::kNotOffered, "m", ""},
      {"/v2/models/m/versions/2/generate_stream", RouteKind::kNotOffered, "m", "2"},
  };
  for (const Case& one : cases) {
    const Route route = find_route(one.target);
    EXPECT_EQ(route.kind, one.kind) << one.target;
    EXPECT_EQ(route.model, one.model) << one.target;
    EXPECT_EQ(route.version, one.version) << one.target;
  }
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
    EXPECT_EQ(find_route(unknown).kind, RouteKind::kUnknown) << unknown;
  EXPECT_EQ(find_route("/").kind, RouteKind::kConsole);
  EXPECT_EQ(find_route("/console/main.js").model, "main.js");
}

TEST(Routes, of_inferences_in_plain_letters_are_found_without_a_copy) {
  for (const auto& [target, model, version] :
       std::vector<std::tuple<std::string_view, std::string_view, std::string_view>>{
           {"/v2/models/m/infer", "m", ""},
           {"/v2/models/a-rather.long_name-of-a-model/versions/12/infer", "a-rather.long_name-of-a-model",
            "12"},
           {"/v2/models/versions/infer", "versions", ""}}) {
    const auto found = plain_infer_target(target);
    ASSERT_TRUE(found.has_value()) << target;
    EXPECT_EQ(found->model, model) << target;
    EXPECT_EQ(found->version, version) << target;
    EXPECT_EQ(find_route(target).kind, RouteKind::kInfer) << "both ways agree";
    EXPECT_EQ(find_route(target).model, model);
    EXPECT_EQ(find_route(target).version, version);
  }
  for (const std::string_view other :
       {"", "/v2/models/infer", "/v2/models//infer", "/v2/models/m/versions//infer",
        "/v2/models/m/versions/1/2/infer", "/v2/models/m/x/infer", "/v2/models/m%20/infer",
        "/v2/models/m/infer?x=y", "/v2/models/m/infer/", "/v2/models/m/ready", "/v2/models/infer/infer/infer",
        "http://h/v2/models/m/infer"})
    EXPECT_FALSE(plain_infer_target(other).has_value()) << other;
}

TEST(JsonText, replaces_what_is_not_utf8_and_leaves_the_rest) {
  const std::string bad = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "plain"},
      {"\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E", "\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E"},
      {"\xFF\xFE", bad + bad},
      {"a\x80z", "a" + bad + "z"},
      {"\xC0\xAF", bad + bad},                      // overlong
      {"\xE0\x80\xAF", bad + bad + bad},            // overlong
      {"\xED\xA0\x80", bad + bad + bad},            // a surrogate
      {"\xF4\x90\x80\x80", bad + bad + bad + bad},  // above U+10FFFF
      {"\xF5\x80", bad + bad},
      {"\xE2\x82", bad},  // ends early
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

TEST(JsonText, clips_before_a_character_and_never_inside) {
  const std::string text = "ab\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9Ez";
  const std::size_t expected[] = {0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11, 12, 12};
  for (std::size_t bytes = 0; bytes < std::size(expected); ++bytes)
    EXPECT_EQ(clipped(text, bytes).size(), expected[bytes]) << bytes;
  EXPECT_EQ(clipped("\x80\x80\x80\x80\x80", 3).size(), 3U) << "not UTF-8 at all";
}

TEST(Limits, leave_descriptors_for_the_process_refusals_and_cards) {
  EXPECT_EQ(connections_within(16'384, 1'048'576, 3).value(), 16'384U);
  EXPECT_EQ(connections_within(16'384, 1024, 3).value(), 1024U - 64U - kRefusedAtOnce - 48U);
  EXPECT_EQ(connections_within(16'384, 177, 3).value(), 1U);
  EXPECT_EQ(connections_within(100, ~std::uint64_t{0}, 3).value(), 100U) << "no limit at all";
  const auto none = connections_within(16'384, 176, 3);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(none.error().message().find("ulimit -n"), std::string::npos);
}

TEST(Limits, the_default_body_holds_any_request_for_the_model) {
  EXPECT_EQ(body_bytes_for(model_of({1, 2, 2})), 1U << 20U) << "small models";
  EXPECT_EQ(body_bytes_for(model_of({1, 3, 224, 224})), 3U * 224 * 224 * 32 + (64U << 10U));
  EXPECT_GT(body_bytes_for(model_of({1, std::int64_t{1} << 62})), 1U << 30U) << "no overflow";
}

}  // namespace
}  // namespace millrace::server::http
