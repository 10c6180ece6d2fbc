// The HTTP server: listeners that only accept, one coroutine a connection, one thread for slow work and one for
// scrapes of /metrics.
//
//   listener ─▶ connection (I/O thread) ─▶ Api ─▶ answer now
//                                            ├─▶ control or scrape thread ─▶ back to the connection
//                                            └─▶ pipeline ─▶ back to the connection
//
// Every connection belongs to one I/O thread. Every read and write has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/base/service.hpp"
#include "server/http/connection/address.hpp"
#include "server/http/connection/tls.hpp"
#include "server/http/routes/api.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

struct ServerOptions {
  std::vector<ListenAddress> listen = {{}};   // at least one; port 0: the system chooses
  std::shared_ptr<TlsIdentity> tls;           // for listeners that want TLS
  std::vector<service::PassedSocket> passed;  // where "systemd:NAME" is looked up
  unsigned io_threads = 1;
  std::size_t max_connections = 16'384;       // above: 503 and closed; see connections_within()
  std::size_t max_header_bytes = 16'384;      // above: 431
  std::uint64_t max_body_bytes = 64U << 20U;  // above: 413; see body_bytes_for()
  std::uint64_t max_held_bytes = 1U << 30U;   // bodies and answers of all connections together; above: 503
  std::uint64_t compress_from_bytes = 1'024;  // answers, for clients that accept a coding; 0: never
  std::chrono::milliseconds idle_timeout{600'000};   // between two requests
  std::chrono::milliseconds header_timeout{10'000};  // from a request's first byte to the end of its header
  std::chrono::milliseconds body_timeout{60'000};    // from there to the end of its body
  std::chrono::milliseconds write_timeout{60'000};
  std::chrono::milliseconds linger{1'000};  // reading on after the last answer, so that the client sees it
};

class Server {
 public:
  /// Takes the addresses, so that a conflict is known before cards are programmed. Clients are refused until
  /// start(). All references must outlive the server. kEnvironment if an address cannot be had (in use, not
  /// ours, no permission, no such passed socket); kInvalidInput if a listener wants TLS and there is no
  /// certificate.
  static Result<std::unique_ptr<Server>> bind(const ServerOptions& options, Api& api,
                                              models::Registry& registry, metrics::Metrics& metrics);

  /// Listens and serves from now on. Once; errors as bind().
  virtual Status start() = 0;

  /// bind() and start().
  static Result<std::unique_ptr<Server>> open(const ServerOptions& options, Api& api,
                                              models::Registry& registry, metrics::Metrics& metrics);
  virtual ~Server() = default;  // as stop(0)

  /// What was bound, in the order of the options: {"http", "127.0.0.1:43211"}, {"https", …}, {"http",
  /// "unix:/run/millrace.sock"}, {"admin", …}.
  struct Address {
    std::string kind, text;
  };
  virtual std::vector<Address> addresses() const = 0;
  std::string address() const { return addresses().front().text; }

  /// From now on `ready` says 503 and every answer to a POST closes its connection, so that load balancers and
  /// clients turn elsewhere; everything is still served. Passed sockets are no longer accepted from:
  /// connections to them wait for the next process, and every answer on one that was accepted closes it. Any
  /// thread, after start(); once.
  virtual void give_notice() = 0;

  /// After give_notice(): whether no connection through a passed socket can ask for anything more. True if no
  /// socket was passed. Any thread.
  virtual bool handed_over() const = 0;

  /// After give_notice(): closes this side of the connections through passed sockets on which no request has
  /// begun. A client that sends one at this very moment sees its connection end. Any thread.
  virtual void dismiss_idle() = 0;

  /// As give_notice(), and new inferences are refused; everything else goes on. Any thread.
  virtual void begin_drain() = 0;

  /// Whether no request is being answered. Any thread.
  virtual bool idle() const = 0;

  /// For a watchdog: asks every I/O thread for a sign of life. Returns false, and asks nobody, if a thread has
  /// not answered the call before. Waits for nothing. By one thread, between start() and stop().
  virtual bool beat() = 0;

  /// Drains for at most `bound`, stops the registry's pipelines (what is still in flight gets 503), closes
  /// every connection and ends the threads. Idempotent; not from a thread of the server; nothing if it was not
  /// started.
  virtual void stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::server::http
