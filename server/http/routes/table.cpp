#include "server/http/routes/table.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "server/console/console.hpp"
#include "server/http/json_text.hpp"
#include "server/http/routes/api.hpp"
#include "server/http/routes/documents.hpp"
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

/// The answer about a model that is not there: not yet, or not at all.
Response not_served(const Api& api, std::string_view model, std::string_view version,
                    const Snapshot& snapshot) {
  if (const auto* repository = api.options().repository)
    if (const auto far = repository->loading(model, version))
      return error_response(
          Error(ErrorCode::kUnavailable, "model '" + std::string(model) + "' is being loaded: " + *far));
  return unknown_model(model, version, snapshot);
}

/// An answer about health. `body` is a JSON object, to which the reason is added if it is not good.
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

// The server.

Outcome metadata_of_server(const Call& call) {
  const auto& [version, timeout, guard, origins, repository] = call.api.options();
  return json(
      server_metadata(version, repository != nullptr && repository->mode() != models::RepositoryMode::kNone));
}

Outcome server_live(const Call&) {
  return json(R"({"live":true})");
}

Outcome server_ready(const Call& call) {
  const auto why = call.api.not_ready(call.snapshot);
  if (!why) return health(R"({"ready":true})", true, "");
  return health(R"({"ready":false})", false, why->reason, why->retry_after);
}

Outcome statistics_of_all(const Call& call) {
  return json(model_statistics(call.snapshot.all()));
}

/// A document about all models that reads card registers, or is long.
template <std::string (*kDocument)(const Snapshot&)>
Outcome snapshot_document(const Call& call) {
  return ControlJob{[&registry = call.api.registry()] { return json(kDocument(*registry.snapshot())); }};
}

Outcome errors(const Call& call) {
  return json(recent_errors(call.api.failures().read()));
}

Outcome metrics_page(const Call& call) {
  return ControlJob{[&metrics = call.api.metrics()] {
                      Response response = json(metrics.serialise());
                      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                      return response;
                    },
                    true};
}

// One model.

template <class Answer>
Outcome about_model(const Call& call, Answer answer) {
  const auto& [model, version, file] = call.names;
  const std::shared_ptr<models::Model> found = call.snapshot.find(model, version);
  if (found == nullptr) return not_served(call.api, model, version, call.snapshot);
  return answer(found);
}

template <std::string (*kDocument)(const models::Model&)>
Outcome model_document(const Call& call) {
  return about_model(call, [](const auto& model) { return json(kDocument(*model)); });
}

Outcome metadata_of_model(const Call& call) {
  return about_model(call, [&](const auto& model) {
    return json(model_metadata(*model, *call.snapshot.versions(call.names.model)));
  });
}

Outcome statistics_of_model(const Call& call) {
  return about_model(call, [](const auto& model) { return json(model_statistics({model})); });
}

Outcome model_ready(const Call& call) {
  return about_model(call, [&](const auto& model) {
    const bool leaving = call.api.leaving(), ready = !leaving && is_ready(*model);
    std::string body = "{\"name\":";
    append_json_string(body, model->name());
    body += std::string(",\"ready\":") + (ready ? "true" : "false") + "}";
    return health(std::move(body), ready,
                  leaving ? "the server is draining" : "a card of the model is not up",
                  leaving || ready ? std::chrono::seconds(1) : model->pipeline().retry_after());
  });
}

Outcome infer_by_names(const Call& call) {
  return infer(call.api, call.request, {call.names.model, call.names.version}, call.workspace, call.arrival);
}

Outcome not_offered(const Call& call) {
  return not_offered_response(call.request);
}

// The repository.

Outcome index_of_repository(const Call& call) {
  return ControlJob{[&api = call.api, ready = parse_index_request(call.request.body)] {
    if (!ready.ok()) return error_response(ready.error());
    return json(repository_index(api.options().repository, *api.registry().snapshot(), *ready));
  }};
}

Outcome change_repository(const Call& call, RepositoryChange change) {
  models::Repository* const repository = call.api.options().repository;
  if (repository == nullptr)
    return error_response(
        501, "models are fixed at start here (serve --deployment); loading and unloading is not offered");
  if (call.api.leaving()) return error_response(Error(ErrorCode::kUnavailable, "the server is draining"));
  auto parsed = parse_repository_request(change, call.request.body);
  if (!parsed.ok()) return error_response(parsed.error());
  return DeferredJob{[repository, change, model = call.names.model,
                      wanted = std::move(*parsed)](std::function<void(Response)> answer) {
    handle_repository(*repository, change, model, wanted, answer);
  }};
}

Outcome load(const Call& call) {
  return change_repository(call, RepositoryChange::kLoad);
}

