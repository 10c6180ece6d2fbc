#include "server/http/connection/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <utility>

#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "server/http/connection/peer.hpp"

namespace millrace::server::http {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using Generic = net::generic::stream_protocol;
using Local = net::local::stream_protocol;

constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr mode_t kSocketMode = 0660;  // only owner and group may connect to a Unix socket

}  // namespace

Listener::Listener(std::vector<net::io_context*> contexts, const ListenAddress& address,
                   const ServerOptions& options)
    : wanted_(address),
      options_(options),
      contexts_(std::move(contexts)),
      acceptor_(*contexts_.front()),
      retry_timer_(*contexts_.front()) {
  access_.admin = address.admin || std::none_of(options.listen.begin(), options.listen.end(),
                                                [](const ListenAddress& other) { return other.admin; });
}

Listener::~Listener() {
  if (!unlink_.empty()) ::unlink(unlink_.c_str());
}

Error Listener::failed(const error_code& error) const {
  const bool taken = error == net::error::address_in_use;
  return Error(
      ErrorCode::kEnvironment,
      "cannot listen on " + to_string(wanted_) + ": " + error.message() +
          (taken ? "; stop the program that uses the address, or choose another port (0: any free port)"
                 : ""));
}

Status Listener::bind() {
  if (wanted_.tls && !options_.tls)
    return Error(ErrorCode::kInvalidInput,
                 "listener " + to_string(wanted_) + " requires TLS: configure a certificate and a key");
  try {
    if (const auto* passed = std::get_if<Passed>(&wanted_.at)) return take_passed(*passed);
    if (const auto* path = std::get_if<UnixPath>(&wanted_.at))
      bind_unix(*path);
    else
      bind_tcp(std::get<HostPort>(wanted_.at));
    return {};
  } catch (const boost::system::system_error& error) {
    return failed(error.code());
  }
}

void Listener::bind_tcp(const HostPort& where) {
  tcp::resolver resolver(*contexts_.front());
  const auto found = resolver.resolve(where.host, std::to_string(where.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(Generic(endpoint.protocol()));
  acceptor_.set_option(net::socket_base::reuse_address(true));
  acceptor_.bind(Generic::endpoint(endpoint));
  take_tcp_address();
}

void Listener::take_tcp_address() {
  const auto bound = acceptor_.local_endpoint();
  access_.trusted = access_.loopback = tcp_endpoint(*bound.data())->address().is_loopback();
  address_ = text_of(*bound.data());
}

void Listener::bind_unix(const UnixPath& where) {
  if (is_stale_socket(where.path, SOCK_STREAM)) ::unlink(where.path.c_str());
  acceptor_.open(Generic(Local()));
  acceptor_.bind(Generic::endpoint(Local::endpoint(where.path)));
  unlink_ = where.path;
  if (::chmod(where.path.c_str(), kSocketMode) != 0)
    throw boost::system::system_error(errno, boost::system::system_category());
  address_ = "unix:" + where.path;
}

Status Listener::take_passed(const Passed& where) {
  const auto found = std::find_if(options_.passed.begin(), options_.passed.end(),
                                  [&](const auto& socket) { return socket.name == where.name; });
  if (found == options_.passed.end()) {
    std::string names;
    for (const auto& socket : options_.passed) names += (names.empty() ? "" : ", ") + socket.name;
    return Error(ErrorCode::kEnvironment, "no socket named '" + where.name +
                                              "' was passed by the service manager; "
                                              "passed: " +
                                              (names.empty() ? "none" : names));
  }
  const int fd = ::fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  int listening = 0;
  socklen_t size = sizeof listening;
  if (fd < 0 || ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0 ||
      ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
    if (fd >= 0) ::close(fd);
    return Error(ErrorCode::kEnvironment,
                 "the passed socket '" + where.name + "' is not a listening stream socket (ListenStream=)");
  }
  error_code error;
  acceptor_.assign(Generic(name.ss_family, 0), fd, error);
  if (error) ::close(fd);
  if (error) return failed(error);
  listening_ = true;
  if (name.ss_family == AF_UNIX)
    address_ = "unix:" + std::string(reinterpret_cast<const sockaddr_un*>(&name)->sun_path);
  else
    take_tcp_address();
  return {};
}

Status Listener::start(Admit admit) {
  admit_ = std::move(admit);
  error_code error;
  if (!listening_) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  accept();
  return {};
}

void Listener::close() {
  error_code ignored;
  // Use release(), because acceptor_.close() would not remove a socket of the service manager, which keeps a descriptor
  // of it, from the reactor's epoll set. Every client that waits for the next process would then wake this process.
  if (acceptor_.is_open()) ::close(acceptor_.release(ignored));
  retry_timer_.cancel();
  if (!unlink_.empty()) ::unlink(std::exchange(unlink_, {}).c_str());
}

Server::Address Listener::address() const {
  return {wanted_.admin ? "admin" : wanted_.tls ? "https" : "http", address_};
}

Accepted Listener::accepted() const {
  Accepted out;
  out.access = access_;
  if (wanted_.tls) out.tls = options_.tls->context();
  return out;
}

void Listener::accept() {
  const std::size_t thread = next_++ % contexts_.size();
  acceptor_.async_accept(*contexts_[thread], [this, thread](error_code error, Socket socket) {
    if (error == net::error::operation_aborted) return;
    if (error) return retry(error);
    if (std::exchange(cannot_accept_, false)) log::info("http", "accepting connections again");
    admit_(std::move(socket), thread, *this);  // also after close(), because the client is connected
    if (acceptor_.is_open()) accept();
  });
}

/// Accepts again after a pause. An accept that fails usually means that no descriptor is free; the connection then
/// waits in the backlog. Logs the first failure only, not every retry.
void Listener::retry(const error_code& error) {
  if (!acceptor_.is_open()) return;
  if (!std::exchange(cannot_accept_, true))
    log::warning("http", "cannot accept connections: " + error.message());
  retry_timer_.expires_after(kAcceptRetry);
  retry_timer_.async_wait([this](error_code cancelled) {
    if (!cancelled && acceptor_.is_open()) accept();
  });
}

}  // namespace millrace::server::http
