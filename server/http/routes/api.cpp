#include "server/http/routes/api.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "server/console/console.hpp"
#include "server/http/routes/documents.hpp"
#include "server/http/json_text.hpp"
#include "server/http/routes/pipeline_documents.hpp"
#include "server/http/routes/repository_routes.hpp"

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

Response readiness(const models::Model& model, bool leaving) {
  const bool ready = !leaving && is_ready(model);
  std::string body = "{\"name\":";
  append_json_string(body, model.name());
  body += std::string(",\"ready\":") + (ready ? "true" : "false") + "}";
  return health(std::move(body), ready, leaving ? "the server is draining" : "a card of the model is not up",
                leaving || ready ? std::chrono::seconds(1) : model.pipeline().retry_after());
}

Response console_response(const std::string& name) {
  const auto file = console::find(name);
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

Response not_offered_response(const Request& request) {
  return error_response(
      501, "shared memory and generation are not offered: " + std::string(request.target.substr(0, 200)));
}

Response no_such_route(const Request& request) {
  return error_response(404, "no such route: " + std::string(request.target.substr(0, 200)));
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

Response wrong_method(Method wanted) {
  const bool post = wanted == Method::kPost;
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

std::span<const Api::Route> Api::routes() {
  using enum Method;
  using auth::Scope;
  static constexpr Route kRoutes[] = {
      {kGet, "/v2", Scope::kRead, &Api::server_metadata},
      {kGet, "/v2/health/live", Scope::kNone, &Api::server_live},
      {kGet, "/v2/health/ready", Scope::kNone, &Api::server_ready},
      {kGet, "/v2/models/stats", Scope::kRead, &Api::all_statistics},
      {kGet, "/v2/models/{model}[/versions/{version}]", Scope::kRead, &Api::model_metadata},
      {kGet, "/v2/models/{model}[/versions/{version}]/ready", Scope::kRead, &Api::model_ready},
      {kGet, "/v2/models/{model}[/versions/{version}]/config", Scope::kRead, &Api::model_config},
      {kGet, "/v2/models/{model}[/versions/{version}]/stats", Scope::kRead, &Api::model_statistics},
      {kPost, "/v2/models/{model}[/versions/{version}]/infer", Scope::kInfer, &Api::infer},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate", Scope::kNone, &Api::not_offered},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate_stream", Scope::kNone, &Api::not_offered},
      {kOther, "/v2/systemsharedmemory/**", Scope::kNone, &Api::not_offered},
      {kOther, "/v2/cudasharedmemory/**", Scope::kNone, &Api::not_offered},
      {kPost, "/v2/repository/index", Scope::kRead, &Api::repository_index},
      {kPost, "/v2/repository/models/{model}/load", Scope::kAdmin, &Api::load},
      {kPost, "/v2/repository/models/{model}/unload", Scope::kAdmin, &Api::unload},
      {kGet, "/v2/millrace/status", Scope::kRead, &Api::pipeline_status},
      {kGet, "/v2/millrace/partitions", Scope::kRead, &Api::partitions},
      {kGet, "/v2/millrace/deployment", Scope::kRead, &Api::deployment},
      {kGet, "/v2/millrace/trace", Scope::kRead, &Api::trace},
      {kGet, "/v2/millrace/errors", Scope::kRead, &Api::recent_errors},
      {kGet, "/v2/millrace/models/{model}[/versions/{version}]", Scope::kRead, &Api::model_description},
      {kGet, "/metrics", Scope::kRead, &Api::metrics},
      // The page only: the routes that it asks have scopes of their own.
      {kGet, "/", Scope::kNone, &Api::console_page},
      {kGet, "/console/{file}", Scope::kNone, &Api::console_file},
  };
  return kRoutes;
}

Api::Found Api::find_route(std::string_view target) {
  if (const auto segments = segments_of(target))
    for (const Route& route : routes())
      if (auto names = match(route.pattern, *segments)) return {&route, std::move(*names)};
  return {};
}

Api::Outcome Api::handle(const Request& request, Workspace& workspace,
                         runtime::pipeline::Clock::time_point arrival) const {
  workspace.admin.clear();
  if (request.method == Method::kPost)
    if (const auto target = plain_infer_target(request.target)) {
      if (auto no = refused(request, auth::Scope::kInfer, workspace)) return std::move(*no);
      return infer(request, *target, workspace, arrival);
    }
  if (request.method == Method::kOptions && allows(request.header("Origin"))) return preflight(request);
  const Found found = find_route(request.target);
  if (auto no = refused(request, found, workspace)) return std::move(*no);
  const Snapshot& snapshot = registry_.refresh(workspace.view);
  return (this->*found.route->handler)({request, found.names, snapshot, workspace, arrival});
}

Api::Outcome Api::server_metadata(const Call&) const {
  const bool loads =
      options_.repository != nullptr && options_.repository->mode() != models::RepositoryMode::kNone;
  return json(http::server_metadata(options_.server_version, loads));
}

Api::Outcome Api::server_live(const Call&) const {
  return json(R"({"live":true})");
}

Api::Outcome Api::all_statistics(const Call& call) const {
  return json(http::model_statistics(call.snapshot.all()));
}

Api::Outcome Api::infer(const Call& call) const {
  return infer(call.request, {call.names.model, call.names.version}, call.workspace, call.arrival);
}

Api::Outcome Api::not_offered(const Call& call) const {
  return not_offered_response(call.request);
}

Api::Outcome Api::repository_index(const Call& call) const {
  return ControlJob{[this, ready = parse_index_request(call.request.body)] {
    if (!ready.ok()) return error_response(ready.error());
    return json(http::repository_index(options_.repository, *registry_.snapshot(), *ready));
  }};
}

Api::Outcome Api::load(const Call& call) const {
  return change_repository(call, RepositoryChange::kLoad);
}

Api::Outcome Api::unload(const Call& call) const {
  return change_repository(call, RepositoryChange::kUnload);
}

Api::Outcome Api::pipeline_status(const Call&) const {
  return ControlJob{[this] { return json(http::pipeline_status(*registry_.snapshot())); }};
}

Api::Outcome Api::partitions(const Call&) const {
  return ControlJob{[this] { return json(partition_status(*registry_.snapshot())); }};
}

Api::Outcome Api::deployment(const Call&) const {
  return ControlJob{[this] { return json(deployments(*registry_.snapshot())); }};
}

Api::Outcome Api::trace(const Call&) const {
  return ControlJob{[this] { return json(http::trace(*registry_.snapshot())); }};
}

Api::Outcome Api::recent_errors(const Call&) const {
  return json(http::recent_errors(failures_.read()));
}

Api::Outcome Api::metrics(const Call&) const {
  return ControlJob{[this] {
                      Response response = json(metrics_.serialise());
                      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                      return response;
                    },
                    true};
}

Api::Outcome Api::console_page(const Call&) const {
  return console_response("index.html");
}

Api::Outcome Api::console_file(const Call& call) const {
  return console_response(call.names.file);
}

std::optional<Response> Api::refusal(const Request& request, Workspace& workspace) const {
  if (request.method == Method::kOptions) return std::nullopt;
  if (request.method == Method::kPost && plain_infer_target(request.target))
    return refused(request, auth::Scope::kInfer, workspace);
  return refused(request, find_route(request.target), workspace);
}

std::optional<Response> Api::refused(const Request& request, const Found& found, Workspace& workspace) const {
  if (found.route == nullptr) return no_such_route(request);
  const Method wanted = found.route->method;
  if (wanted != Method::kOther && request.method != wanted) return wrong_method(wanted);
  return refused(request, found.route->scope, workspace);
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
  const Found found = find_route(request.target);
  if (found.route == nullptr) return no_such_route(request);
  if (found.route->method == Method::kOther) return not_offered_response(request);
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

Api::Outcome Api::server_ready(const Call& call) const {
  const auto why = not_ready(call.snapshot);
  if (!why) return health(R"({"ready":true})", true, "");
  return health(R"({"ready":false})", false, why->reason, why->retry_after);
}

Api::Outcome Api::change_repository(const Call& call, RepositoryChange change) const {
  if (options_.repository == nullptr)
    return error_response(
        501, "models are fixed at start here (serve --deployment); loading and unloading is not offered");
  if (leaving()) return error_response(Error(ErrorCode::kUnavailable, "the server is draining"));
  auto parsed = parse_repository_request(change, call.request.body);
  if (!parsed.ok()) return error_response(parsed.error());
  return DeferredJob{[this, change, model = call.names.model,
                      wanted = std::move(*parsed)](std::function<void(Response)> answer) {
    handle_repository(*options_.repository, change, model, wanted, answer);
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

Api::Outcome Api::about_model(const Call& call,
                              const std::function<Response(std::shared_ptr<models::Model>)>& answer) const {
  const auto& [model, version, file] = call.names;
  std::shared_ptr<models::Model> found = call.snapshot.find(model, version);
  if (found == nullptr) return not_served(model, version, call.snapshot);
  return answer(std::move(found));
}

Api::Outcome Api::model_metadata(const Call& call) const {
  return about_model(call, [&](const auto& model) {
    return json(http::model_metadata(*model, *call.snapshot.versions(call.names.model)));
  });
}

Api::Outcome Api::model_ready(const Call& call) const {
  return about_model(call, [&](const auto& model) { return readiness(*model, leaving()); });
}

Api::Outcome Api::model_config(const Call& call) const {
  return about_model(call, [](const auto& model) { return json(http::model_config(*model)); });
}

Api::Outcome Api::model_statistics(const Call& call) const {
  return about_model(call, [](auto model) { return json(http::model_statistics({std::move(model)})); });
}

Api::Outcome Api::model_description(const Call& call) const {
  return about_model(call, [](const auto& model) { return json(http::model_description(*model)); });
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