Outcome unload(const Call& call) {
  return change_repository(call, RepositoryChange::kUnload);
}

// The console.

Response console_response(const std::string& name) {
  const auto file = console::find(name);
  if (!file) return error_response(404, "no such route: /console/" + name.substr(0, 200));
  Response response;
  response.content_type = file->content_type;
  // Other pages may not frame this one and have its buttons pressed unseen (clickjacking).
  response.more_headers =
      "Content-Security-Policy: frame-ancestors 'none'\r\nX-Frame-Options: DENY\r\n"
      "X-Content-Type-Options: nosniff\r\n";
  response.binary.push_back(std::as_bytes(std::span(file->bytes)));
  return response;
}

Outcome console_page(const Call&) {
  return console_response("index.html");
}

Outcome console_file(const Call& call) {
  return console_response(call.names.file);
}

}  // namespace

std::span<const Route> routes() {
  using enum Method;
  using auth::Scope;
  static constexpr Route kRoutes[] = {
      {kGet, "/v2", Scope::kRead, metadata_of_server},
      {kGet, "/v2/health/live", Scope::kNone, server_live},
      {kGet, "/v2/health/ready", Scope::kNone, server_ready},
      {kGet, "/v2/models/stats", Scope::kRead, statistics_of_all},
      {kGet, "/v2/models/{model}[/versions/{version}]", Scope::kRead, metadata_of_model},
      {kGet, "/v2/models/{model}[/versions/{version}]/ready", Scope::kRead, model_ready},
      {kGet, "/v2/models/{model}[/versions/{version}]/config", Scope::kRead, model_document<model_config>},
      {kGet, "/v2/models/{model}[/versions/{version}]/stats", Scope::kRead, statistics_of_model},
      {kPost, "/v2/models/{model}[/versions/{version}]/infer", Scope::kInfer, infer_by_names},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate", Scope::kNone, not_offered},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate_stream", Scope::kNone, not_offered},
      {kOther, "/v2/systemsharedmemory/**", Scope::kNone, not_offered},
      {kOther, "/v2/cudasharedmemory/**", Scope::kNone, not_offered},
      {kPost, "/v2/repository/index", Scope::kRead, index_of_repository},
      {kPost, "/v2/repository/models/{model}/load", Scope::kAdmin, load},
      {kPost, "/v2/repository/models/{model}/unload", Scope::kAdmin, unload},
      {kGet, "/v2/millrace/status", Scope::kRead, snapshot_document<pipeline_status>},
      {kGet, "/v2/millrace/partitions", Scope::kRead, snapshot_document<partition_status>},
      {kGet, "/v2/millrace/deployment", Scope::kRead, snapshot_document<deployments>},
      {kGet, "/v2/millrace/trace", Scope::kRead, snapshot_document<trace>},
      {kGet, "/v2/millrace/errors", Scope::kRead, errors},
      {kGet, "/v2/millrace/models/{model}[/versions/{version}]", Scope::kRead,
       model_document<model_description>},
      {kGet, "/metrics", Scope::kRead, metrics_page},
      // The page itself needs no token. The routes that it asks have scopes of their own.
      {kGet, "/", Scope::kNone, console_page},
      {kGet, "/console/{file}", Scope::kNone, console_file},
  };
  return kRoutes;
}

FoundRoute find_route(std::string_view target) {
  if (const auto segments = segments_of(target))
    for (const Route& route : routes())
      if (auto names = match(route.pattern, *segments)) return {&route, std::move(*names)};
  return {};
}

Response not_offered_response(const Request& request) {
  return error_response(
      501, "shared memory and generation are not offered: " + std::string(request.target.substr(0, 200)));
}

Outcome infer(const Api& api, const Request& request, const InferTarget& target, Workspace& workspace,
              runtime::pipeline::Clock::time_point arrival) {
  const Snapshot& snapshot = api.registry().refresh(workspace.view);
  std::shared_ptr<models::Model> model = snapshot.find(target.model, target.version);
  if (model == nullptr) return not_served(api, target.model, target.version, snapshot);
  const auto refused = [&](const Error& error) {
    model->refused(metrics::Transport::kHttp, error.code());
    return error_response(error);
  };
  if (api.draining()) return refused(Error(ErrorCode::kUnavailable, "the server is draining"));
  InferencePool::Lease inference = workspace.inferences.take();
  if (const Status parsed = parse_infer_request(model->info(), request.body, request.inference_header_length,
                                                inference->request(), model->quantised());
      !parsed.ok())
    return refused(parsed.error());
  const auto timeout = inference->request().timeout.value_or(api.default_timeout());
  inference->prepare(std::move(model), target.version.empty(), request.client, arrival, arrival + timeout);
  return inference;
}

}  // namespace millrace::server::http
