// A connection's bytes: over TCP or a Unix socket, bare or in TLS. Internal to the folder.
#pragma once

#include <netinet/in.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace millrace::server::http {

using Socket = boost::asio::generic::stream_protocol::socket;

/// Handlers run on the socket's executor; whoever owns this keeps it until they have.
class Transport {
 public:
  using error_code = boost::system::error_code;

  /// `tls` null: bare.
  Transport(Socket socket, std::shared_ptr<boost::asio::ssl::context> tls) : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(socket_, std::move(tls));
  }

  bool secure() const { return tls_ != nullptr; }
  Socket& socket() { return socket_; }

  /// Before anything else where it is secure().
  template <class Handler>
  void async_handshake(Handler handler) {
    tls_->stream.async_handshake(boost::asio::ssl::stream_base::server, std::move(handler));
  }

  /// Says goodbye and waits for the other side's; where it is secure().
  template <class Handler>
  void async_shutdown(Handler handler) {
    tls_->stream.async_shutdown(std::move(handler));
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler handler) {
    if (tls_)
      tls_->stream.async_read_some(buffers, std::move(handler));
    else
      socket_.async_read_some(buffers, std::move(handler));
  }

  template <class Buffers, class Handler>
  void async_write(const Buffers& buffers, Handler handler) {
    if (tls_)
      boost::asio::async_write(tls_->stream, buffers, std::move(handler));
    else
      boost::asio::async_write(socket_, buffers, std::move(handler));
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

/// The same number for all connections of one machine (an IPv4 address, an IPv6 /64). What comes from this
/// machine, or through a Unix socket, may be anybody's: `otherwise` for it.
inline std::uint64_t client_of(const Socket& socket, std::uint64_t otherwise) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return otherwise;
  const auto* address = static_cast<const sockaddr*>(peer.data());
  if (address->sa_family == AF_INET) {
    const std::uint32_t v4 = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    return v4 >> 24U == 127 ? otherwise : v4;
  }
  if (address->sa_family != AF_INET6) return otherwise;
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  std::uint64_t network = 0;
  std::memcpy(&network, &v6, sizeof network);
  return IN6_IS_ADDR_LOOPBACK(&v6) ? otherwise : network;
}

}  // namespace millrace::server::http
