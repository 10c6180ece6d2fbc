// Serves a connection from accept to close. Internal to server/http.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "server/http/connection/request_log.hpp"
#include "server/http/connection/response_head.hpp"
#include "server/http/routes/api.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

/// The functions of a connection that its I/O thread calls.
class Connection {
 public:
  virtual void check_deadline(std::chrono::steady_clock::time_point now) = 0;
  /// Closes the connection after the answer to the current request, or at once if there is no current request.
  virtual void close_when_answered() = 0;
  /// Closes the server's side of a connection that came through a passed socket (a listening socket that the service
  /// manager opened), so that the client sends no more requests on it. Does nothing if a request has begun to arrive.
  virtual void dismiss() = 0;

 protected:
  ~Connection() = default;
};

struct CountDown {
  void operator()(std::atomic<std::size_t>* count) const { count->fetch_sub(1); }
};
/// A pointer to a counter that count_in() has increased by 1. The pointer's destructor subtracts 1 again.
using Counted = std::unique_ptr<std::atomic<std::size_t>, CountDown>;
inline Counted count_in(std::atomic<std::size_t>& count) {
  count.fetch_add(1);
  return Counted(&count);
}

/// A thread that does slow work for all connections.
struct ControlThread {
  static constexpr std::size_t kMostJobs = 64;  // limit of `jobs`, which counts running and waiting jobs

  std::atomic<std::size_t> jobs{0};
  boost::asio::thread_pool pool{1};
};

/// The state that all threads of a server share.
struct ServerState {
  const ServerOptions options;
  Api& api;
  const models::Registry& registry;
  metrics::Metrics& metrics;
  ControlThread control{}, scrapes{};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> answering{0};     // requests that were read and are not yet answered
  std::atomic<std::uint64_t> held_bytes{0};  // bytes of the bodies of requests and answers of all connections
  // The number of connections through passed sockets (listening sockets that the service manager opened) that may still
  // send requests to this process.
  std::atomic<std::size_t> to_hand_over{0};
};

/// The state of one I/O thread. Only that thread uses it. It outlives the thread's connections.
struct ThreadState {
  ThreadState(ServerState& of, unsigned number, boost::asio::io_context* on)
      : server(of), context(on), requests(number, of.registry) {}

  ServerState& server;
  boost::asio::io_context* const context;
  Workspace workspace;
  RequestLog requests;
  DateHeader date;
  std::list<Connection*> connections;
  bool closing = false;
};

/// The properties of a connection that a listener accepted, except its socket.
struct Accepted {
  Access access;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: no TLS
  bool refuse = false;                             // the limit of connections is reached
  Counted connection;                              // points to ServerState::connections
  Counted to_hand_over;                            // null unless the connection came through a passed socket
};

/// Takes ownership of the socket and starts a coroutine that serves the connection until it closes. Called on the
/// I/O thread that `thread` describes.
void serve_connection(boost::asio::generic::stream_protocol::socket socket, ThreadState& thread,
                      Accepted accepted);

}  // namespace millrace::server::http
