#include "server/http/routes/repository_routes.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace millrace::server::http {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBytes = 1U << 20U;  // Triton's clients may send a long configuration

/// A request to load, unload or unpin a model.
struct Change {
  bool load = true;
  models::LoadOrder order;  // an unload uses only its model and version; no version: the current one
  bool unpin = false;       // remove the pin and load nothing
  bool wait = true;         // answer when the job has ended, not when it starts
};

Error bad(const std::string& why) {
  return Error(ErrorCode::kInvalidInput, why);
}

/// Parses the body as a JSON object. An empty body is an empty object.
Result<json::object> object_of(std::span<const std::byte> body) {
  if (body.empty()) return json::object();
  if (body.size() > kMostBytes) return bad("the body is over " + std::to_string(kMostBytes) + " bytes");
  json::error_code code;
  json::value value = json::parse({reinterpret_cast<const char*>(body.data()), body.size()}, code);
  if (code) return bad("the body is not JSON: " + code.message());
  if (!value.is_object()) return bad("the body is not a JSON object");
  return std::move(value.as_object());
}

Result<std::string> version_of(const json::value& value) {
  if (value.is_string()) return std::string(value.as_string());
  if (value.is_int64() && value.as_int64() > 0) return std::to_string(value.as_int64());
  return bad("parameter 'version' is not a positive number");
}

/// Stores one parameter of a load or unload in `out`. Returns kUnsupported for Triton's parameters config and file:….
/// Ignores unknown parameters, such as Triton's unload_dependents.
Status take_parameter(std::string_view name, const json::value& value, Change& out) {
  if (name == "config" || name.starts_with("file:"))
    return Error(ErrorCode::kUnsupported, "parameter '" + std::string(name.substr(0, 100)) +
                                              "': models are loaded as they are in the repository; "
                                              "configurations and files in the request are not supported");
  if (name == "version") {
    MILLRACE_ASSIGN(out.order.version, version_of(value));
  } else if (name == "policy") {
    if (!value.is_string()) return bad("parameter 'policy' is not a string");
    MILLRACE_ASSIGN(out.order.policy, models::parse_policy(std::string_view(value.as_string())));
  }
  const std::pair<std::string_view, bool*> switches[] = {
      {"wait", &out.wait}, {"force", &out.order.force}, {"pin", &out.order.pin}, {"unpin", &out.unpin}};
  for (const auto& [known, to] : switches) {
    if (name != known) continue;
    if (!value.is_bool()) return bad("parameter '" + std::string(name) + "' is neither true nor false");
    *to = value.as_bool();
  }
  return {};
}

Status check_combination(const Change& change) {
  const models::LoadOrder& order = change.order;
  if (!change.load && (order.force || order.pin || change.unpin))
    return bad("parameters 'force', 'pin' and 'unpin' belong to a load request");
  if (change.unpin && (order.force || order.pin || order.policy || !order.version.empty()))
    return bad(
        "parameter 'unpin' removes the pin and loads nothing; "
        "send 'force', 'pin', 'policy' and 'version' in another load request");
  if (order.pin && order.version.empty())
    return bad("parameter 'pin' needs the parameter 'version', to which the model is pinned");
  return {};
}

Result<Change> parse_change(bool load, std::string_view model, std::span<const std::byte> body) {
  MILLRACE_ASSIGN(const json::object object, object_of(body));
  Change out{load, {std::string(model), {}, {}}};
  const json::value* const parameters = object.if_contains("parameters");
  if (parameters == nullptr) return out;
  if (!parameters->is_object()) return bad("'parameters' is not a JSON object");
  for (const auto& [name, value] : parameters->as_object())
    MILLRACE_TRY(take_parameter({name.data(), name.size()}, value, out));
  MILLRACE_TRY(check_combination(out));
  return out;
}

/// Returns whether an index request asks for ready versions only. Its body may be empty.
Result<bool> parse_ready(std::span<const std::byte> body) {
  MILLRACE_ASSIGN(const json::object object, object_of(body));
  const json::value* const ready = object.if_contains("ready");
  if (ready == nullptr) return false;
  if (!ready->is_bool()) return bad("'ready' is neither true nor false");
  return ready->as_bool();
}

/// Returns the answer to a load or unload that ended with `status`.
Response answer_to(const Status& status) {
  if (status.ok()) return json_response("{}");
  switch (status.error().code()) {
    case ErrorCode::kCorrupt:
    case ErrorCode::kDoesNotFit:
      return error_response(400, status.error().message());
    case ErrorCode::kCancelled:
      return error_response(409, status.error().message());
    default:
      return error_response(status.error());
  }
}

/// Starts the load, unload or unpin. Calls `answer` once, on any thread, perhaps before start() returns.
void start(models::Repository& repository, const Change& change,
           const std::function<void(Response)>& answer) {
  const models::LoadOrder& order = change.order;
  models::Repository::Done done;
  if (change.wait) done = [answer](const Status& status) { answer(answer_to(status)); };
  const Status taken = !change.load   ? repository.unload(order.model, order.version, std::move(done))
                       : change.unpin ? repository.unpin(order.model, std::move(done))
                                      : repository.load(order, std::move(done));
  if (!taken.ok()) return answer(answer_to(taken));
  if (change.wait) return;
  Response accepted = answer_to({});
  accepted.status = 202;
  answer(std::move(accepted));
}

Outcome change_repository(const Call& call, bool load) {
  models::Repository* const repository = call.api.options().repository;
  if (repository == nullptr)
    return error_response(501,
                          "this server's models are fixed at start (serve --deployment); "
                          "loading and unloading is not supported");
  if (call.api.leaving()) return error_response(Error(ErrorCode::kUnavailable, "the server is draining"));
  auto change = parse_change(load, call.names.model, call.request.body);
  if (!change.ok()) return error_response(change.error());
  return DeferredJob{[repository, change = std::move(*change)](const std::function<void(Response)>& answer) {
    start(*repository, change, answer);
  }};
}

json::object row_of(const models::IndexEntry& entry) {
  json::object out{{"name", entry.name},
                   {"version", entry.version},
                   {"state", models::to_string(entry.state)},
                   {"reason", entry.reason}};
  if (entry.pinned) out["pinned"] = true;
  return out;
}

/// Returns a list of all versions of the repository, or of all versions that are loaded if there is no repository.
Response index_response(const models::Repository* repository, const models::Snapshot& snapshot,
                        bool ready_only) {
  json::array out;
  const auto add = [&](const models::IndexEntry& entry) {
    if (!ready_only || entry.state == models::ModelState::kReady) out.push_back(row_of(entry));
  };
  if (repository != nullptr) {
    for (const auto& entry : repository->index()) add(entry);
  } else {
    for (const auto& model : snapshot.all()) add({model->name(), model->version(), model->state(), ""});
  }
  return json_response(json::serialize(out));
}

}  // namespace

Outcome index_of_repository(const Call& call) {
  const auto ready = parse_ready(call.request.body);
  if (!ready.ok()) return error_response(ready.error());
  return ControlJob{[&api = call.api, ready_only = *ready] {
    return index_response(api.options().repository, *api.registry().snapshot(), ready_only);
  }};
}

Outcome load_model(const Call& call) {
  return change_repository(call, true);
}

Outcome unload_model(const Call& call) {
  return change_repository(call, false);
}

}  // namespace millrace::server::http
