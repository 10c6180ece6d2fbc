// A connection's bytes: over TCP or a Unix socket, with or without TLS. Internal to the folder.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "server/http/connection/client_key.hpp"

namespace millrace::server::http {

using Socket = boost::asio::generic::stream_protocol::socket;

/// Handlers run on the socket's executor. The owner keeps this object until they have run.
class Transport {
 public:
  using error_code = boost::system::error_code;

  /// `tls` null: no TLS.
  Transport(Socket socket, std::shared_ptr<boost::asio::ssl::context> tls) : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(socket_, std::move(tls));
  }

  bool secure() const { return tls_ != nullptr; }
  Socket& socket() { return socket_; }
  bool is_open() const { return socket_.is_open(); }

  /// Before anything else, if it is secure().
  template <class Handler>
  void async_handshake(Handler handler) {
    tls_->stream.async_handshake(boost::asio::ssl::stream_base::server, std::move(handler));
  }

  /// If it is secure(): sends TLS's goodbye and waits for the client's.
  template <class Handler>
  void async_shutdown(Handler handler) {
    tls_->stream.async_shutdown(std::move(handler));
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    tls_ ? tls_->stream.async_read_some(buffers, std::move(handler))
         : socket_.async_read_some(buffers, std::move(handler));
  }

  template <class Buffers, class Handler>
  void async_write(const Buffers& buffers, Handler handler) {
    tls_ ? boost::asio::async_write(tls_->stream, buffers, std::move(handler))
         : boost::asio::async_write(socket_, buffers, std::move(handler));
  }

  void cancel() {
    error_code ignored;
    socket_.cancel(ignored);
  }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  struct Tls {
    Tls(Socket& socket, std::shared_ptr<boost::asio::ssl::context> of)
        : context(std::move(of)), stream(socket, *context) {}
    std::shared_ptr<boost::asio::ssl::context> context;
    boost::asio::ssl::stream<Socket&> stream;
  };

  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

/// client_key() of the socket's peer.
inline std::uint64_t client_of(const Socket& socket, std::uint64_t otherwise) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  return error ? otherwise : client_key(*static_cast<const sockaddr*>(peer.data()), otherwise);
}

}  // namespace millrace::server::http
