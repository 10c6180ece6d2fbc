// Every route of the server against every scope. The scopes stand here once more, written by hand from the
// table in server/http/README.md, so that a slip in the server's own does not pass.

#include <array>
#include <string>
#include <vector>

#include "http_server_fixture.hpp"
#include "server/http/routes.hpp"

namespace millrace::server::http {
namespace {

using auth::Scope;

struct Expected {
  Scope scope;
  bool is_post;
  std::vector<std::string> targets;
};

/// A switch without a default: a new kind of route does not compile until its scope is decided here too.
Expected expected(RouteKind kind) {
  const std::string model = "/v2/models/small", repository = "/v2/repository/models/small";
  switch (kind) {
    case RouteKind::kUnknown:
      return {Scope::kNone, false, {"/nothing/here"}};
    case RouteKind::kNotOffered:
      return {Scope::kNone, true, {"/v2/systemsharedmemory/status"}};
    case RouteKind::kServerLive:
      return {Scope::kNone, false, {"/v2/health/live"}};
    case RouteKind::kServerReady:
      return {Scope::kNone, false, {"/v2/health/ready"}};
    case RouteKind::kConsole:
      return {Scope::kNone, false, {"/", "/console/main.js"}};
    case RouteKind::kServerMetadata:
      return {Scope::kRead, false, {"/v2"}};
    case RouteKind::kModelMetadata:
      return {Scope::kRead, false, {model, model + "/versions/1"}};
    case RouteKind::kModelReady:
      return {Scope::kRead, false, {model + "/ready"}};
    case RouteKind::kModelConfig:
      return {Scope::kRead, false, {model + "/config"}};
    case RouteKind::kModelStatistics:
      return {Scope::kRead, false, {model + "/stats"}};
    case RouteKind::kAllStatistics:
      return {Scope::kRead, false, {"/v2/models/stats"}};
    case RouteKind::kRepositoryIndex:
      return {Scope::kRead, true, {"/v2/repository/index"}};
    case RouteKind::kMetrics:
      return {Scope::kRead, false, {"/metrics"}};
    case RouteKind::kPipelineStatus:
      return {Scope::kRead, false, {"/v2/millrace/status"}};
    case RouteKind::kModelDescription:
      return {Scope::kRead, false, {"/v2/millrace/models/small"}};
    case RouteKind::kPartitions:
      return {Scope::kRead, false, {"/v2/millrace/partitions"}};
    case RouteKind::kDeployment:
      return {Scope::kRead, false, {"/v2/millrace/deployment"}};
    case RouteKind::kTrace:
      return {Scope::kRead, false, {"/v2/millrace/trace"}};
    case RouteKind::kRecentErrors:
      return {Scope::kRead, false, {"/v2/millrace/errors"}};
    case RouteKind::kInfer:
      return {Scope::kInfer, true, {model + "/infer", model + "/versions/1/infer"}};
    case RouteKind::kRepositoryLoad:
      return {Scope::kAdmin, true, {repository + "/load"}};
    case RouteKind::kRepositoryUnload:
      return {Scope::kAdmin, true, {repository + "/unload"}};
  }
  return {Scope::kAdmin, false, {}};
}

TEST_F(HttpServer, OpensEachRouteToItsScopeAndThoseAboveAndToNobodyElse) {
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
  for (int kind = 0; kind <= static_cast<int>(RouteKind::kNotOffered); ++kind) {
    const Expected route = expected(static_cast<RouteKind>(kind));
    ASSERT_FALSE(route.targets.empty()) << "route kind " << kind;
    for (const std::string& target : route.targets) {
      ASSERT_EQ(static_cast<int>(find_route(target).kind), kind) << target << " is another route";
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
}  // namespace millrace::server::http
