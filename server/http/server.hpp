// The HTTP server. Its listeners accept connections, and one coroutine runs each connection. The control thread
// does slow work, and the scrape thread answers requests for /metrics.
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
  std::vector<ListenAddress> listen = {{}};   // at least one address; port 0: the system chooses
  std::shared_ptr<TlsIdentity> tls;           // for listeners that want TLS
  std::vector<service::PassedSocket> passed;  // the sockets to which "systemd:NAME" can refer
  unsigned io_threads = 1;
  std::size_t max_connections = 16'384;              // further connections get 503; see connections_within()
  std::size_t max_header_bytes = 16'384;             // a longer header gets 431
  std::uint64_t max_body_bytes = 64U << 20U;         // a longer body gets 413; see body_bytes_for()
  std::uint64_t max_held_bytes = 1U << 30U;          // bytes in bodies and answers; beyond them: 503
  std::uint64_t compress_from_bytes = 1'024;         // shortest answer that is compressed; 0: none
  std::chrono::milliseconds idle_timeout{600'000};   // longest time between two requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  // limit from a request's first byte to its header's end
  std::chrono::milliseconds body_timeout{60'000};    // limit from the header's end to the body's end
  std::chrono::milliseconds write_timeout{60'000};
  std::chrono::milliseconds linger{1'000};  // longest time to read on so that the client gets the last answer
};

class Server {
 public:
  /// Binds the addresses, so that a conflict is known before cards are programmed. Clients are refused until start().
  /// All references must outlive the server. Returns kEnvironment if an address cannot be bound: it is in use, belongs
  /// to another machine, needs a permission, or names no passed socket. Returns kInvalidInput if a listener wants TLS
  /// and there is no certificate.
  static Result<std::unique_ptr<Server>> bind(const ServerOptions& options, Api& api,
                                              models::Registry& registry, metrics::Metrics& metrics);

  /// Listens and serves from now on. Must be called once. Returns the same errors as bind().
  virtual Status start() = 0;

  /// Calls bind() and start().
  static Result<std::unique_ptr<Server>> open(const ServerOptions& options, Api& api,
                                              models::Registry& registry, metrics::Metrics& metrics);
  virtual ~Server() = default;  // calls stop(0)

  /// An address that was bound, such as {"http", "127.0.0.1:43211"}, {"https", …}, {"admin", …} or
  /// {"http", "unix:/run/millrace.sock"}. addresses() returns the addresses in the order of the options.
  struct Address {
    std::string kind, text;
  };
  virtual std::vector<Address> addresses() const = 0;
  std::string address() const { return addresses().front().text; }

  /// Announces that the server will stop. /v2/health/ready answers 503, and every answer to a POST closes its
  /// connection, so that load balancers and clients use other servers. All requests are still answered. The server
  /// accepts no more connections from passed sockets: new connections wait for the next process, and accepted ones
  /// close after their next answer. Must be called once, after start(). Any thread may call it.
  virtual void give_notice() = 0;

  /// Whether all connections through passed sockets (which the service manager opened) have sent their last request.
  /// True if no socket was passed. Must be called after give_notice(). Any thread may call it.
  virtual bool handed_over() const = 0;

  /// Closes the server's side of each connection through a passed socket on which no request has begun. A client that
  /// sends a request at the same moment loses its connection. Call after give_notice(). Any thread may call it.
  virtual void dismiss_idle() = 0;

  /// Calls Api::begin_drain(), which refuses new inferences but no other requests. Any thread may call it.
  virtual void begin_drain() = 0;

  /// Whether no request is being answered. Any thread may call it.
  virtual bool idle() const = 0;

  /// Asks every I/O thread for a sign of life, for a watchdog. Returns false, and asks no thread, if a thread has not
  /// answered the previous call. Does not wait. Only one thread may call this function, between start() and stop().
  virtual bool beat() = 0;

  /// Drains for at most `bound`, stops the registry's pipelines (requests still in flight get 503), closes
  /// every connection and ends the threads. Idempotent. Does nothing if the server was not started. Must not
  /// be called from a thread of the server.
  virtual void stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::server::http
