// From a request to its answer, or to what must happen first. Knows no sockets, so the whole protocol can be tested
// here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/auth/tokens.hpp"
#include "server/http/infer/inference.hpp"
#include "server/http/message.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

class Api;

/// What a thread that answers requests keeps between them.
struct Workspace {
  models::Registry::View view;
  auth::Guard::View guard;
  std::string admin;  // who used an admin route with the last request that Api::handle() took; empty: nobody
  InferencePool inferences;  // outlives the leases that it gave
};

/// Work that may take long (card registers, files): run it on another thread than the connections'.
struct ControlJob {
  std::function<Response()> run;
  bool scrape = false;  // Prometheus waits only a short time, so a scrape has a thread of its own
};
/// Work that is done elsewhere. `start` does not wait. It calls the function that it is given once, on any thread.
struct DeferredJob {
  std::function<void(std::function<void(Response)>)> start;
};
using Outcome = std::variant<Response, ControlJob, DeferredJob, InferencePool::Lease>;

/// The values of a pattern's placeholders, percent-decoded. Empty if the pattern lacks the placeholder.
struct RouteNames {
  std::string_view model;    // {model}
  std::string_view version;  // {version}; empty: the one that serves
  std::string_view file;     // {file}
};

/// A request that has passed the checks of its route, as the route's handler gets it.
struct Call {
  const Api& api;
  const Request& request;
  const RouteNames& names;
  const models::Snapshot& snapshot;
  Workspace& workspace;
  runtime::pipeline::Clock::time_point arrival;
};

/// A row of the table of routes. Patterns look like these:
///
///     /v2/models/{model}[/versions/{version}]/infer      the part in brackets may be left out
///     /v2/systemsharedmemory/**                          ** matches any number of segments, also none
///
/// A placeholder matches exactly one segment that is not empty.
struct Route {
  Method method;  // the one it answers to; kOther: any
  std::string_view pattern;
  auth::Scope scope;  // what a client must be allowed
  Outcome (*handler)(const Call&);
};

/// The table. A new route is one line there and its line in README.md, which a test compares.
std::span<const Route> routes();

struct FoundRoute {
  const Route* route = nullptr;  // null: there is no such route
  RouteNames names;              // views into the target, or into `decoded`
  std::unique_ptr<std::string[]> decoded;
};

/// Finds the first row that matches the target's path. The query string, a slash at the end, and the host of a target
/// in absolute form (RFC 9112, 3.2.2) are ignored. Allocates nothing if the target has no percent-encoded bytes.
FoundRoute find_route(std::string_view target);

/// A request that failed, for /v2/millrace/errors.
struct Failure {
  std::int64_t unix_ms = 0;
  unsigned status = 0;
  std::string target, body;  // cut after 128 and 512 bytes
};

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

  /// The answer with which handle() will refuse the request whatever its body holds, because there is no such route
  /// or the client has no right to it. Nothing if handle() will not. For a check before the body is read.
  std::optional<Response> refusal(const Request& request, Workspace& workspace) const;

  /// The lines that let a page of the request's origin read the answer; empty if none may.
  std::string cors_headers(const Request& request) const;

  /// Records a request that failed although its client did nothing wrong, or because the server was overloaded. The
  /// last 64 are kept. Any thread.
  void note_failure(std::string_view target, const Response& response);
  /// The recorded failures, oldest first. Any thread.
  std::vector<Failure> failures() const;

  /// The timeout of infer requests that name none. Any thread.
  void set_default_timeout(std::chrono::milliseconds timeout) { default_timeout_.store(timeout); }
  std::chrono::milliseconds default_timeout() const {
    return default_timeout_.load(std::memory_order_relaxed);
  }

  /// The reason why /v2/health/ready answers 503; nothing if it answers 200. Any thread; waits for no card.
  struct NotReady {
    std::string reason;
    std::chrono::milliseconds retry_after{0};
  };
  std::optional<NotReady> not_ready(const models::Snapshot& snapshot) const;
  bool ready() const { return !not_ready(*registry_.snapshot()); }

  /// Announces that the server will stop. From now on `ready` says 503, models stay as they are, and answers to
  /// inferences should close their connection, so that clients go elsewhere. Inferences are served as before. Any
  /// thread.
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
  bool allows(std::string_view origin) const;

  const models::Registry& registry_;
  metrics::Metrics& metrics_;
  const ApiOptions options_;
  std::atomic<std::chrono::milliseconds> default_timeout_;
  std::atomic<bool> leaving_{false}, draining_{false};
  mutable std::mutex mutex_;  // failures_
  std::deque<Failure> failures_;
};

/// Whether a model answers. Waits for no card: a health check must be answered at once while one hangs.
bool is_ready(const models::Model& model);

}  // namespace millrace::server::http
