// `millrace reload`: makes a running server replace the version of a model that it serves, or unload the model.

#include <boost/json.hpp>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <ostream>
#include <stop_token>
#include <thread>

#include "runtime/base/text.hpp"
#include "tools/cli/access.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::cli {
namespace {

namespace json = boost::json;
using clients::HttpClient;

constexpr char kIndex[] = "/v2/repository/index";
constexpr std::chrono::milliseconds kLook{500};
constexpr std::chrono::milliseconds kLookTimeout{5'000};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Entry {
  std::string version, state, reason;
  bool pinned = false;
};

/// Returns the model's entries in the server's repository index, or none if the server does not answer.
std::vector<Entry> look(HttpClient& client, const std::string& model) {
  std::vector<Entry> out;
  const auto answer = client.post(kIndex, {});
  if (!answer.ok() || answer->status != 200) return out;
  json::error_code code;
  const json::value index = json::parse(answer->body, code);
  if (code || !index.is_array()) return out;
  for (const json::value& value : index.as_array()) {
    const json::object* const object = value.if_object();
    const auto text = [&](const char* key) {
      const json::value* const found = object == nullptr ? nullptr : object->if_contains(key);
      return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
    };
    if (text("name") != model) continue;
    const json::value* const pinned = object->if_contains("pinned");
    out.push_back({text("version"), text("state"), text("reason"),
                   pinned != nullptr && pinned->is_bool() && pinned->as_bool()});
  }
  return out;
}

/// During this object's lifetime, a thread prints the progress of the load on standard error.
class Progress {
 public:
  Progress(const clients::Url& url, const clients::Access& access, std::string model)
      : thread_([this, url, access, name = std::move(model)](const std::stop_token& stop) {
          tell(url, access, name, stop);
        }) {}

 private:
  void tell(const clients::Url& url, const clients::Access& access, const std::string& model,
            const std::stop_token& stop) {
    std::unique_ptr<HttpClient> client;
    std::string last;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, kLook, [] { return false; }) && !stop.stop_requested()) {
      if (client == nullptr) {
        auto connected = HttpClient::connect(url, kLookTimeout, access);
        if (!connected.ok()) continue;
        client = std::move(*connected);
      }
      for (const Entry& entry : look(*client, model)) {
        if (entry.state != "LOADING" && entry.state != "UNLOADING") continue;
        const std::string line = "version " + entry.version + ": " + printable(entry.reason);
        if (line != last) std::cerr << line << std::endl;
        last = line;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

Error refusal(const HttpClient::Answer& answer) {
  std::string message = "status " + std::to_string(answer.status);
  json::error_code code;
  const json::value body = json::parse(answer.body, code);
  if (!code && body.is_object())
    if (const auto* text = body.as_object().if_contains("error"); text != nullptr && text->is_string())
      message = std::string(text->as_string());
  if (answer.status == 401) message += "; give a token with --token-file or MILLRACE_TOKEN";
  ErrorCode kind = ErrorCode::kDoesNotFit;
  if (answer.status == 401 || answer.status == 403) kind = ErrorCode::kInvalidInput;
  if (answer.status == 500)
    kind = ErrorCode::kEnvironment;  // the server failed, for example to write the pin
  if (answer.status == 501) kind = ErrorCode::kUnsupported;
  if (answer.status == 429 || answer.status == 503) kind = ErrorCode::kUnavailable;
  return Error(kind, message);
}

std::string body_of(const ReloadCommand& command) {
  json::object parameters;
  if (!command.version.empty()) parameters["version"] = command.version;
  if (!command.policy.empty() && !command.unload) parameters["policy"] = command.policy;
  if (command.force) parameters["force"] = true;
  if (command.pin) parameters["pin"] = true;
  if (command.unpin) parameters["unpin"] = true;
  return json::serialize(json::object{{"parameters", std::move(parameters)}});
}

/// Prints the model's state after the request, as the server's index shows it.
void report(const ReloadCommand& command, const std::vector<Entry>& index, std::chrono::milliseconds took,
            std::ostream& out) {
  std::string serving, pinned;
  for (const Entry& entry : index) {
    if (entry.state == "READY") serving = entry.version;
    if (entry.pinned) pinned = entry.version;
  }
  if (command.common.json) {
    out << json::serialize(json::object{{"schema", 1},
                                        {"model", command.model},
                                        {"serving", serving},
                                        {"pinned", pinned},
                                        {"milliseconds", took.count()}})
        << '\n';
  } else if (!command.common.quiet) {
    out << "model '" << command.model
        << "': " << (serving.empty() ? "no version is served" : "version " + serving + " serves")
        << (pinned.empty() ? "" : "; it is pinned to version " + pinned) << " (" << took.count() << " ms)\n";
  }
}

}  // namespace

Status run(const ReloadCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const auto url, clients::parse_url(command.url));
  MILLRACE_ASSIGN(const clients::Access access, access_of(command.access));
  MILLRACE_ASSIGN(const auto client, HttpClient::connect(url, command.timeout, access));
  const std::string target = "/v2/repository/models/" + clients::percent_encoded(command.model) +
                             (command.unload ? "/unload" : "/load");
  const std::string body = body_of(command);
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = [&] {
    std::optional<Progress> progress;
    if (!command.common.quiet) progress.emplace(url, access, command.model);
    return client->post(target, bytes_of(body));
  }();
  if (!answer.ok()) return answer.error();
  if (answer->status != 200) return refusal(*answer);
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);

  report(command, look(*client, command.model), took, out);
  return {};
}

}  // namespace millrace::cli
