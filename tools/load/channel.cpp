#include "tools/load/channel.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tools/clients/tls_client.hpp"

namespace millrace::load {
namespace {

Channel::Outcome outcome_of_errno(Channel::Outcome again) {
  return errno == EAGAIN || errno == EINTR ? again : Channel::Outcome::kClosed;
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void Channel::Free::operator()(ssl_st* tls) const {
  ::SSL_free(tls);
}

void Channel::open(int socket, ssl_ctx_st* context, const std::string& host) {
  tls_.reset();
  socket_.reset(socket);
  if (context == nullptr) return;
  tls_.reset(::SSL_new(context));
  ::SSL_set_fd(tls_.get(), socket);
  ::SSL_set_connect_state(tls_.get());
  ::SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  clients::expect_host(tls_.get(), host);
}

void Channel::close() {
  tls_.reset();
  socket_.reset();
}

Channel::Outcome Channel::outcome_of(int result) const {
  switch (::SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Outcome::kWantsRead;
    case SSL_ERROR_WANT_WRITE:
      return Outcome::kWantsWrite;
    default:
      return Outcome::kClosed;
  }
}

Channel::Outcome Channel::handshake() {
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(tls_.get());
  return result == 1 ? Outcome::kDone : outcome_of(result);
}

Channel::Outcome Channel::write(std::string_view bytes, std::size_t& count) {
  if (tls_) {
    ::ERR_clear_error();
    const int result = ::SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &count);
    return result == 1 ? Outcome::kDone : outcome_of(result);
  }
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0) return outcome_of_errno(Outcome::kWantsWrite);
  count = static_cast<std::size_t>(sent);
  return Outcome::kDone;
}

Channel::Outcome Channel::read(std::span<char> room, std::size_t& count) {
  if (tls_) {
    ::ERR_clear_error();
    const int result = ::SSL_read_ex(tls_.get(), room.data(), room.size(), &count);
    return result == 1 ? Outcome::kDone : outcome_of(result);
  }
  const ssize_t got = ::recv(socket_.get(), room.data(), room.size(), 0);
  if (got < 0) return outcome_of_errno(Outcome::kWantsRead);
  count = static_cast<std::size_t>(got);
  return got == 0 ? Outcome::kClosed : Outcome::kDone;
}

bool Channel::holds_bytes() const {
  return tls_ != nullptr && ::SSL_pending(tls_.get()) > 0;
}

}  // namespace millrace::load
