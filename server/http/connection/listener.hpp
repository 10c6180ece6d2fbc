// Binds a listening socket, accepts its connections and closes it. Internal to server/http.
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

/// A listening socket. At first only the thread that created it may use it. Once the first context's thread runs, only
/// that thread may use it.
class Listener {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Admit = std::function<void(Socket, std::size_t thread, const Listener&)>;

  /// Connections are distributed over `contexts`, which belong to the I/O threads. The first context accepts them.
  Listener(std::vector<boost::asio::io_context*> contexts, const ListenAddress& address,
           const ServerOptions& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Binds the address, or takes over a socket that the service manager opened and passed to this process. Returns
  /// kEnvironment if that fails.
  Status bind();

  /// Lets clients connect. `admit` is called for every connection, with the index of the connection's thread.
  Status start(Admit admit);
  /// Stops accepting. A connection whose accept has completed already is still admitted. A socket that the service
  /// manager passed to this process stays open there, where new connections wait for the next process.
  void close();

  /// Whether the service manager opened the socket and keeps it open when this process ends.
  bool passed() const { return std::holds_alternative<Passed>(wanted_.at); }

  Server::Address address() const;
  /// Returns the properties that all connections of this listener share.
  Accepted accepted() const;

 private:
  // bind_tcp(), bind_unix() and take_tcp_address() throw boost::system::system_error.
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
  std::string unlink_;          // the file of the Unix socket, to be deleted; empty: no file
  bool listening_ = false;      // the socket was passed by the service manager and listens already
  bool cannot_accept_ = false;  // the last accept failed, and the log says so
};

}  // namespace millrace::server::http
