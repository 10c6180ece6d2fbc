#include "server/http/routes/repository_routes.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace millrace::server::http {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBytes = 1U
                                   << 20U;  // Triton's clients may send a long configuration; it is refused

Error bad(const std::string& why) {
  return Error(ErrorCode::kInvalidInput, why);
}

/// The body as an object; an empty body is an empty object.
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

Status take_bool(std::string_view name, const json::value& value, bool& out) {
  if (!value.is_bool()) return bad("parameter '" + std::string(name) + "' is neither true nor false");
  out = value.as_bool();
  return {};
}

Status take_parameter(std::string_view name, const json::value& value, RepositoryRequest& out) {
  if (name == "config" || name.starts_with("file:"))
    return Error(ErrorCode::kUnsupported,
                 "parameter '" + std::string(name.substr(0, 100)) +
                     "': models are loaded as they are in the repository; configurations and files in the "
                     "request are not offered");
  if (name == "version") {
    MILLRACE_ASSIGN(out.version, version_of(value));
  } else if (name == "policy") {
    if (!value.is_string()) return bad("parameter 'policy' is not a string");
    MILLRACE_ASSIGN(out.policy, models::parse_policy(std::string_view(value.as_string())));
  } else if (name == "wait") {
    return take_bool(name, value, out.wait);
  } else if (name == "force") {
    return take_bool(name, value, out.force);
  } else if (name == "pin") {
    return take_bool(name, value, out.pin);
  } else if (name == "unpin") {
    return take_bool(name, value, out.unpin);
  }
  return {};  // others, such as Triton's unload_dependents, are ignored
}

Status check_combination(RepositoryChange change, const RepositoryRequest& request) {
  if (change != RepositoryChange::kLoad && (request.force || request.pin || request.unpin))
    return bad("parameters 'force', 'pin' and 'unpin' belong to a load");
  if (request.unpin && (request.force || request.pin || request.policy || !request.version.empty()))
    return bad(
        "parameter 'unpin' removes the pin and loads nothing; send 'force', 'pin', 'policy' and 'version' in "
        "another load");
  if (request.pin && request.version.empty())
    return bad("parameter 'pin' needs 'version': the one to pin the model to");
  return {};
}

json::object row_of(const models::IndexEntry& entry) {
  json::object out{{"name", entry.name},
                   {"version", entry.version},
                   {"state", models::to_string(entry.state)},
                   {"reason", entry.reason}};
  if (entry.pinned) out["pinned"] = true;
  return out;
}

Status start_job(models::Repository& repository, RepositoryChange change, const std::string& model,
                 const RepositoryRequest& request, models::Repository::Done done) {
  if (change != RepositoryChange::kLoad) return repository.unload(model, request.version, std::move(done));
  if (request.unpin) return repository.unpin(model, std::move(done));
  return repository.load({model, request.version, request.policy, request.pin, request.force},
                         std::move(done));
}

}  // namespace

Result<RepositoryRequest> parse_repository_request(RepositoryChange change, std::span<const std::byte> body) {
  MILLRACE_ASSIGN(const json::object object, object_of(body));
  RepositoryRequest out;
  const json::value* const parameters = object.if_contains("parameters");
  if (parameters == nullptr) return out;
  if (!parameters->is_object()) return bad("'parameters' is not a JSON object");
  for (const auto& [name, value] : parameters->as_object())
    MILLRACE_TRY(take_parameter({name.data(), name.size()}, value, out));
  MILLRACE_TRY(check_combination(change, out));
  return out;
}

Result<bool> parse_index_request(std::span<const std::byte> body) {
  MILLRACE_ASSIGN(const json::object object, object_of(body));
  const json::value* const ready = object.if_contains("ready");
  if (ready == nullptr) return false;
  if (!ready->is_bool()) return bad("'ready' is neither true nor false");
  return ready->as_bool();
}

Response repository_response(const Status& status) {
  if (status.ok()) {
    Response response;
    response.body = "{}";
    return response;
  }
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

void handle_repository(models::Repository& repository, RepositoryChange change, const std::string& model,
                       const RepositoryRequest& request, const std::function<void(Response)>& answer) {
  models::Repository::Done done;
  if (request.wait) done = [answer](const Status& status) { answer(repository_response(status)); };
  const Status taken = start_job(repository, change, model, request, std::move(done));
  if (!taken.ok()) return answer(repository_response(taken));
  if (request.wait) return;
  Response accepted = repository_response({});
  accepted.status = 202;
  answer(std::move(accepted));
}

std::string repository_index(const models::Repository* repository, const models::Snapshot& snapshot,
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
  return json::serialize(out);
}

}  // namespace millrace::server::http
