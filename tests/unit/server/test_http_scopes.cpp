// Tests every route of the server with every scope. The scopes are written here a second time by hand, so that the test
// finds a mistake in the server's table.

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "http_server_fixture.hpp"
#include "server/http/routes/api.hpp"

namespace millrace::server::http::test_http_scopes {
namespace {

using auth::Scope;

struct Expected {
  std::string_view pattern;
  Scope scope;
  bool is_post;
  std::vector<std::string> targets;
};

const std::string kModel = "/v2/models/small", kVersion = kModel + "/versions/1";
const std::string kRepository = "/v2/repository/models/small", kAbout = "/v2/millrace/models/small";

const std::vector<Expected> kExpected = {
    {"/v2", Scope::kRead, false, {"/v2"}},
    {"/v2/health/live", Scope::kNone, false, {"/v2/health/live"}},
    {"/v2/health/ready", Scope::kNone, false, {"/v2/health/ready"}},
    {"/v2/models/stats", Scope::kRead, false, {"/v2/models/stats"}},
    {"/v2/models/{model}[/versions/{version}]", Scope::kRead, false, {kModel, kVersion}},
    {"/v2/models/{model}[/versions/{version}]/ready", Scope::kRead, false, {kModel + "/ready"}},
    {"/v2/models/{model}[/versions/{version}]/config", Scope::kRead, false, {kModel + "/config"}},
    {"/v2/models/{model}[/versions/{version}]/stats", Scope::kRead, false, {kModel + "/stats"}},
    {"/v2/models/{model}[/versions/{version}]/infer",
     Scope::kInfer,
     true,
     {kModel + "/infer", kVersion + "/infer"}},
    {"/v2/models/{model}[/versions/{version}]/generate", Scope::kNone, true, {kModel + "/generate"}},
    {"/v2/models/{model}[/versions/{version}]/generate_stream",
     Scope::kNone,
     true,
     {kModel + "/generate_stream"}},
    {"/v2/systemsharedmemory/**", Scope::kNone, true, {"/v2/systemsharedmemory/status"}},
    {"/v2/cudasharedmemory/**", Scope::kNone, true, {"/v2/cudasharedmemory/status"}},
    {"/v2/repository/index", Scope::kRead, true, {"/v2/repository/index"}},
    {"/v2/repository/models/{model}/load", Scope::kAdmin, true, {kRepository + "/load"}},
    {"/v2/repository/models/{model}/unload", Scope::kAdmin, true, {kRepository + "/unload"}},
    {"/v2/millrace/status", Scope::kRead, false, {"/v2/millrace/status"}},
    {"/v2/millrace/partitions", Scope::kRead, false, {"/v2/millrace/partitions"}},
    {"/v2/millrace/deployment", Scope::kRead, false, {"/v2/millrace/deployment"}},
    {"/v2/millrace/trace", Scope::kRead, false, {"/v2/millrace/trace"}},
    {"/v2/millrace/errors", Scope::kRead, false, {"/v2/millrace/errors"}},
    {"/v2/millrace/cables", Scope::kAdmin, true, {"/v2/millrace/cables"}},
    {"/v2/millrace/models/{model}[/versions/{version}]",
     Scope::kRead,
     false,
     {kAbout, kAbout + "/versions/1"}},
    {"/metrics", Scope::kRead, false, {"/metrics"}},
    {"/", Scope::kNone, false, {"/"}},
    {"/console/{file}", Scope::kNone, false, {"/console/main.js"}},
    {"", Scope::kNone, false, {"/nothing/here"}},
};

TEST(Routes, EveryRouteHasAnExpectedScopeInTheTest) {
  std::set<std::string_view> expected, patterns;
  for (const Expected& one : kExpected)
    if (!one.pattern.empty()) expected.insert(one.pattern);
  for (const Route& route : routes()) patterns.insert(route.pattern);
  EXPECT_EQ(patterns, expected) << "decide the scope of a new route in kExpected too";
}

TEST_F(HttpServer, AllowsEachRouteOnlyToItsScopeAndHigherScopes) {
  struct Client {
    std::string token;
    Scope scope;
  };
  const std::array<Client, 5> clients = {{{"", Scope::kNone},
                                          {"unknown-token-0123456789", Scope::kNone},
                                          {"reader-token-0123456789", Scope::kRead},
                                          {"asker-token-0123456789", Scope::kInfer},
                                          {"admin-token-0123456789", Scope::kAdmin}}};
  auto tokens = auth::Tokens::parse(
      "r read reader-token-0123456789\ni infer asker-token-0123456789\na admin admin-token-0123456789\n",
      "tokens");
  ASSERT_TRUE(tokens.ok()) << tokens.error().message();
  guard.replace(std::make_shared<const auth::Tokens>(std::move(tokens).value()));
  start();
  for (const Expected& route : kExpected) {
    for (const std::string& target : route.targets) {
      const FoundRoute found = find_route(target);
      ASSERT_EQ(found.route == nullptr ? "" : found.route->pattern, route.pattern) << target;
      for (const Client& one : clients) {
        RawClient to = client();
        const std::string header = one.token.empty() ? "" : "Authorization: Bearer " + one.token + "\r\n";
        const int status = to.exchange(route.is_post ? post(target, "", header) : get(target, header)).status;
        const std::string what = target + " with token '" + one.token + "' answers " + std::to_string(status);
        ASSERT_GE(status, 200) << what;
        if (one.scope >= route.scope)
          EXPECT_TRUE(status != 401 && status != 403) << what;
        else
          EXPECT_EQ(status, one.scope == Scope::kNone ? 401 : 403) << what;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::server::http::test_http_scopes
