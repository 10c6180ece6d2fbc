// Turns a request into its answer, or into the work that produces the answer. Uses no sockets, so that tests can cover
// the whole protocol without a connection.
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

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "server/auth/tokens.hpp"
#include "server/http/infer/inference.hpp"
#include "server/http/message.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

class Api;

/// The state that an I/O thread keeps from one request to the next.
struct Workspace {
  models::Registry::View view;
  auth::Guard::View guard;
  std::string admin;  // who used an admin route in the last call of Api::handle(); empty: nobody
  InferencePool inferences;
};

/// Slow work, which reads card registers or files. It must not run on an I/O thread.
struct ControlJob {
  std::function<Response()> run;
  bool scrape = false;  // the request is for /metrics, which has a separate thread
};
/// Asynchronous work. `start` does not block. It calls its argument exactly once with the answer, on any thread.
struct DeferredJob {
  std::function<void(std::function<void(Response)>)> start;
};
using Outcome = std::variant<Response, ControlJob, DeferredJob, InferencePool::Lease>;

/// The values of the placeholders of a route's pattern, percent-decoded. Empty if the pattern lacks the placeholder.
struct RouteNames {
  std::string_view model;    // the value of {model}
  std::string_view version;  // the value of {version}; empty: the current version
  std::string_view file;     // the value of {file}
};

/// The arguments of a route's handler. The request has passed the checks of the route: method, scope and so on.
struct Call {
  const Api& api;
  const Request& request;
  const RouteNames& names;
  const models::Snapshot& snapshot;
  Workspace& workspace;
  runtime::pipeline::Clock::time_point arrival;
};

/// A row of the table of routes. A pattern is a path with placeholders:
///
///     /v2/models/{model}[/versions/{version}]/infer      the part in brackets may be left out
///     /v2/systemsharedmemory/**                          ** matches zero or more segments
///
/// A placeholder matches exactly one segment that is not empty.
struct Route {
  Method method;  // kOther: any method
  std::string_view pattern;
  auth::Scope scope;  // the scope that a client's token must have
  Outcome (*handler)(const Call&);
};

/// Returns the table of routes. A new route needs one row in the table and one line in README.md; a test checks both.
std::span<const Route> routes();

struct FoundRoute {
  const Route* route = nullptr;  // null: no route matches
  RouteNames names;              // views into the target, or into `decoded`
  std::unique_ptr<std::string[]> decoded;
};

/// Returns the first route whose pattern matches the target's path. The query string, a slash at the end, and the host
/// of an absolute target (RFC 9112, 3.2.2) are ignored. Allocates nothing if the target has no percent-encoded bytes.
FoundRoute find_route(std::string_view target);

/// A failed request, which /v2/millrace/errors lists.
struct Failure {
  std::int64_t unix_ms = 0;
  unsigned status = 0;
  std::string target, body;  // the request's target, cut at 128 bytes; the answer's body, cut at 512 bytes
};

struct ApiOptions {
  std::string server_version;
  std::chrono::milliseconds default_timeout{60'000};  // for infer requests that have no timeout parameter
  const auth::Guard* guard = nullptr;                 // null: nobody needs a token
  std::vector<std::string> cors_origins = {};         // origins whose pages may read answers; "*": all
  models::Repository* repository = nullptr;           // null: no repository; must outlive the Api
  /// The function that changes the faults of a cable between emulated cards. If the cards are real, they have no such
  /// faults, and the function is empty. Any thread may call it.
  std::function<Status(const std::string& cable, const runtime::plan::CableFaults&)> impair = {};
};

class Api {
 public:
  /// `registry` and `metrics` must outlive the Api and every Outcome that it returned.
  Api(const models::Registry& registry, metrics::Metrics& metrics, ApiOptions options)
      : registry_(registry),
        metrics_(metrics),
        options_(std::move(options)),
        default_timeout_(options_.default_timeout) {}

  /// Answers a request. Any thread may call it, but each thread needs its own workspace. `arrival` is the time when the
  /// last byte of the request was read.
  Outcome handle(const Request& request, Workspace& workspace,
                 runtime::pipeline::Clock::time_point arrival) const;

  /// Checks a request before its body is read. Returns the answer if handle() would refuse the request whatever its
  /// body contains: no route matches, or the client's token does not allow the route. Otherwise returns nothing.
  std::optional<Response> refusal(const Request& request, Workspace& workspace) const;

  /// Returns the header lines that let pages of the request's origin read the answer, or "" if they must not.
  std::string cors_headers(const Request& request) const;

  /// Records a request that failed through no fault of the client, or because the server was overloaded. The last 64
  /// records are kept. Any thread may call it.
  void note_failure(std::string_view target, const Response& response);
  /// Returns the recorded failures, oldest first. Any thread may call it.
  std::vector<Failure> failures() const;

  /// Sets the timeout of infer requests that have no timeout parameter. Any thread may call it.
  void set_default_timeout(std::chrono::milliseconds timeout) { default_timeout_.store(timeout); }
  std::chrono::milliseconds default_timeout() const {
    return default_timeout_.load(std::memory_order_relaxed);
  }

  /// Returns the reason why /v2/health/ready answers 503, or nothing if it answers 200. Any thread may call it. Does
  /// not wait for cards.
  struct NotReady {
    std::string reason;
    std::chrono::milliseconds retry_after{0};
  };
  std::optional<NotReady> not_ready(const models::Snapshot& snapshot) const;
  bool ready() const { return !not_ready(*registry_.snapshot()); }

  /// Announces that the server will stop. From now on /v2/health/ready answers 503, models cannot be loaded or
  /// unloaded, and connections should close after answers to POSTs. Inferences are answered. Any thread may call it.
  void give_notice() { leaving_.store(true, std::memory_order_release); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }

  /// Calls give_notice(), and refuses infer requests with 503 from now on. Any thread may call it.
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
  mutable std::mutex mutex_;  // protects failures_
  std::deque<Failure> failures_;
};

/// Whether a model can answer requests. Does not wait for cards, so that a health check is answered even if a card
/// hangs.
bool is_ready(const models::Model& model);

}  // namespace millrace::server::http
