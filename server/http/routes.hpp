// Which route a target names. Pure; the table is in README.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/auth/tokens.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

enum class RouteKind {
  kUnknown,
  kServerMetadata,
  kServerLive,
  kServerReady,
  kModelMetadata,
  kModelReady,
  kModelConfig,
  kModelStatistics,
  kAllStatistics,
  kInfer,
  kRepositoryIndex,
  kRepositoryLoad,
  kRepositoryUnload,
  kMetrics,
  kPipelineStatus,
  kModelDescription,
  kPartitions,
  kDeployment,
  kTrace,
  kRecentErrors,
  kConsole,     // the page and what belongs to it
  kNotOffered,  // of the protocol's extensions: shared memory, generation
};

struct Route {
  RouteKind kind = RouteKind::kUnknown;
  std::string model;    // percent-decoded; empty where the route names none; kConsole: the file
  std::string version;  // empty: the newest
};

/// The route of a request's target; the query string is ignored, and one slash at the end, and the
/// host of a target in absolute form.
Route find_route(std::string_view target);

/// What nearly every request is for: /v2/models/NAME[/versions/VERSION]/infer in plain letters. Views into
/// `target`; allocates nothing. Nothing for all else, which find_route() reads.
struct InferTarget {
  std::string_view model, version;  // version empty: the newest
};
std::optional<InferTarget> plain_infer_target(std::string_view target);

/// What a client must be allowed for a route.
auth::Scope scope_of(RouteKind kind);

/// The one method a route answers to; of kUnknown and kNotOffered any.
Method method_of(RouteKind kind);

}  // namespace millrace::server::http
