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

#include "server/http/connection/connection.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

/// Used by the thread of its context; before that runs, by the thread that made it.
class Listener {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  /// Where the next connection goes: a thread, and its context.
  struct Target {
    std::size_t thread;
    boost::asio::io_context& context;
  };
  using Choose = std::function<Target()>;
  using Admit = std::function<void(Socket, std::size_t thread, const Listener&)>;

  Listener(boost::asio::io_context& context, const ListenAddress& address, const ServerOptions& options);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Takes the address. kEnvironment if that fails.
  Status bind();

  /// Clients may connect from now on. `choose` and `admit` are called for every connection.
  Status start(Choose choose, Admit admit);
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
  boost::asio::io_context& context_;
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  boost::asio::steady_timer retry_timer_;
  Choose choose_;
  Admit admit_;
  Access access_;
  std::string address_;
  std::string unlink_;          // the file of our Unix socket
  bool listening_ = false;      // the service manager passed a socket that listens already
  bool cannot_accept_ = false;  // the last accept failed, and the log says so
};

}  // namespace millrace::server::http
