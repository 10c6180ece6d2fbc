// From a request to its answer, or to what must happen first. Knows no sockets: the whole protocol can be
// tested here.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/auth/tokens.hpp"
#include "server/http/routes/failure_log.hpp"
#include "server/http/infer/inference.hpp"
#include "server/http/message.hpp"
#include "server/http/routes/repository_routes.hpp"
#include "server/http/routes/routes.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

struct ApiOptions {
  std::string server_version;
  std::chrono::milliseconds default_timeout{60'000};  // of an infer request that names none
  const auth::Guard* guard = nullptr;                 // null: nobody needs a token
  std::vector<std::string> cors_origins = {};         // origins whose pages may ask; "*": all
  models::Repository* repository = nullptr;           // where there is one; outlives the Api
};

/// What a thread that answers requests keeps between them.
struct Workspace {
  models::Registry::View view;
  auth::Guard::View guard;
  std::string admin;         // whom the last handle() let through to an admin route; empty: it was none
  InferencePool inferences;  // those it gave must be gone before it
};

class Api {
 public:
  /// Work that may take long (card registers, files): run it away from the I/O threads.
  struct ControlJob {
    std::function<Response()> run;
    bool scrape = false;  // is waited for with little patience: not behind others
  };
  /// Work that is done elsewhere: call it with what takes the answer, once, on any thread. It does not wait.
  struct DeferredJob {
    std::function<void(std::function<void(Response)>)> start;
  };
  using Outcome = std::variant<Response, ControlJob, DeferredJob, InferencePool::Lease>;

  /// A request that has passed the checks of its route, as the route's handler gets it.
  struct Call {
    const Request& request;
    const RouteNames& names;
    const models::Snapshot& snapshot;
    Workspace& workspace;
    runtime::pipeline::Clock::time_point arrival;
  };
  using Handler = Outcome (Api::*)(const Call&) const;

  /// A row of the table of routes.
  struct Route {
    Method method;             // the one it answers to; kOther: any
    std::string_view pattern;  // as match() takes it
    auth::Scope scope;         // what a client must be allowed
    Handler handler;
  };

  /// The table of routes. A new route is one line there, and its line in README.md, which a test compares. The first
  /// row that matches counts.
  static std::span<const Route> routes();

  struct Found {
    const Route* route = nullptr;  // null: there is no such route
    RouteNames names;
  };
  static Found find_route(std::string_view target);

  /// Both must outlive the Api and everything it returned.
  Api(const models::Registry& registry, metrics::Metrics& metrics, ApiOptions options);

  /// Any thread, each with a workspace of its own. `arrival` is when the request was read completely.
  Outcome handle(const Request& request, Workspace& workspace,
                 runtime::pipeline::Clock::time_point arrival) const;

  /// A request failed, by no fault of its client's or because there was too much to do: /v2/millrace/errors.
  /// Any thread.
  void note_failure(std::string_view target, const Response& response) {
    failures_.note(target, response.status, response.body);
  }

  /// Why a request may not be answered, whatever its body holds: no such route, no right to it. Nothing where
  /// it may. As handle() says it; for a look before the body is read.
  std::optional<Response> refusal(const Request& request, Workspace& workspace) const;

  /// The lines that let a page of the request's origin read the answer; empty where none may.
  std::string cors_headers(const Request& request) const;

  /// Of infer requests that name no timeout, from now on. Any thread.
  void set_default_timeout(std::chrono::milliseconds timeout) { default_timeout_.store(timeout); }

  /// Whether /v2/health/ready says so. Any thread; waits for no card.
  bool ready() const { return !not_ready(*registry_.snapshot()); }

  /// The server will stop: from now on `ready` says 503, models stay as they are, and answers to inferences
  /// should close their connection, so that clients go elsewhere. Inferences are served as before. Any
  /// thread.
  void give_notice() { leaving_.store(true, std::memory_order_release); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }

  /// As give_notice(), and infer requests are refused with 503. Any thread.
  void begin_drain() {
    give_notice();
    draining_.store(true, std::memory_order_release);
  }
  bool draining() const { return draining_.load(std::memory_order_acquire); }

 private:
  // The handlers, in the order of routes().
  Outcome server_metadata(const Call& call) const;
  Outcome server_live(const Call& call) const;
  Outcome server_ready(const Call& call) const;
  Outcome all_statistics(const Call& call) const;
  Outcome model_metadata(const Call& call) const;
  Outcome model_ready(const Call& call) const;
  Outcome model_config(const Call& call) const;
  Outcome model_statistics(const Call& call) const;
  Outcome infer(const Call& call) const;
  Outcome not_offered(const Call& call) const;
  Outcome repository_index(const Call& call) const;
  Outcome load(const Call& call) const;
  Outcome unload(const Call& call) const;
  Outcome pipeline_status(const Call& call) const;
  Outcome partitions(const Call& call) const;
  Outcome deployment(const Call& call) const;
  Outcome trace(const Call& call) const;
  Outcome recent_errors(const Call& call) const;
  Outcome model_description(const Call& call) const;
  Outcome metrics(const Call& call) const;
  Outcome console_page(const Call& call) const;
  Outcome console_file(const Call& call) const;

  Outcome infer(const Request& request, const InferTarget& target, Workspace& workspace,
                runtime::pipeline::Clock::time_point arrival) const;
  std::optional<Response> refused(const Request& request, const Found& found, Workspace& workspace) const;
  std::optional<Response> refused(const Request& request, auth::Scope scope, Workspace& workspace) const;
  bool allows(std::string_view origin) const;
  Outcome preflight(const Request& request) const;
  Outcome change_repository(const Call& call, RepositoryChange change) const;
  Outcome about_model(const Call& call,
                      const std::function<Response(std::shared_ptr<models::Model>)>& answer) const;
  Response not_served(std::string_view model, std::string_view version,
                      const models::Snapshot& snapshot) const;
  struct NotReady {
    std::string reason;
    std::chrono::milliseconds retry_after{0};
  };
  std::optional<NotReady> not_ready(const models::Snapshot& snapshot) const;

  const models::Registry& registry_;
  metrics::Metrics& metrics_;
  const ApiOptions options_;
  std::atomic<std::chrono::milliseconds> default_timeout_;
  std::atomic<bool> leaving_{false}, draining_{false};
  FailureLog failures_;
};

}  // namespace millrace::server::http
