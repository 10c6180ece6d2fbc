#include "udp_socket.hpp"

#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::client {

UdpSocket::~UdpSocket() {
  if (fd_ >= 0) ::close(fd_);
}

Status UdpSocket::open(const HostPort& url, std::size_t datagram_bytes, std::chrono::microseconds poll) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0)
    return {Code::kInvalid, "host '" + url.host + "' does not resolve: " + gai_strerror(error)};
  fd_ = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool connected = fd_ >= 0 && ::connect(fd_, found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (!connected)
    return {Code::kUnavailable, "udp://" + url.host + ":" + url.port + ": " + std::strerror(error)};

  const int buffer = 4 << 20;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  poll_ = poll;
  const timeval wait{poll.count() / 1000000, poll.count() % 1000000};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);

  // Receive one byte more than allowed, so that datagrams that are too long can be recognised.
  datagram_bytes_ = datagram_bytes + 1;
  room_ = std::make_unique_for_overwrite<std::byte[]>(kBatch * datagram_bytes_);
  for (std::size_t i = 0; i < kBatch; ++i) {
    parts_[i] = {room_.get() + i * datagram_bytes_, datagram_bytes_};
    messages_[i].msg_hdr.msg_iov = &parts_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
  return {};
}

void UdpSocket::send(std::span<const Piece> pieces) {
  std::array<mmsghdr, kBatch> messages;
  std::array<std::array<iovec, 2>, kBatch> parts;
  const std::size_t count = std::min(pieces.size(), kBatch);
  for (std::size_t i = 0; i < count; ++i) {
    // sendmsg() does not write to these buffers, although its parameter type would allow it to.
    parts[i][0] = {const_cast<std::byte*>(pieces[i].head.data()), pieces[i].head.size()};
    parts[i][1] = {const_cast<std::byte*>(pieces[i].payload.data()), pieces[i].payload.size()};
    messages[i] = {};
    messages[i].msg_hdr.msg_iov = parts[i].data();
    messages[i].msg_hdr.msg_iovlen = pieces[i].payload.empty() ? 1 : 2;
  }
  // The kernel may report that an earlier datagram was refused instead of sending this one. In that case, send again.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto sent = count == 1 ? sendmsg(fd_, &messages[0].msg_hdr, 0)
                                 : sendmmsg(fd_, messages.data(), static_cast<unsigned>(count), 0);
    if (sent >= 0) return;
    if (errno == ECONNREFUSED) ++refusals_;
  }
}

std::size_t UdpSocket::receive(Clock::time_point now, Clock::time_point until, bool several) {
  if (until - now < poll_) {
    const auto ns = std::max<std::int64_t>(std::chrono::nanoseconds(until - now).count(), 0);
    const timespec time{ns / 1000000000, ns % 1000000000};
    pollfd wait{fd_, POLLIN, 0};
    if (ppoll(&wait, 1, &time, nullptr) <= 0) return 0;
  }
  int count = -1;
  if (several) {
    count = recvmmsg(fd_, messages_.data(), kBatch, MSG_WAITFORONE, nullptr);
  } else if (const auto bytes = recv(fd_, room_.get(), datagram_bytes_, 0); bytes >= 0) {
    messages_[0].msg_len = static_cast<unsigned>(bytes);
    count = 1;
  }
  if (count > 0) {
    refusals_ = 0;
    return static_cast<std::size_t>(count);
  }
  if (count < 0 && errno == ECONNREFUSED) ++refusals_;
  return 0;
}

}  // namespace millrace::client
