// The table of routes: which handler answers which request.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/auth/tokens.hpp"
#include "server/http/infer/inference.hpp"
#include "server/http/message.hpp"
#include "server/http/routes/pattern.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

class Api;

/// What a thread that answers requests keeps between them.
struct Workspace {
  models::Registry::View view;
  auth::Guard::View guard;
  std::string admin;  // who used an admin route with the last request that Api::handle() took; empty: nobody
  InferencePool inferences;  // outlives those that it gave
};

/// Work that may take long (card registers, files): run it away from the I/O threads.
struct ControlJob {
  std::function<Response()> run;
  bool scrape = false;  // Prometheus waits only shortly: do not queue it behind others
};
/// Work that is done elsewhere. `start` does not wait; it calls the function that it is given once, on any thread.
struct DeferredJob {
  std::function<void(std::function<void(Response)>)> start;
};
using Outcome = std::variant<Response, ControlJob, DeferredJob, InferencePool::Lease>;

/// A request that has passed the checks of its route, as the route's handler gets it.
struct Call {
  const Api& api;
  const Request& request;
  const RouteNames& names;
  const models::Snapshot& snapshot;
  Workspace& workspace;
  runtime::pipeline::Clock::time_point arrival;
};

/// A row of the table.
struct Route {
  Method method;             // the one it answers to; kOther: any
  std::string_view pattern;  // as match() takes it
  auth::Scope scope;         // what a client must be allowed
  Outcome (*handler)(const Call&);
};

/// The table. A new route is one line there and its line in README.md, which a test compares. The first row that
/// matches counts.
std::span<const Route> routes();

struct FoundRoute {
  const Route* route = nullptr;  // null: there is no such route
  RouteNames names;
};
FoundRoute find_route(std::string_view target);

/// The handler of inferences, for Api::handle(), which finds nearly all of them without the table. Allocates
/// nothing once the workspace is warm, as far as the request is binary.
Outcome infer(const Api& api, const Request& request, const InferTarget& target, Workspace& workspace,
              runtime::pipeline::Clock::time_point arrival);

/// The answer to a request for what is known and not offered.
Response not_offered_response(const Request& request);

}  // namespace millrace::server::http
