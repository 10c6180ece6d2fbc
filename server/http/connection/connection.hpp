// One connection, from accept to close. Internal to server/http.
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

/// What the I/O thread asks of a connection.
class Connection {
 public:
  virtual void check_deadline(std::chrono::steady_clock::time_point now) = 0;
  /// Closes at once if nothing is being answered, else after the answer.
  virtual void close_when_answered() = 0;
  /// If the connection came through a passed socket and no request has begun on it: tells the client that none
  /// will be answered. A request that arrived already is answered first.
  virtual void dismiss() = 0;

 protected:
  ~Connection() = default;
};

struct CountDown {
  void operator()(std::atomic<std::size_t>* count) const { count->fetch_sub(1); }
};
/// One that is counted, as long as this lives.
using Counted = std::unique_ptr<std::atomic<std::size_t>, CountDown>;
inline Counted count_in(std::atomic<std::size_t>& count) {
  count.fetch_add(1);
  return Counted(&count);
}

/// A thread for slow work of all connections.
struct ControlThread {
  static constexpr std::size_t kMostJobs = 64;  // that run or wait

  std::atomic<std::size_t> jobs{0};
  boost::asio::thread_pool pool{1};
};

/// Shared by all threads of a server.
struct ServerState {
  const ServerOptions options;
  Api& api;
  const models::Registry& registry;
  metrics::Metrics& metrics;
  ControlThread control{}, scrapes{};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> answering{0};     // requests read and not yet answered
  std::atomic<std::uint64_t> held_bytes{0};  // bodies of requests and answers, of all connections
  // Connections through passed sockets that may still ask for something: the next process serves new ones.
  std::atomic<std::size_t> to_hand_over{0};
};

/// State of one I/O thread, which alone touches it. Outlives its connections.
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

/// A connection that a listener accepted, without its socket.
struct Accepted {
  Access access;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: no TLS
  bool refuse = false;                             // the limit of connections is reached
  Counted connection;                              // in ServerState::connections
  Counted to_hand_over;                            // null: not through a passed socket
};

/// Takes the socket over and runs until the connection closes. On the thread of `thread`.
void serve_connection(boost::asio::generic::stream_protocol::socket socket, ThreadState& thread,
                      Accepted accepted);

}  // namespace millrace::server::http
