#include "server/http/routes/api.hpp"

#include <boost/container/static_vector.hpp>
#include <boost/url/pct_string_view.hpp>
#include <span>
#include <utility>

#include "server/console/console.hpp"
#include "server/http/json_text.hpp"
#include "server/http/routes/cable_routes.hpp"
#include "server/http/routes/documents.hpp"
#include "server/http/routes/repository_routes.hpp"

namespace millrace::server::http {
namespace {

using models::Snapshot;

constexpr std::size_t kMaxSegments = 8;  // no route has more segments
using Segments = boost::container::static_vector<std::string_view, kMaxSegments>;

/// Returns the text of `rest` up to the next slash, and removes that text and the slash from `rest`.
std::string_view take_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

/// Splits the target's path into percent-decoded segments, which are views into `target` or `decoded`. Returns false if
/// the target is no valid path or has too many segments.
bool split(std::string_view target, Segments& segments, std::unique_ptr<std::string[]>& decoded) {
  target = target.substr(0, target.find_first_of("?#"));
  for (const std::string_view scheme : {"http://", "https://"})
    if (target.starts_with(scheme)) {
      const auto path = target.find('/', scheme.size());
      target = path == std::string_view::npos ? std::string_view() : target.substr(path);
    }
  if (!target.starts_with('/')) return false;
  target.remove_prefix(1);
  if (target.ends_with('/')) target.remove_suffix(1);
  while (!target.empty()) {
    if (segments.size() == kMaxSegments) return false;
    std::string_view segment = take_segment(target);
    if (segment.find('%') != std::string_view::npos) {
      const auto encoded = boost::urls::make_pct_string_view({segment.data(), segment.size()});
      if (!encoded) return false;
      if (decoded == nullptr) decoded = std::make_unique<std::string[]>(kMaxSegments);
      std::string& text = decoded[segments.size()];
      text = encoded->decode();
      if (text.find('\0') != std::string::npos) return false;
      segment = text;
    }
    segments.push_back(segment);
  }
  return true;
}

using Path = std::span<const std::string_view>;

/// Matches a pattern without brackets against the first segments of `path`, and removes the matched segments from
/// `path`. Returns false if the pattern does not match.
bool take(std::string_view pattern, Path& path, RouteNames& names) {
  if (!pattern.empty()) pattern.remove_prefix(1);  // the first slash
  while (!pattern.empty()) {
    const std::string_view wanted = take_segment(pattern);
    if (wanted == "**") {
      path = {};
      return true;
    }
    if (path.empty()) return false;
    std::string_view* const name = wanted == "{model}"     ? &names.model
                                   : wanted == "{version}" ? &names.version
                                   : wanted == "{file}"    ? &names.file
                                                           : nullptr;
    if (name == nullptr ? path.front() != wanted : path.front().empty()) return false;
    if (name != nullptr) *name = path.front();
    path = path.subspan(1);
  }
  return true;
}

/// Whether the pattern matches the whole path. If so, sets `names` to the values of the placeholders.
bool match(std::string_view pattern, Path path, RouteNames& names) {
  names = {};
  const auto open = pattern.find('[');
  if (!take(pattern.substr(0, open), path, names)) return false;
  if (open == std::string_view::npos) return path.empty();
  const auto close = pattern.find(']', open);
  const RouteNames before = names;
  for (const std::string_view optional : {std::string_view(), pattern.substr(open + 1, close - open - 1)}) {
    Path rest = path;
    names = before;
    if (take(optional, rest, names) && take(pattern.substr(close + 1), rest, names) && rest.empty())
      return true;
  }
  return false;
}

/// Returns the answer to a request for a model that is still being loaded or does not exist.
Response not_served(const Call& call) {
  const auto& [model, version, file] = call.names;
  const std::string name = "model '" + std::string(model) + "'";
  if (const auto* repository = call.api.options().repository)
    if (const auto far = repository->loading(model, version))
      return error_response(Error(ErrorCode::kUnavailable, name + " is being loaded: " + *far));
  const auto served = call.snapshot.find(model, "");
  if (served == nullptr)
    return error_response(404, "unknown " + name + "; POST /v2/repository/index lists what is served");
  return error_response(404,
                        name + " has no version '" + std::string(version) + "'; it has " + served->version());
}

/// Returns the answer to a health check: 200 with `body`, a JSON object. If `why` is set, the status is 503 and the
/// reason is added to the object.
Response health(std::string body, const std::optional<Api::NotReady>& why) {
  Response response = json_response(std::move(body));
  if (!why) return response;
  response.status = 503;
  response.body.pop_back();
  response.body += ",\"error\":";
  append_json_string(response.body, why->reason);
  response.body += '}';
  response.retry_after_seconds = retry_seconds(why->retry_after);
  return response;
}

Outcome metadata_of_server(const Call& call) {
  const ApiOptions& options = call.api.options();
  const bool loads =
      options.repository != nullptr && options.repository->mode() != models::RepositoryMode::kNone;
  return json_response(server_metadata(options.server_version, loads));
}

Outcome server_live(const Call&) {
  return json_response(R"({"live":true})");
}

Outcome server_ready(const Call& call) {
  const auto why = call.api.not_ready(call.snapshot);
  return health(why ? R"({"ready":false})" : R"({"ready":true})", why);
}

Outcome statistics_of_all(const Call& call) {
  return json_response(model_statistics(call.snapshot.all()));
}

/// Answers with a document about all models, in a ControlJob because it may read card registers or be long.
template <std::string (*kDocument)(const Snapshot&)>
Outcome snapshot_document(const Call& call) {
  return ControlJob{
      [&registry = call.api.registry()] { return json_response(kDocument(*registry.snapshot())); }};
}

Outcome errors(const Call& call) {
  return json_response(recent_errors(call.api.failures()));
}

Outcome metrics_page(const Call& call) {
  return ControlJob{[&metrics = call.api.metrics()] {
                      Response response = json_response(metrics.serialise());
                      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                      return response;
                    },
                    true};
}

template <class Answer>
Outcome about_model(const Call& call, Answer answer) {
  const std::shared_ptr<models::Model> found = call.snapshot.find(call.names.model, call.names.version);
  if (found == nullptr) return not_served(call);
  return answer(found);
}

template <std::string (*kDocument)(const models::Model&)>
Outcome model_document(const Call& call) {
  return about_model(call, [](const auto& model) { return json_response(kDocument(*model)); });
}

Outcome statistics_of_model(const Call& call) {
  return about_model(call, [](const auto& model) { return json_response(model_statistics({model})); });
}

Outcome model_ready(const Call& call) {
  return about_model(call, [&](const auto& model) {
    std::optional<Api::NotReady> why;
    if (call.api.leaving())
      why = {"the server is draining"};
    else if (!is_ready(*model))
      why = {"a card of the model is not up", model->pipeline().retry_after()};
    std::string body = "{\"name\":";
    append_json_string(body, model->name());
    return health(body + (why ? ",\"ready\":false}" : ",\"ready\":true}"), why);
  });
}

/// Answers an inference. Allocates nothing if all tensors are binary data and the workspace has been used before.
Outcome infer(const Call& call) {
  const auto& [api, request, names, snapshot, workspace, arrival] = call;
  std::shared_ptr<models::Model> model = snapshot.find(names.model, names.version);
  if (model == nullptr) return not_served(call);
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
  inference->prepare(std::move(model), names.version.empty(), request.client, arrival, arrival + timeout);
  return inference;
}

Outcome not_offered(const Call& call) {
  return error_response(501, "the routes for shared memory and for text generation are not supported: " +
                                 std::string(call.request.target.substr(0, 200)));
}

Outcome console_file(const Call& call) {
  const std::string_view name = call.names.file.empty() ? "index.html" : call.names.file;
  const auto file = console::find(name);
  if (!file) return error_response(404, "no such route: /console/" + std::string(name.substr(0, 200)));
  Response response;
  response.content_type = file->content_type;
  // Forbid other pages to show the console in a frame, where users could be made to press its buttons (clickjacking).
  response.more_headers =
      "Content-Security-Policy: frame-ancestors 'none'\r\nX-Frame-Options: DENY\r\n"
      "X-Content-Type-Options: nosniff\r\n";
  response.binary.push_back(std::as_bytes(std::span(file->bytes)));
  return response;
}

}  // namespace

std::span<const Route> routes() {
  using enum Method;
  using auth::Scope;
  static constexpr Route kRoutes[] = {
      // The route of inferences is the first row, because nearly all requests are inferences.
      {kPost, "/v2/models/{model}[/versions/{version}]/infer", Scope::kInfer, infer},
      {kGet, "/v2", Scope::kRead, metadata_of_server},
      {kGet, "/v2/health/live", Scope::kNone, server_live},
      {kGet, "/v2/health/ready", Scope::kNone, server_ready},
      {kGet, "/v2/models/stats", Scope::kRead, statistics_of_all},
      {kGet, "/v2/models/{model}[/versions/{version}]", Scope::kRead, model_document<model_metadata>},
      {kGet, "/v2/models/{model}[/versions/{version}]/ready", Scope::kRead, model_ready},
      {kGet, "/v2/models/{model}[/versions/{version}]/config", Scope::kRead, model_document<model_config>},
      {kGet, "/v2/models/{model}[/versions/{version}]/stats", Scope::kRead, statistics_of_model},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate", Scope::kNone, not_offered},
      {kOther, "/v2/models/{model}[/versions/{version}]/generate_stream", Scope::kNone, not_offered},
      {kOther, "/v2/systemsharedmemory/**", Scope::kNone, not_offered},
      {kOther, "/v2/cudasharedmemory/**", Scope::kNone, not_offered},
      {kPost, "/v2/repository/index", Scope::kRead, index_of_repository},
      {kPost, "/v2/repository/models/{model}/load", Scope::kAdmin, load_model},
      {kPost, "/v2/repository/models/{model}/unload", Scope::kAdmin, unload_model},
      {kGet, "/v2/millrace/status", Scope::kRead, snapshot_document<pipeline_status>},
      {kGet, "/v2/millrace/partitions", Scope::kRead, snapshot_document<partition_status>},
      {kGet, "/v2/millrace/deployment", Scope::kRead, snapshot_document<deployments>},
      {kGet, "/v2/millrace/trace", Scope::kRead, snapshot_document<trace>},
      {kGet, "/v2/millrace/errors", Scope::kRead, errors},
      {kPost, "/v2/millrace/cables", Scope::kAdmin, impair_cable},
      {kGet, "/v2/millrace/models/{model}[/versions/{version}]", Scope::kRead,
       model_document<model_description>},
      {kGet, "/metrics", Scope::kRead, metrics_page},
      // The files of the console need no token. The console calls other routes, which check their own scopes.
      {kGet, "/", Scope::kNone, console_file},
      {kGet, "/console/{file}", Scope::kNone, console_file},
  };
  return kRoutes;
}

FoundRoute find_route(std::string_view target) {
  FoundRoute found;
  Segments segments;
  if (!split(target, segments, found.decoded)) return found;
  for (const Route& route : routes())
    if (match(route.pattern, segments, found.names)) {
      found.route = &route;
      break;
    }
  return found;
}

}  // namespace millrace::server::http
