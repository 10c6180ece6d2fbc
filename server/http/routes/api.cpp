#include "server/http/routes/api.hpp"

#include <algorithm>
#include <utility>

namespace millrace::server::http {
namespace {

using models::Snapshot;

/// Returns an error with a header WWW-Authenticate, which tells the client to send a bearer token (RFC 6750, 3).
Response unauthorised(unsigned status, std::string_view message, std::string_view challenge) {
  Response response = error_response(status, message);
  response.more_headers = "WWW-Authenticate: Bearer realm=\"millrace\"";
  response.more_headers.append(challenge).append("\r\n");
  return response;
}

/// Whether the name in a Host header is localhost or an IP address. An attacker may own any other name and make it
/// resolve to this machine (DNS rebinding).
bool is_own_name(std::string_view host) {
  if (host.starts_with('[')) return true;
  host = host.substr(0, host.rfind(':'));
  return host == "localhost" || host.ends_with(".localhost") ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Whether a web page of another host sent the request. Browsers add the header Origin to every POST of a page.
bool from_another_host(const Request& request, std::string_view origin) {
  const auto scheme = origin.find("://");
  const std::string_view host = scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
  return !origin.empty() &&
         (host != request.header("Host") || (request.access.loopback && !is_own_name(host)));
}

Response wrong_method(Method wanted) {
  const bool post = wanted == Method::kPost;
  Response response =
      error_response(405, post ? "this route supports only POST" : "this route supports only GET");
  response.allow = post ? "POST" : "GET, HEAD";
  return response;
}

/// Returns the answer to a CORS preflight request, which a browser sends before a page's request (Fetch, 3.2.2).
Response preflight() {
  Response response;
  response.more_headers =
      "Access-Control-Allow-Methods: GET, POST\r\n"
      "Access-Control-Allow-Headers: Authorization, Content-Type, Content-Encoding, "
      "Inference-Header-Content-Length, X-Request-Id\r\nAccess-Control-Max-Age: 600\r\n";
  return response;
}

}  // namespace

bool is_ready(const models::Model& model) {
  return model.state() == models::ModelState::kReady && model.pipeline().ready();
}

Outcome Api::handle(const Request& request, Workspace& workspace,
                    runtime::pipeline::Clock::time_point arrival) const {
  workspace.admin.clear();
  const FoundRoute found = find_route(request.target);
  if (request.method == Method::kOptions && found.route != nullptr && allows(request.header("Origin"))) {
    if (found.route->method != Method::kOther) return preflight();
  } else if (auto no = refused(request, found, workspace)) {
    return std::move(*no);
  }
  const Snapshot& snapshot = registry_.refresh(workspace.view);
  return found.route->handler({*this, request, found.names, snapshot, workspace, arrival});
}

std::optional<Response> Api::refusal(const Request& request, Workspace& workspace) const {
  if (request.method == Method::kOptions) return std::nullopt;
  return refused(request, find_route(request.target), workspace);
}

std::optional<Response> Api::refused(const Request& request, const FoundRoute& found,
                                     Workspace& workspace) const {
  using auth::Scope;
  if (found.route == nullptr)
    return error_response(404, "no such route: " + std::string(request.target.substr(0, 200)));
  const auto& [wanted_method, pattern, scope, handler] = *found.route;
  if (wanted_method != Method::kOther && request.method != wanted_method) return wrong_method(wanted_method);
  if (scope == Scope::kNone) return std::nullopt;
  const auth::Tokens* tokens = options_.guard == nullptr ? nullptr : options_.guard->refresh(workspace.guard);
  if (tokens == nullptr && scope != Scope::kAdmin) return std::nullopt;
  if (scope == Scope::kAdmin && !request.access.admin)
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
  if (!request.access.trusted)
    return error_response(
        403, "admin routes need tokens (http.tokens), because other machines can reach this listener");
  if (const auto origin = request.header("Origin"); from_another_host(request, origin) && !allows(origin))
    return error_response(403, "a page of " + std::string(origin.substr(0, 200)) +
                                   " may not use admin routes; http.cors_origins lists the allowed origins");
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

void Api::note_failure(std::string_view target, const Response& response) {
  constexpr std::size_t kMost = 64;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  if (failures_.size() == kMost) failures_.pop_front();
  failures_.push_back({std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), response.status,
                       std::string(target.substr(0, 128)), response.body.substr(0, 512)});
}

std::vector<Failure> Api::failures() const {
  const std::lock_guard lock(mutex_);
  return {failures_.begin(), failures_.end()};
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

}  // namespace millrace::server::http
