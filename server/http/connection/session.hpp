// One connection, from accept to close. Internal to the folder: Asio here and in transport.hpp, Beast in
// beast_request.hpp, incoming, session.cpp and response_head.cpp only.
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
#include <utility>

#include "server/http/routes/api.hpp"
#include "server/http/connection/date.hpp"
#include "server/http/connection/request_log.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

/// What the I/O thread asks of a connection.
class Connection {
 public:
  virtual void check_deadline(std::chrono::steady_clock::time_point now) = 0;
  /// Closes now where nothing is being answered, else after the answer.
  virtual void close_when_answered() = 0;
  /// Where the connection came through a passed socket and no request has begun on it: tells the client that
  /// none will be answered. A request that arrived already is answered first.
  virtual void dismiss() = 0;

 protected:
  ~Connection() = default;
};

/// A thread for slow work of all connections, and a bound on what waits for it.
struct ControlThread {
  static constexpr unsigned kMostJobs = 64;  // that run or wait

  struct Leave {
    void operator()(std::atomic<unsigned>* count) const { count->fetch_sub(1); }
  };
  /// Of one job, until it has run.
  using Place = std::unique_ptr<std::atomic<unsigned>, Leave>;

  /// Null where too many wait. Any thread.
  Place enter() {
    Place place(&jobs);
    return jobs.fetch_add(1) < kMostJobs ? std::move(place) : nullptr;
  }

  std::atomic<unsigned> jobs{0};
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

/// Of one I/O thread, touched by it alone. Outlives its sessions.
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

enum class Admission { kServe, kRefuse };

/// What the listener a connection came through says of it.
struct Entrance {
  Gate gate;
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: bare
  bool passed = false;                             // the service manager's socket: counted in to_hand_over
};

/// Takes the socket over; runs until the connection closes. On the thread of `thread`.
void start_session(boost::asio::generic::stream_protocol::socket socket, ThreadState& thread,
                   Admission admission, Entrance entrance);

}  // namespace millrace::server::http
