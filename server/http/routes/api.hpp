// From a request to its answer, or to what must happen first. Knows no sockets: the whole protocol can be
// tested here.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/auth/tokens.hpp"
#include "server/http/message.hpp"
#include "server/http/routes/failure_log.hpp"
#include "server/http/routes/table.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

struct ApiOptions {
  std::string server_version;
  std::chrono::milliseconds default_timeout{60'000};  // of an infer request that names none
  const auth::Guard* guard = nullptr;                 // null: nobody needs a token
  std::vector<std::string> cors_origins = {};         // origins whose pages may ask; "*": all
  models::Repository* repository = nullptr;           // if there is one; outlives the Api
};

class Api {
 public:
  /// Both must outlive the Api and everything it returned.
  Api(const models::Registry& registry, metrics::Metrics& metrics, ApiOptions options)
      : registry_(registry),
        metrics_(metrics),
        options_(std::move(options)),
        default_timeout_(options_.default_timeout) {}

  /// Any thread, each with a workspace of its own. `arrival` is when the request was read completely.
  Outcome handle(const Request& request, Workspace& workspace,
                 runtime::pipeline::Clock::time_point arrival) const;

  /// Why handle() will refuse the request whatever its body holds: no such route, no right to it. Nothing if it
  /// will not. For a check before the body is read.
  std::optional<Response> refusal(const Request& request, Workspace& workspace) const;

  /// The lines that let a page of the request's origin read the answer; empty if none may.
  std::string cors_headers(const Request& request) const;

  /// For /v2/millrace/errors: a request failed by no fault of its client's, or because there was too much to do.
  /// Any thread.
  void note_failure(std::string_view target, const Response& response) {
    failures_.note(target, response.status, response.body);
  }
  const FailureLog& failures() const { return failures_; }

  /// The timeout of infer requests that name none. Any thread.
  void set_default_timeout(std::chrono::milliseconds timeout) { default_timeout_.store(timeout); }
  std::chrono::milliseconds default_timeout() const {
    return default_timeout_.load(std::memory_order_relaxed);
  }

  /// Why /v2/health/ready says 503; nothing if it does not. Any thread; waits for no card.
  struct NotReady {
    std::string reason;
    std::chrono::milliseconds retry_after{0};
  };
  std::optional<NotReady> not_ready(const models::Snapshot& snapshot) const;
  bool ready() const { return !not_ready(*registry_.snapshot()); }

  /// The server will stop: from now on `ready` says 503, models stay as they are, and answers to inferences
  /// should close their connection, so that clients go elsewhere. Inferences are served as before. Any thread.
  void give_notice() { leaving_.store(true, std::memory_order_release); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }

  /// As give_notice(), and infer requests are refused with 503. Any thread.
  void begin_drain() {
    give_notice();
    draining_.store(true, std::memory_order_release);
  }
  bool draining() const { return draining_.load(std::memory_order_acquire); }

  const models::Registry& registry() const { return registry_; }
  metrics::Metrics& metrics() const { return metrics_; }
  const ApiOptions& options() const { return options_; }

 private:
  std::optional<Response> refused(const Request& request, const FoundRoute& found,
                                  Workspace& workspace) const;
  std::optional<Response> refused(const Request& request, auth::Scope scope, Workspace& workspace) const;
  bool allows(std::string_view origin) const;
  Response preflight(const Request& request) const;

  const models::Registry& registry_;
  metrics::Metrics& metrics_;
  const ApiOptions options_;
  std::atomic<std::chrono::milliseconds> default_timeout_;
  std::atomic<bool> leaving_{false}, draining_{false};
  FailureLog failures_;
};

/// Whether a model answers. Waits for no card: a health check must be answered at once while one hangs.
bool is_ready(const models::Model& model);

}  // namespace millrace::server::http
