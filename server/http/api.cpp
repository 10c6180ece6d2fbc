#include "server/http/api.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "server/console/console.hpp"
#include "server/http/documents.hpp"
#include "server/http/json_text.hpp"
#include "server/http/pipeline_documents.hpp"
#include "server/http/repository_routes.hpp"

namespace millrace::server::http {
namespace {

using models::Snapshot;

Response json(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

Response unknown_model(std::string_view model, std::string_view version, const Snapshot& snapshot) {
  const auto* versions = snapshot.versions(model);
  const std::string name(model);
  if (versions == nullptr)
    return error_response(404,
                          "unknown model '" + name + "'; POST /v2/repository/index lists what is served");
  std::string served;
  for (const auto& [number, ignored] : *versions) served += (served.empty() ? "" : ", ") + number;
  return error_response(
      404, "model '" + name + "' has no version '" + std::string(version) + "'; it has " + served);
}

/// A health answer: its own key, and the reason where it is not well.
Response health(std::string body, bool good, std::string_view reason,
                std::chrono::milliseconds retry_after = std::chrono::seconds(1)) {
  Response response;
  response.status = good ? 200 : 503;
  response.body = std::move(body);
  if (!good) {
    response.body.pop_back();
    response.body += ",\"error\":";
    append_json_string(response.body, reason);
    response.body += '}';
    response.retry_after_seconds = retry_seconds(retry_after);
  }
  return response;
}

/// Waits for no card: a health check must be answered at once while one hangs.
bool is_ready(const models::Model& model) {
  return model.state() == models::ModelState::kReady && model.pipeline().ready();
}

Response model_ready(const models::Model& model, bool leaving) {
  const bool ready = !leaving && is_ready(model);
  std::string body = "{\"name\":";
  append_json_string(body, model.name());
  body += std::string(",\"ready\":") + (ready ? "true" : "false") + "}";
  return health(std::move(body), ready, leaving ? "the server is draining" : "a card of the model is not up",
                leaving || ready ? std::chrono::seconds(1) : model.pipeline().retry_after());
}

/// "" is the page itself.
Response console_file(const std::string& name) {
  const auto file = console::find(name.empty() ? "index.html" : name);
  if (!file) return error_response(404, "no such route: /console/" + name.substr(0, 200));
  Response response;
  response.content_type = file->content_type;
  // Nobody may put the page into one of theirs and have its buttons pressed unseen.
  response.more_headers =
      "Content-Security-Policy: frame-ancestors 'none'\r\nX-Frame-Options: DENY\r\n"
      "X-Content-Type-Options: nosniff\r\n";
  response.binary.push_back(std::as_bytes(std::span(file->bytes)));
  return response;
}

/// The answer where a route leads nowhere, whatever the method.
std::optional<Response> leads_nowhere(const Request& request, RouteKind kind) {
  if (kind == RouteKind::kUnknown)
    return error_response(404, "no such route: " + std::string(request.target.substr(0, 200)));
  if (kind == RouteKind::kNotOffered)
    return error_response(
        501, "shared memory and generation are not offered: " + std::string(request.target.substr(0, 200)));
  return std::nullopt;
}

/// RFC 6750, 3: what a client must do to be let in.
Response unauthorised(unsigned status, std::string_view message, std::string_view challenge) {
  Response response = error_response(status, message);
  response.more_headers = "WWW-Authenticate: Bearer realm=\"millrace\"";
  response.more_headers.append(challenge).append("\r\n");
  return response;
}

/// Whether the name in a Host header can stand for nothing but this machine or an address: any other may be a
/// stranger's that points here for the while (DNS rebinding).
bool is_own_name(std::string_view host) {
  if (host.starts_with('[')) return true;
  host = host.substr(0, host.rfind(':'));
  return host == "localhost" || host.ends_with(".localhost") ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Whether a page of another host sent this: a browser says so of every page's POST.
bool from_another_host(const Request& request, std::string_view origin) {
  const auto scheme = origin.find("://");
  const std::string_view host = scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
  return !origin.empty() && (host != request.header("Host") || (request.gate.loopback && !is_own_name(host)));
}

Response wrong_method(RouteKind kind) {
  const bool post = method_of(kind) == Method::kPost;
  Response response = error_response(405, post ? "this route takes POST only" : "this route takes GET only");
  response.allow = post ? "POST" : "GET, HEAD";
  return response;
}

}  // namespace

Api::Api(const models::Registry& registry, metrics::Metrics& metrics, ApiOptions options)
    : registry_(registry),
      metrics_(metrics),
      options_(std::move(options)),
      default_timeout_(options_.default_timeout) {}

Api::Outcome Api::handle(const Request& request, Workspace& workspace,
                         runtime::pipeline::Clock::time_point arrival) const {
  workspace.admin.clear();
  if (request.method == Method::kPost)
    if (const auto target = plain_infer_target(request.target)) {
      if (auto no = refused(request, auth::Scope::kInfer, workspace)) return std::move(*no);
      return infer(request, *target, workspace, arrival);
    }
  if (request.method == Method::kOptions && allows(request.header("Origin"))) return preflight(request);
  const Route route = find_route(request.target);
  if (auto nowhere = leads_nowhere(request, route.kind)) return std::move(*nowhere);
  if (request.method != method_of(route.kind)) return wrong_method(route.kind);
  if (auto no = refused(request, scope_of(route.kind), workspace)) return std::move(*no);
  const Snapshot& snapshot = registry_.refresh(workspace.view);
  switch (route.kind) {
    case RouteKind::kInfer:
      return infer(request, {route.model, route.version}, workspace, arrival);
    case RouteKind::kServerMetadata:
      return json(server_metadata(
          options_.server_version,
          options_.repository != nullptr && options_.repository->mode() != models::RepositoryMode::kNone));
    case RouteKind::kServerLive:
      return json(R"({"live":true})");
    case RouteKind::kServerReady:
      return server_ready(snapshot);
    case RouteKind::kAllStatistics:
      return json(model_statistics(snapshot.all()));
    case RouteKind::kRepositoryIndex:
      return ControlJob{[this, ready = parse_index_request(request.body)] {
        if (!ready.ok()) return error_response(ready.error());
        return json(repository_index(options_.repository, *registry_.snapshot(), *ready));
      }};
    case RouteKind::kRepositoryLoad:
    case RouteKind::kRepositoryUnload:
      return change_repository(request, route);
    case RouteKind::kConsole:
      return console_file(route.model);
    case RouteKind::kPipelineStatus:
      return ControlJob{[this] { return json(pipeline_status(*registry_.snapshot())); }};
    case RouteKind::kPartitions:
      return ControlJob{[this] { return json(partition_status(*registry_.snapshot())); }};
    case RouteKind::kDeployment:
      return ControlJob{[this] { return json(deployments(*registry_.snapshot())); }};
    case RouteKind::kTrace:
      return ControlJob{[this] { return json(trace(*registry_.snapshot())); }};
    case RouteKind::kRecentErrors:
      return json(recent_errors(failures_.read()));
    case RouteKind::kMetrics:
      return ControlJob{[this] {
                          Response response = json(metrics_.serialise());
                          response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                          return response;
                        },
                        true};
    default:
      return about_model(route, snapshot);
  }
}

std::optional<Response> Api::refusal(const Request& request, Workspace& workspace) const {
  if (request.method == Method::kOptions) return std::nullopt;
  const Route route = find_route(request.target);
  if (auto nowhere = leads_nowhere(request, route.kind)) return nowhere;
  if (request.method != method_of(route.kind)) return wrong_method(route.kind);
  return refused(request, scope_of(route.kind), workspace);
}

std::optional<Response> Api::refused(const Request& request, auth::Scope scope, Workspace& workspace) const {
  using auth::Scope;
  if (scope == Scope::kNone) return std::nullopt;
  const auth::Tokens* tokens = options_.guard == nullptr ? nullptr : options_.guard->refresh(workspace.guard);
  if (tokens == nullptr && scope != Scope::kAdmin) return std::nullopt;
  if (scope == Scope::kAdmin && !request.gate.admin)
    return error_response(403, "this route is answered on the admin listener only");
  if (tokens != nullptr) {
    const std::string_view authorization = request.header("Authorization");
    const std::string wanted(to_string(scope));
    const auth::Holder* holder = tokens->find(authorization);
    if (holder == nullptr && authorization.empty())
      return unauthorised(
          401, "this route needs a token with the scope '" + wanted + "': Authorization: Bearer TOKEN", "");
    if (holder == nullptr)
      return unauthorised(401, "the token is not known here", ", error=\"invalid_token\"");
    if (holder->scope < scope)
      return unauthorised(403, "the token of '" + holder->name + "' lacks the scope '" + wanted + "'",
                          ", error=\"insufficient_scope\", scope=\"" + wanted + "\"");
    if (scope == Scope::kAdmin) workspace.admin = "'" + holder->name + "'";
    return std::nullopt;
  }
  if (!request.gate.trusted)
    return error_response(403,
                          "admin routes need tokens where other machines reach this listener (http.tokens)");
  if (const auto origin = request.header("Origin"); from_another_host(request, origin) && !allows(origin))
    return error_response(403, "a page of " + std::string(origin.substr(0, 200)) +
                                   " may not use admin routes here (http.cors_origins)");
  workspace.admin = "without a token";
  return std::nullopt;
}

bool Api::allows(std::string_view origin) const {
  if (origin.empty()) return false;
  for (const auto& allowed : options_.cors_origins)
    if (allowed == "*" || allowed == origin) return true;
  return false;
}

std::string Api::cors_headers(const Request& request) const {
  if (options_.cors_origins.empty()) return {};
  const std::string_view origin = request.header("Origin");
  if (!allows(origin)) return "Vary: Origin\r\n";
  return "Access-Control-Allow-Origin: " + std::string(origin) +
         "\r\nAccess-Control-Expose-Headers: Inference-Header-Content-Length, Retry-After, X-Request-Id"
         "\r\nVary: Origin\r\n";
}

/// What a browser asks before it lets a page send (Fetch standard, 3.2.2).
Api::Outcome Api::preflight(const Request& request) const {
  if (auto nowhere = leads_nowhere(request, find_route(request.target).kind)) return std::move(*nowhere);
  Response response;
  response.more_headers =
      "Access-Control-Allow-Methods: GET, POST\r\n"
      "Access-Control-Allow-Headers: Authorization, Content-Type, Content-Encoding, "
      "Inference-Header-Content-Length, X-Request-Id\r\nAccess-Control-Max-Age: 600\r\n";
  return response;
}

std::optional<Api::NotReady> Api::not_ready(const Snapshot& snapshot) const {
  NotReady why;
  if (leaving()) why.reason = "the server is draining";
  if (snapshot.empty()) why.reason = "no model is served";
  for (const auto& model : snapshot.all()) {
    if (is_ready(*model)) continue;
    why.reason = "a card of model '" + model->name() + "' is not up";
    why.retry_after = std::max(why.retry_after, model->pipeline().retry_after());
  }
  if (why.reason.empty()) return std::nullopt;
  return why;
}

Response Api::server_ready(const Snapshot& snapshot) const {
  const auto why = not_ready(snapshot);
  if (!why) return health(R"({"ready":true})", true, "");
  return health(R"({"ready":false})", false, why->reason, why->retry_after);
}

Api::Outcome Api::change_repository(const Request& request, const Route& route) const {
  if (options_.repository == nullptr)
    return error_response(
        501, "models are fixed at start here (serve --deployment); loading and unloading is not offered");
  if (leaving()) return error_response(Error(ErrorCode::kUnavailable, "the server is draining"));
  auto parsed = parse_repository_request(route.kind, request.body);
  if (!parsed.ok()) return error_response(parsed.error());
  return DeferredJob{[this, route, wanted = std::move(*parsed)](std::function<void(Response)> answer) {
    handle_repository(*options_.repository, route, wanted, answer);
  }};
}

/// Of a model that is not there: not yet, or not at all.
Response Api::not_served(std::string_view model, std::string_view version, const Snapshot& snapshot) const {
  if (options_.repository != nullptr)
    if (const auto far = options_.repository->loading(model, version))
      return error_response(
          Error(ErrorCode::kUnavailable, "model '" + std::string(model) + "' is being loaded: " + *far));
  return unknown_model(model, version, snapshot);
}

Api::Outcome Api::about_model(const Route& route, const Snapshot& snapshot) const {
  std::shared_ptr<models::Model> model = snapshot.find(route.model, route.version);
  if (model == nullptr) return not_served(route.model, route.version, snapshot);
  switch (route.kind) {
    case RouteKind::kModelMetadata:
      return json(model_metadata(*model, *snapshot.versions(route.model)));
    case RouteKind::kModelConfig:
      return json(model_config(*model));
    case RouteKind::kModelStatistics:
      return json(model_statistics({std::move(model)}));
    case RouteKind::kModelDescription:
      return json(model_description(*model));
    case RouteKind::kModelReady:
      return model_ready(*model, leaving());
    default:
      return error_response(404, "no such route");
  }
}

// Allocates nothing once the workspace is warm, as far as the request is binary.
Api::Outcome Api::infer(const Request& request, const InferTarget& target, Workspace& workspace,
                        runtime::pipeline::Clock::time_point arrival) const {
  const Snapshot& snapshot = registry_.refresh(workspace.view);
  std::shared_ptr<models::Model> model = snapshot.find(target.model, target.version);
  if (model == nullptr) return not_served(target.model, target.version, snapshot);
  const auto refused = [&](const Error& error) {
    model->refused(metrics::Transport::kHttp, error.code());
    return error_response(error);
  };
  if (draining()) return refused(Error(ErrorCode::kUnavailable, "the server is draining"));
  InferencePool::Lease inference = workspace.inferences.take();
  if (const Status parsed = parse_infer_request(model->info(), request.body, request.inference_header_length,
                                                inference->request(), model->quantised());
      !parsed.ok())
    return refused(parsed.error());
  const auto timeout =
      inference->request().timeout.value_or(default_timeout_.load(std::memory_order_relaxed));
  inference->prepare(std::move(model), target.version.empty(), request.client, arrival, arrival + timeout);
  return inference;
}

}  // namespace millrace::server::http
