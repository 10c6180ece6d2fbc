// One listening socket: taken, opened to clients, closed. Internal to the folder.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "server/http/connection/connection.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

/// Used by the thread of its context; before that runs, by the thread that made it.
class Listener {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Admit = std::function<void(Socket, std::size_t thread, const Listener&)>;

  /// `contexts`: of the threads among which the connections are divided. The first one accepts.
  Listener(std::vector<boost::asio::io_context*> contexts, const ListenAddress& address,
           const ServerOptions& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Takes the address. kEnvironment if that fails.
  Status bind();

  /// Clients may connect from now on. `admit` is called for every connection with the index of its thread.
  Status start(Admit admit);
  /// No further connection is admitted, except one that was accepted already and is on its way here. A passed
  /// socket stays open in the service manager, and connections to it wait there for the next process.
  void close();

  /// Whether the service manager opened the socket and keeps it open when this process ends.
  bool passed() const { return std::holds_alternative<Passed>(wanted_.at); }

  Server::Address address() const;
  /// The properties that all connections of this listener share.
  Accepted accepted() const;

 private:
  // These throw boost::system::system_error.
  void bind_tcp(const HostPort& where);
  void bind_unix(const UnixPath& where);
  void take_tcp_address();
  Status take_passed(const Passed& where);
  Error failed(const boost::system::error_code& error) const;
  void accept();
  void retry(const boost::system::error_code& error);

  const ListenAddress wanted_;
  const ServerOptions& options_;
  const std::vector<boost::asio::io_context*> contexts_;
  std::size_t next_ = 0;  // index of the next connection's thread
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  boost::asio::steady_timer retry_timer_;
  Admit admit_;
  Access access_;
  std::string address_;
  std::string unlink_;          // the file of our Unix socket
  bool listening_ = false;      // the service manager passed a socket that listens already
  bool cannot_accept_ = false;  // the last accept failed, and the log says so
};

}  // namespace millrace::server::http
